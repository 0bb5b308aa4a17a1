#include "harpe/carbon/carbon_source/api_token.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <fstream>
#include <map>
#include <string>

#include "harpe/base/test_directory_testing.h"

namespace harpe::carbon {
namespace {

const ApiTokenNames kNames{.variable = "HARPE_EXAMPLE_TOKEN",
                           .file = "example.token",
                           .advice = "Get one at https://example.org"};

EnvironmentVariable variables(const std::map<std::string, std::string>& values) {
  return [values](const std::string& name) -> std::optional<std::string> {
    const auto found = values.find(name);
    return found == values.end() ? std::nullopt : std::optional(found->second);
  };
}

void write(const std::filesystem::path& path, const std::string& text, int mode) {
  std::filesystem::create_directories(path.parent_path());
  std::ofstream(path) << text;
  ASSERT_EQ(::chmod(path.c_str(), static_cast<mode_t>(mode)), 0);
}

std::string error_of(const Result<std::string>& token) {
  return token.ok() ? "" : token.error().text();
}

TEST(ApiToken, ComesFromTheVariableTheFileItNamesOrTheUsualFile) {
  const TestDirectory directory;
  const auto home = directory / "home", named = directory / "named";
  write(home / ".config/harpe/example.token", "of-home\n", 0600);
  write(named, "of-file\n", 0400);
  std::map<std::string, std::string> environment{{"HOME", home.string()}};
  EXPECT_EQ(find_api_token(kNames, variables(environment)).value(), "of-home");
  environment["HARPE_EXAMPLE_TOKEN_FILE"] = named.string();
  EXPECT_EQ(find_api_token(kNames, variables(environment)).value(), "of-file");
  environment["HARPE_EXAMPLE_TOKEN"] = " of-variable ";
  EXPECT_EQ(find_api_token(kNames, variables(environment)).value(), "of-variable");
  EXPECT_EQ(harpe_config_directory(variables({{"XDG_CONFIG_HOME", "/c"}})), "/c/harpe");
}

TEST(ApiToken, WithoutOneTheErrorSaysWhatToDo) {
  const TestDirectory directory;
  const auto token = find_api_token(kNames, variables({{"HOME", directory.path().string()}}));
  EXPECT_EQ(token.error().code, ErrorCode::kNoPermission);
  for (const std::string part : {"set HARPE_EXAMPLE_TOKEN", ".config/harpe/example.token",
                                 "mode 600", "Get one at https://example.org"}) {
    EXPECT_NE(error_of(token).find(part), std::string::npos) << error_of(token);
  }
  EXPECT_FALSE(find_api_token(kNames, variables({})).ok());
}

TEST(ApiToken, AFileThatOthersMayReadIsRefused) {
  const TestDirectory directory;
  const auto file = directory / "token";
  const auto environment = variables({{"HARPE_EXAMPLE_TOKEN_FILE", file.string()}});
  for (const int mode : {0644, 0640, 0604, 0660, 0620}) {
    write(file, "s3cret", mode);
    const auto token = find_api_token(kNames, environment);
    EXPECT_NE(error_of(token).find("chmod 600"), std::string::npos) << mode << error_of(token);
  }
  write(file, "s3cret", 0600);
  EXPECT_TRUE(find_api_token(kNames, environment).ok());
  std::filesystem::remove(file);
  EXPECT_NE(error_of(find_api_token(kNames, environment)).find("does not exist"),
            std::string::npos);
}

TEST(ApiToken, WhatCannotBeSentIsRefusedWithoutRepeatingIt) {
  for (const std::string& text :
       {std::string("s3cret\r\nHost: x"), std::string("s3cret two"), std::string("s3cret\0x", 8),
        std::string("  "), "s3cret" + std::string(9000, 'a')}) {
    const auto token = find_api_token(kNames, variables({{"HARPE_EXAMPLE_TOKEN", text}}));
    ASSERT_FALSE(token.ok());
    EXPECT_EQ(error_of(token).find("s3cret"), std::string::npos) << error_of(token);
  }
}

}  // namespace
}  // namespace harpe::carbon
