#pragma once
/// \file
/// Changes of one GPU that come faster than each should have a line of the audit log: gathered for
/// a second, and at most 256 a line. Not thread-safe.

#include <optional>
#include <string>

#include "harpe/node/agent/audit_log.h"

namespace harpe {

class GatheredChanges {
 public:
  /// \param required  nothing may be changed while the log cannot be written
  GatheredChanges(AuditLog& log, bool required) : log_(log), required_(required) {}

  /// Before a change under this lease, so that it can be gathered: writes what is there where that
  /// is another lease's or enough for a line. Fails where the log cannot be written and has to be.
  Status make_room(const std::string& lease);
  /// After it. \param first  the line it begins, if it is the first
  void add(const AuditEntry& first, int clock, Instant now);
  void add(const AuditEntry& first, std::string setting, Instant now);

  bool empty() const { return size() == 0; }
  /// When it should be written; nullopt: there is nothing.
  std::optional<Instant> due() const;
  /// What cannot be written stays, and is due again after as long.
  Status flush();
  /// What could not be written is given up: the GPU is restored.
  void drop() { line_ = {}; }

 private:
  void begin(const AuditEntry& first, Instant now);
  std::size_t size() const { return line_.changes.size() + line_.settings.size(); }

  AuditLog& log_;
  bool required_;
  AuditEntry line_;
  Instant begun_, due_;
};

}  // namespace harpe
