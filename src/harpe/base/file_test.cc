#include "harpe/base/file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <functional>

#include "harpe/base/digest.h"
#include "harpe/base/test_directory_testing.h"

namespace harpe {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

/// Runs `body` in a child process, where limits can be set, and returns its exit status.
int in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

class File : public testing::Test {
 protected:
  std::size_t files() const {
    return static_cast<std::size_t>(
        std::distance(fs::directory_iterator(directory_.path()), fs::directory_iterator()));
  }

  const TestDirectory directory_;
};

TEST_F(File, IsReadBackAsWritten) {
  for (const std::size_t size :
       {std::size_t{0}, std::size_t{1}, std::size_t{65536}, std::size_t{300001}}) {
    std::string content(size, 'x');
    for (std::size_t i = 0; i < size; ++i) content[i] = static_cast<char>(i * 7);
    ASSERT_TRUE(write_file(directory_ / "a", content).ok());
    const auto read = read_file(directory_ / "a");
    ASSERT_TRUE(read.ok());
    EXPECT_TRUE(*read == content) << size;
  }
  EXPECT_EQ(files(), 1);
}

TEST_F(File, AProcessThatIsKilledWhileItWritesLeavesNothing) {
  const int status = in_child([&] {
    const rlimit small{.rlim_cur = 4096, .rlim_max = 4096};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const rlimit none{};
    ::setrlimit(RLIMIT_CORE, &none);
    return write_file(directory_ / "a", std::string(1 << 20, 'x')).ok() ? 0 : 1;
  });
  EXPECT_EQ(status, -1) << "SIGXFSZ ends it";
  EXPECT_EQ(files(), 0);
}

TEST_F(File, NewOnesFollowTheUmaskAndReplacedOnesKeepTheirMode) {
  const fs::path path = directory_ / "a";
  const mode_t umask_before = ::umask(022);
  ASSERT_TRUE(write_file(path, "1").ok());
  ::umask(umask_before);
  EXPECT_EQ(fs::status(path).permissions(), fs::perms{0644});
  fs::permissions(path, fs::perms{0600});
  ASSERT_TRUE(write_file(path, "2").ok());
  EXPECT_EQ(fs::status(path).permissions(), fs::perms{0600});
}

TEST_F(File, WritingThroughALinkKeepsTheLink) {
  ASSERT_TRUE(write_file(directory_ / "a", "1").ok());
  fs::create_symlink("a", directory_ / "link");
  ASSERT_TRUE(write_file(directory_ / "link", "2").ok());
  EXPECT_TRUE(fs::is_symlink(directory_ / "link"));
  EXPECT_EQ(*read_file(directory_ / "a"), "2");
}

TEST_F(File, DevicesAreWrittenToAndStay) {
  EXPECT_TRUE(write_file("/dev/null", "x").ok());
  EXPECT_TRUE(fs::is_character_file("/dev/null"));
  const Status full = write_file("/dev/full", "x");
  ASSERT_FALSE(full.ok());
  EXPECT_EQ(full.error().text(), "/dev/full: cannot write: No space left on device");
}

TEST_F(File, ThatDoesNotFitLeavesNothingBehind) {
  const fs::path path = directory_ / "a";
  ASSERT_TRUE(write_file(path, "before").ok());
  const int status = in_child([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{4096, 4096};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
    const Status written = write_file(path, std::string(1 << 20, 'x'));
    if (written.ok()) return 11;
    if (written.error().code != ErrorCode::kIo) return 12;
    return written.error().text() == path.string() + ": cannot write: File too large" ? 0 : 13;
  });
  EXPECT_EQ(status, 0);
  EXPECT_EQ(*read_file(path), "before");
  EXPECT_EQ(files(), 1);
}

TEST_F(File, CannotBeWrittenWhereItsDirectoryIsMissingOrNoDirectory) {
  const Status missing = write_file(directory_ / "no" / "a", "x");
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().text(), HasSubstr("No such file or directory"));
  EXPECT_THAT(missing.error().text(), HasSubstr((directory_ / "no" / "a").string()));
  EXPECT_FALSE(write_file(directory_.path(), "x").ok());
  ASSERT_TRUE(write_file(directory_ / "a", "x").ok());
  EXPECT_FALSE(write_file(directory_ / "a" / "b", "x").ok());
}

TEST_F(File, CannotBeReadWhereMissingOrADirectory) {
  const auto missing = read_file(directory_ / "a");
  ASSERT_FALSE(missing.ok());
  EXPECT_EQ(missing.error().code, ErrorCode::kIo);
  EXPECT_EQ(missing.error().text(),
            (directory_ / "a").string() + ": cannot read: No such file or directory");
  const auto directory = read_file(directory_.path());
  ASSERT_FALSE(directory.ok());
  EXPECT_THAT(directory.error().text(), HasSubstr("Is a directory"));
}

TEST_F(File, ThatIsCompressedIsRefusedWithTheCommandThatHelps) {
  const fs::path path = directory_ / "profile.csv.gz";
  const auto said = [&](std::string_view content) {
    EXPECT_TRUE(write_file(path, content).ok());
    const Result<std::string> text = read_file(path);
    return text.ok() ? std::string() : text.error().text();
  };
  EXPECT_THAT(said("\x1f\x8b\x08 and more"),
              HasSubstr("compressed by gzip: decompress it first (gunzip -k profile.csv.gz)"));
  EXPECT_THAT(said("\x28\xb5\x2f\xfd"), HasSubstr("(unzstd -k profile.csv.gz)"));
  EXPECT_THAT(said(std::string_view("\xfd\x37zXZ\0", 6)), HasSubstr("(unxz -k "));
  EXPECT_THAT(said("BZh9"), HasSubstr("(bunzip2 -k "));
  EXPECT_EQ(said("stage,instruction"), "");
}

TEST_F(File, OverTheLimitIsRefused) {
  ASSERT_TRUE(write_file(directory_ / "a", "12345").ok());
  EXPECT_TRUE(read_file(directory_ / "a", 5).ok());
  const auto refused = read_file(directory_ / "a", 4);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("is over the limit of 4 bytes"));
  EXPECT_FALSE(read_file("/dev/zero", 100000).ok());
}

TEST_F(File, ThatIsNotRegularIsRefusedWithoutWaitingForIt) {
  const fs::path pipe = directory_ / "pipe", file = directory_ / "file";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const fs::path& path : {pipe, fs::path("/dev/zero")}) {
    const auto refused = read_regular_file(path);
    ASSERT_FALSE(refused.ok()) << path;
    EXPECT_EQ(refused.error().code, ErrorCode::kIo);
    EXPECT_EQ(refused.error().text(), path.string() + ": is not a regular file");
  }
  EXPECT_THAT(read_regular_file(directory_.path()).error().text(), HasSubstr("Is a directory"));
  EXPECT_THAT(read_regular_file(directory_ / "no").error().text(), HasSubstr("No such file"));
  ASSERT_TRUE(write_file(file, "12345").ok());
  EXPECT_EQ(*read_regular_file(file), "12345");
  EXPECT_FALSE(read_regular_file(file, 4).ok());
  EXPECT_TRUE(read_regular_file("/proc/self/stat").ok());
}

TEST_F(File, HasADigestWhereItCanBeReadAgain) {
  const fs::path file = directory_ / "file", pipe = directory_ / "pipe";
  ASSERT_TRUE(write_file(file, "text").ok());
  EXPECT_EQ(file_digest(file), digest_text(fnv1a("text")));
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(file_digest(pipe), "");
  EXPECT_EQ(file_digest("-"), "");
  EXPECT_EQ(file_digest(directory_.path()), "");
  EXPECT_EQ(file_digest(directory_ / "missing"), "");
}

TEST_F(File, DashIsStandardInput) {
  EXPECT_EQ(in_child([] {
              int ends[2];
              if (::pipe(ends) != 0 || ::write(ends[1], "hello", 5) != 5) return 1;
              ::close(ends[1]);
              ::dup2(ends[0], STDIN_FILENO);
              const auto text = read_file("-");
              return text.ok() && *text == "hello" ? 0 : 2;
            }),
            0);
}

TEST_F(File, IsCheckedForBeforeItIsWritten) {
  ASSERT_TRUE(write_file(directory_ / "there", "before").ok());
  fs::create_symlink("there", directory_ / "link");
  for (const fs::path& path :
       {directory_ / "new", directory_ / "there", directory_ / "link", fs::path("/dev/null")}) {
    EXPECT_TRUE(check_writable(path).ok()) << path;
  }
  EXPECT_EQ(*read_file(directory_ / "there"), "before");
  EXPECT_EQ(files(), 2);
  for (const fs::path& path : {directory_.path(), directory_ / "none" / "a",
                               directory_ / "there" / "a", fs::path("/proc/harpe")}) {
    EXPECT_FALSE(check_writable(path).ok()) << path;
    EXPECT_FALSE(write_file(path, "").ok()) << path;
  }
  EXPECT_TRUE(check_writable_directory(directory_.path()).ok());
  EXPECT_TRUE(check_writable_directory(directory_ / "none" / "a" / "").ok());
  EXPECT_FALSE(check_writable_directory(directory_ / "there").ok());
  EXPECT_FALSE(check_writable_directory(directory_ / "there" / "a").ok());
  EXPECT_FALSE(check_writable_directory("/proc/none").ok());
  EXPECT_EQ(files(), 2);
}

TEST_F(File, OfAFullDiskIsFoundBeforeItIsWritten) {
  EXPECT_EQ(in_child([&] {
              std::signal(SIGXFSZ, SIG_IGN);
              const rlimit limit{100, 100};
              if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return 10;
              return check_writable(directory_ / "a").ok() ? 11 : 0;
            }),
            0);
  EXPECT_EQ(files(), 0);
}

TEST_F(File, DirectoryIsMadeWithItsParents) {
  EXPECT_TRUE(ensure_directory(directory_ / "a" / "b").ok());
  EXPECT_TRUE(fs::is_directory(directory_ / "a" / "b"));
  EXPECT_TRUE(ensure_directory(directory_ / "a" / "b").ok());
  EXPECT_TRUE(fs::is_empty(directory_ / "a" / "b"));
}

TEST_F(File, DirectoryThatCannotBeWrittenIsRefused) {
  ASSERT_TRUE(write_file(directory_ / "a", "x").ok());
  for (const fs::path& path : {directory_ / "a", directory_ / "a" / "b", fs::path("/proc")}) {
    const Status refused = ensure_directory(path);
    ASSERT_FALSE(refused.ok()) << path;
    EXPECT_EQ(refused.error().code, ErrorCode::kIo);
    EXPECT_THAT(refused.error().text(), HasSubstr(path.string()));
  }
}

}  // namespace
}  // namespace harpe
