#pragma once
/// \file
/// A directory for the files of a test.

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "harpe/base/check.h"

namespace harpe {

/// Open to all users. Removed by the destructor.
class TestDirectory {
 public:
  explicit TestDirectory(
      const std::filesystem::path& within = std::filesystem::temp_directory_path()) {
    std::string name = (within / "harpe-test-XXXXXX").string();
    HARPE_CHECK(::mkdtemp(name.data()) != nullptr, "a test has a directory");
    path_ = name;
    std::filesystem::permissions(path_, std::filesystem::perms{0755});
  }
  TestDirectory(const TestDirectory&) = delete;
  TestDirectory& operator=(const TestDirectory&) = delete;
  ~TestDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path operator/(const std::filesystem::path& name) const { return path_ / name; }

 private:
  std::filesystem::path path_;
};

}  // namespace harpe
