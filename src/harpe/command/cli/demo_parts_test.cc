// The search of `harpe demo` for its script, its trainer and Python.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "harpe/base/test_directory_testing.h"
#include "harpe/command/cli/find_program.h"

namespace harpe::command {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
namespace fs = std::filesystem;

class FindDemoParts : public testing::Test {
 protected:
  void make(const std::string& name) const {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name) << "#!/bin/sh\n";
    fs::permissions(folder_ / name, fs::perms::owner_all);
  }
  Result<DemoParts> find() const {
    return find_demo_parts("run_demo.py", folder_ / "bin" / "harpe", (folder_ / "path").string());
  }

  const TestDirectory folder_;
};

TEST_F(FindDemoParts, FindsThoseOfAnInstalledPrefix) {
  for (const char* name : {"path/python3", "bin/harpe-agent", "libexec/harpe/trainer",
                           "share/harpe/demo/run_demo.py"}) {
    make(name);
  }
  const Result<DemoParts> parts = find();
  ASSERT_TRUE(parts.ok()) << parts.error().text();
  EXPECT_EQ(parts->python, folder_ / "path/python3");
  EXPECT_EQ(parts->trainer, folder_ / "libexec/harpe/trainer");
  EXPECT_EQ(parts->script, folder_ / "share/harpe/demo/run_demo.py");
}

TEST_F(FindDemoParts, FindsThoseOfAWheel) {
  for (const char* name :
       {"path/python3", "bin/harpe-agent", "libexec/harpe/trainer", "demo/run_demo.py"}) {
    make(name);
  }
  const Result<DemoParts> parts = find();
  ASSERT_TRUE(parts.ok()) << parts.error().text();
  EXPECT_EQ(parts->script, folder_ / "demo/run_demo.py");
}

TEST_F(FindDemoParts, SaysOfEachMissingPartWhatBringsIt) {
  make("path/trainer");  // another program with this name
  const Result<DemoParts> parts = find();
  ASSERT_FALSE(parts.ok());
  EXPECT_EQ(parts.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(parts.error().diagnostics.size(), 4U);
  EXPECT_THAT(parts.error().text(),
              AllOf(HasSubstr("apt install python3"), HasSubstr("--target trainer"),
                    HasSubstr("The package harpe-agent"), HasSubstr("run_demo.py is missing")));
}

TEST_F(FindDemoParts, NamesTheMissingPartAlone) {
  for (const char* name : {"path/python3", "libexec/harpe/trainer", "demo/run_demo.py"}) make(name);
  const Result<DemoParts> parts = find();
  ASSERT_FALSE(parts.ok());
  EXPECT_THAT(parts.error().text(), AllOf(HasSubstr("harpe-agent is missing"),
                                          Not(HasSubstr("trainer")), Not(HasSubstr("python3"))));
}

}  // namespace
}  // namespace harpe::command
