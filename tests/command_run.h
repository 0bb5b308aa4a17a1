#pragma once
/// \file
/// Functions that run the harpe command inside a test, in a separate directory.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "harpe/command/cli/cli.h"
#include "harpe/command/lab_cli/lab_cli.h"

namespace harpe {

struct Said {
  int status = 0;
  std::string out, err;
};

/// Returns the output of `harpe ARGUMENTS`, even if it becomes harpe-lab.
inline Said harpe_says(const std::vector<std::string>& arguments) {
  std::ostringstream out, err;
  command::Console console{.out = out, .err = err};
  const auto lab = command::lab_call(arguments);
  const int status = lab ? command::run_program([&] { return command::lab_commands(lab->name); },
                                                lab->arguments, console)
                         : command::run_harpe(arguments, console);
  return {.status = status, .out = out.str(), .err = err.str()};
}

/// A directory that is removed at the end of the test.
class CommandTest : public testing::Test {
 protected:
  CommandTest() {
    const testing::TestInfo& info = *testing::UnitTest::GetInstance()->current_test_info();
    std::string name = std::string(info.test_suite_name()) + "." + info.name();
    for (char& c : name) c = c == '/' ? '_' : c;
    folder_ = std::filesystem::path(testing::TempDir()) /
              (name + "." + std::to_string(static_cast<long>(::getpid())));
    std::filesystem::create_directories(folder_);
  }
  ~CommandTest() override {
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  std::string path(const std::string& name) const { return (folder_ / name).string(); }
  std::string write(const std::string& name, const std::string& content) const {
    std::ofstream(folder_ / name, std::ios::binary) << content;
    return path(name);
  }
  std::string read(const std::string& name) const {
    std::ifstream file(folder_ / name, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  std::vector<std::string> listing(const std::string& name) const {
    std::vector<std::string> names;
    if (!std::filesystem::exists(folder_ / name)) return names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / name)) {
      names.push_back(entry.path().filename().string());
    }
    std::ranges::sort(names);
    return names;
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace harpe
