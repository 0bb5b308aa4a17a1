#pragma once
/// \file
/// A token in a file that its issuer renews.

#include <filesystem>
#include <string>

#include "harpe/base/file.h"
#include "harpe/base/result.h"

namespace harpe::net {

/// Not thread-safe.
class TokenFile {
 public:
  /// \param token  used until the file has been read; always used if `path` is empty
  TokenFile(std::string token, std::filesystem::path path)
      : token_(std::move(token)), path_(std::move(path)) {}

  /// Returns the current token. Reads the file if it was replaced or changed. If the file cannot be
  /// read, the token does not change.
  const std::string& current();
  /// Reads the file regardless of its times.
  Status read();

  static constexpr std::size_t kLongest = 64 * 1024;  ///< bytes of the file

 private:
  std::string token_;
  std::filesystem::path path_;
  FileStamp seen_;
};

}  // namespace harpe::net
