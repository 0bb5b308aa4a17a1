#include "harpe/base/temporary_folder.h"

#include <gtest/gtest.h>
#include <sys/file.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <csignal>
#include <fstream>
#include <functional>
#include <set>

#include "harpe/base/eventually_testing.h"
#include "harpe/base/test_directory_testing.h"

namespace harpe {
namespace {

namespace fs = std::filesystem;

class TemporaryFolderTest : public testing::Test {
 protected:
  TemporaryFolderTest() {
    fs::permissions(directory_.path(), fs::perms{01777}, fs::perm_options::replace);
  }

  /// Runs `body` in a process that is then killed.
  static void in_killed_process(const std::function<void()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      body();
      ::kill(::getpid(), SIGKILL);
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFSIGNALED(status));
  }

  TemporaryFolder made() const {
    return TemporaryFolder::make_hidden(directory_.path(), "test").take();
  }

  std::set<fs::path> others_than(const TemporaryFolder& one) const {
    std::set<fs::path> others;
    for (const auto& entry : fs::directory_iterator(directory_.path())) {
      if (entry.path() != one.path()) others.insert(entry.path().filename());
    }
    return others;
  }

  /// Makes a folder like the leftovers of killed processes.
  /// \param host  the name in the lock file; empty for this machine
  fs::path leftover(const std::string& name, const std::string& lock = "lock",
                    const std::string& host = {}) const {
    std::array<char, 256> here{};
    ::gethostname(here.data(), here.size() - 1);
    const fs::path folder = directory_ / name;
    fs::create_directory(folder);
    fs::permissions(folder, fs::perms{0700}, fs::perm_options::replace);
    if (!lock.empty()) std::ofstream(folder / lock) << (host.empty() ? here.data() : host);
    return folder;
  }

  const TestDirectory directory_;
};

TEST_F(TemporaryFolderTest, IsForItsUserAloneAndGoneWithAllThatIsInIt) {
  fs::path path;
  {
    const TemporaryFolder folder = made();
    path = folder.path();
    EXPECT_EQ(fs::status(path).permissions(), fs::perms{0700});
    fs::create_directories(path / "a" / "b");
    std::ofstream(path / "a" / "c") << "text";
  }
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(TemporaryFolderTest, WhatAKilledProcessLeftIsRemovedByTheNext) {
  in_killed_process([&] {
    const TemporaryFolder folder = made();
    std::ofstream(folder.path() / "a") << "text";
    ::kill(::getpid(), SIGKILL);
  });
  ASSERT_FALSE(fs::is_empty(directory_.path()));
  EXPECT_TRUE(others_than(made()).empty());
}

TEST_F(TemporaryFolderTest, OfALivingProcessIsKept) {
  const TemporaryFolder one = made(), other = made();
  EXPECT_TRUE(fs::exists(one.path()));
  in_killed_process([&] { (void)made(); });
  EXPECT_TRUE(fs::exists(one.path()));
  EXPECT_TRUE(fs::exists(other.path()));
}

TEST_F(TemporaryFolderTest, IsKeptWhileACommandThatItsKilledProcessStartedRuns) {
  std::array<int, 2> input{};
  ASSERT_EQ(::pipe2(input.data(), O_CLOEXEC), 0);
  in_killed_process([&] {
    const TemporaryFolder folder = made();
    if (::fork() == 0) {
      ::dup2(input[0], STDIN_FILENO);
      ::execlp("cat", "cat", nullptr);
    }
    ::kill(::getpid(), SIGKILL);
  });
  EXPECT_EQ(others_than(made()).size(), 1U);
  ::close(input[0]);
  ::close(input[1]);  // makes cat exit
  EXPECT_TRUE(eventually([&] { return others_than(made()).empty(); }));
}

TEST_F(TemporaryFolderTest, WhatIsNotKnownToBeALeftoverIsKept) {
  leftover("harpe-results", "");
  fs::create_directory(directory_ / "outside");
  leftover("other-test-abcdef");
  fs::create_directory_symlink(leftover("linked"), directory_ / "harpe-test-linked");
  fs::create_symlink("/dev/null", leftover("harpe-test-device", "") / "lock");
  fs::permissions(leftover("harpe-test-open"), fs::perms{0755}, fs::perm_options::replace);
  std::set<fs::path> kept = {"harpe-results",  "outside",           "other-test-abcdef",
                             "linked",         "harpe-test-linked", "harpe-test-device",
                             "harpe-test-open"};
  if (::geteuid() == 0) {
    ASSERT_EQ(::chown(leftover("harpe-test-theirs").c_str(), 65534, 65534), 0);
    kept.insert("harpe-test-theirs");
  }
  // On network file systems, a file locked by another machine may look unlocked.
  leftover("harpe-test-elsewhere", "lock", "another-host");
  kept.insert("harpe-test-elsewhere");
  leftover("harpe-test-abcdef");
  fs::create_directory_symlink(directory_ / "outside", leftover("harpe-test-links") / "link");
  EXPECT_EQ(others_than(made()), kept);
}

TEST_F(TemporaryFolderTest, WhereOthersMayRenameNothingIsRemoved) {
  leftover("harpe-test-abcdef");
  fs::permissions(directory_.path(), fs::perms{0777}, fs::perm_options::replace);
  EXPECT_EQ(others_than(made()).size(), 1U);
}

TEST_F(TemporaryFolderTest, ThatCannotBeMadeIsAnError) {
  const auto folder = TemporaryFolder::make_hidden(directory_ / "none", "test");
  ASSERT_FALSE(folder.ok());
  EXPECT_EQ(folder.error().code, ErrorCode::kIo);
}

}  // namespace
}  // namespace harpe
