#include "harpe/command/command/help.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "harpe/base/test_directory_testing.h"

namespace harpe::command {
namespace {

void write_page(const std::filesystem::path& folder) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "tutorial.md") << "# Tutorial\n";
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
