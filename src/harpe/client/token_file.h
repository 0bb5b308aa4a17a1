#pragma once
/// \file
/// A token in a file, in which its issuer keeps it fresh.

#include <filesystem>
#include <string>

#include "harpe/base/result.h"

namespace harpe {

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
  /// Which file it was, as it was written last.
  struct Stamp {
    std::uint64_t device = 0, inode = 0;
    std::int64_t size = 0, seconds = 0, nanoseconds = 0;
    friend bool operator==(const Stamp&, const Stamp&) = default;
  };
  Stamp stamp() const;

  std::string token_;
  std::filesystem::path path_;
  Stamp seen_;
};

}  // namespace harpe
