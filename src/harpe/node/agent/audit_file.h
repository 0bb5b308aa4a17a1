#pragma once
/// \file
/// Where the lines of the audit log go, and space for them that a full disk cannot take away.

#include <filesystem>
#include <memory>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe {

/// Not thread-safe.
class AuditSink {
 public:
  virtual ~AuditSink() = default;

  /// Appends a line, which ends with a line end. At an error none of it is there, or only a part
  /// that the next line does not go on with.
  virtual Status append(std::string_view line) = 0;
  /// Whether lines fit that are not to be written from the reserve.
  virtual bool has_room() = 0;
  /// Goes on in a new file, after a rotation moved the old one; at an error in the old one.
  virtual Status reopen() = 0;
};

/// A file of mode 640 that others can neither write nor replace (trusted_file.h). Beyond its end
/// there are always `kAuditReserve` bytes taken on the disk, or half of that between two lines;
/// file systems that cannot do so (NFS) have no reserve. A file that cannot be opened because the
/// system is short of something is tried again at the next line; whatever else is wrong is an error
/// at once.
inline constexpr std::size_t kAuditReserve = 1 << 20;
Result<std::unique_ptr<AuditSink>> open_audit_file(const std::filesystem::path& path);

}  // namespace harpe
