#pragma once
/// \file
/// A token in a file, in which its issuer keeps it fresh.

#include <filesystem>
#include <string>

#include "harpe/base/file.h"
#include "harpe/base/result.h"

namespace harpe::net {

/// Not thread-safe.
class TokenFile {
 public:
  /// \param token  until the file has been read; where `path` is empty, for good
  TokenFile(std::string token, std::filesystem::path path)
      : token_(std::move(token)), path_(std::move(path)) {}

  /// The token as it is now. Reads the file where it is another one, or was written since; without
  /// one that can be read, the token is what it was.
  const std::string& current();
  /// Reads the file whatever its times say.
  Status read();

  static constexpr std::size_t kLongest = 64 * 1024;  ///< bytes of the file

 private:
  std::string token_;
  std::filesystem::path path_;
  FileStamp seen_;
};

}  // namespace harpe::net
