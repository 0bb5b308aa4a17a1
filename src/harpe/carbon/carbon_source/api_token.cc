#include "harpe/carbon/carbon_source/api_token.h"

#include <sys/stat.h>

#include <cstdlib>

#include "harpe/base/file.h"
#include "harpe/base/text.h"

namespace harpe::carbon {
namespace {

constexpr std::size_t kLongestApiToken = 8192;

Result<std::string> checked_token(std::string_view text, const std::string& where) {
  const std::string token(trim(text));
  const auto bad = [&](const std::string& what) {
    return Error::of(ErrorCode::kNoPermission, where + " " + what);
  };
  if (token.empty()) return bad("is empty");
  if (token.size() > kLongestApiToken) return bad("is too large to be a token");
  for (const char c : token) {
    // Any other character could end the header that the token is sent in.
    if (c <= ' ' || c > '~') return bad("contains a character that a token cannot have");
  }
  return token;
}

Result<std::string> token_of_file(const std::filesystem::path& path) {
  struct stat file{};
  if (::stat(path.c_str(), &file) != 0) {
    return Error::of(ErrorCode::kNoPermission, "file " + path.string() + " does not exist");
  }
  if ((file.st_mode & 077) != 0) {
    return Error::of(ErrorCode::kNoPermission,
                     path.string() + " can be read by other users; run chmod 600 " + path.string());
  }
  const auto text = read_regular_file(path, kLongestApiToken + 2);
  if (!text.ok()) return Error::of(ErrorCode::kNoPermission, text.error().text());
  return checked_token(*text, path.string());
}

}  // namespace

EnvironmentVariable process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());
    if (value == nullptr || *value == 0) return std::nullopt;
    return value;
  };
}

std::filesystem::path harpe_config_directory(const EnvironmentVariable& variable) {
  if (const auto config = variable("XDG_CONFIG_HOME")) {
    return std::filesystem::path(*config) / "harpe";
  }
  if (const auto home = variable("HOME")) {
    return std::filesystem::path(*home) / ".config" / "harpe";
  }
  return {};
}

Result<std::string> find_api_token(const ApiTokenNames& names,
                                   const EnvironmentVariable& variable) {
  if (const auto token = variable(names.variable)) return checked_token(*token, names.variable);
  if (const auto file = variable(names.variable + "_FILE")) return token_of_file(*file);
  const std::filesystem::path directory = harpe_config_directory(variable);
  std::error_code ignored;
  if (!directory.empty() && std::filesystem::exists(directory / names.file, ignored)) {
    return token_of_file(directory / names.file);
  }
  const std::string place = directory.empty() ? "a file that " + names.variable + "_FILE names"
                                              : (directory / names.file).string();
  return Error::of(ErrorCode::kNoPermission, "missing token: set " + names.variable +
                                                 ", or write it to " + place + " (mode 600). " +
                                                 names.advice);
}

}  // namespace harpe::carbon
