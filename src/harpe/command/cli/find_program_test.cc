// The search of a subcommand for another program of Harpe.

#include "harpe/command/cli/find_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>

#include "harpe/base/test_directory_testing.h"

namespace harpe::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
namespace fs = std::filesystem;

class FindProgram : public testing::Test {
 protected:
  /// Creates a file that is executable or not.
  void make(const std::string& name, bool executable = true) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "#!/bin/sh\n";
    fs::permissions(folder_ / name, executable ? fs::perms::owner_all : fs::perms::owner_read);
  }
  ProgramPlaces places() const {
    return ProgramPlaces::of(folder_ / "bin" / "harpe", (folder_ / "path").string());
  }

  const TestDirectory folder_;
};

TEST_F(FindProgram, LooksBesideItselfThenInLibexecThenInPath) {
  make("path/tool");
  EXPECT_EQ(*find_program("tool", places()), folder_ / "path/tool");
  make("libexec/harpe/tool");
  EXPECT_EQ(*find_program("tool", places()), folder_ / "libexec/harpe/tool");
  make("bin/tool");
  EXPECT_EQ(*find_program("tool", places()), folder_ / "bin/tool");
}

TEST_F(FindProgram, TakesOnlyFilesThatMayBeExecuted) {
  make("bin/tool", false);
  fs::create_directories(folder_ / "libexec/harpe/tool");
  make("path/tool");
  EXPECT_EQ(*find_program("tool", places()), folder_ / "path/tool");
}

TEST_F(FindProgram, SaysWhereItLooked) {
  const auto found = find_program("tool", places());
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code, ErrorCode::kUnavailable);
  for (const char* place : {"bin", "libexec/harpe", "path"}) {
    EXPECT_THAT(found.error().text(), HasSubstr((folder_ / place).string()));
  }
}

TEST(ProgramPlaces, AreAbsoluteAndEachOnce) {
  EXPECT_THAT(ProgramPlaces::of("/usr/bin/harpe", ":.:bin:/usr/bin::/bin").folders,
              ElementsAre("/usr/bin", "/usr/libexec/harpe", "/bin"));
  EXPECT_TRUE(ProgramPlaces::of("", "").folders.empty());
}

}  // namespace
}  // namespace harpe::command
