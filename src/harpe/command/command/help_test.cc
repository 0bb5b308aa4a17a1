#include "harpe/command/command/help.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>

#include "harpe/base/test_directory_testing.h"

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

void write_page(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tutorial.md") << "# Tutorial\n";
}

TEST(HelpText, HidesOptionsWithoutAGroup) {
  CLI::App app("serves jobs", "serve");
  int lease = 0;
  app.add_option("--test-lease", lease)->group("");
  app.add_option("--workers", lease)->group("Jobs");
  const std::string pages = help_text(app) + man_page(app);
  EXPECT_THAT(pages, Not(HasSubstr("test")));
  EXPECT_THAT(help_text(app), HasSubstr("\nJobs:\n  --workers"));
}

TEST(DocumentationText, NamesTheFolderOfAnInstallationOrWheel) {
  const TestDirectory directory;
  const std::filesystem::path prefix = directory.path() / "usr";
  const std::filesystem::path wheel = directory.path() / "site-packages" / "harpe";
  EXPECT_EQ(documentation_text(prefix / "bin" / "harpe"), "");
  write_page(prefix / "share" / "doc" / "harpe" / "docs");
  write_page(wheel / "docs");
  EXPECT_EQ(documentation_text(prefix / "bin" / "harpe"),
            "\nPages named docs/...:\n  " + (prefix / "share/doc/harpe/docs").string() + "\n");
  EXPECT_EQ(documentation_text(wheel / "bin" / "harpe"),
            "\nPages named docs/...:\n  " + (wheel / "docs").string() + "\n");
  EXPECT_EQ(documentation_text({}), "");
}

}  // namespace
}  // namespace harpe::command
