#pragma once
/// \file
/// The right to be the one server of a SQLite file: a lock on a small file beside it
/// ("FILE-owner"), which the kernel takes back when the process ends, however it ends. The small
/// file stays.

#include <filesystem>
#include <string>

#include "harpe/base/result.h"

namespace harpe {

class OwnerLock {
 public:
  /// `kConflict` names who holds it: process, machine and `name`.
  static Result<OwnerLock> take(const std::filesystem::path& database, const std::string& name);

  OwnerLock(OwnerLock&& other) noexcept;
  OwnerLock& operator=(OwnerLock&& other) noexcept;
  ~OwnerLock();

 private:
  explicit OwnerLock(int fd) : fd_(fd) {}
  int fd_ = -1;
};

}  // namespace harpe
