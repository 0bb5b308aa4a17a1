#pragma once
/// \file
/// Who changed what, when, and what came of it: one JSON object a line, only ever appended.
///
///   {"time": "2026-03-01T12:00:00.123456Z", "action": "power_limit", "uid": 1000, "pid": 4242,
///    "lease": "1f0c9a2b", "gpu": "GPU-...", "from": "300 W", "to": "250 W", "result": "applied"}
///
/// `action`: take, release, expire, process_ended, channel_closed, agent_stops; power_limit,
/// graphics_clocks, memory_clocks, persistence_mode; clock_changes (those of a clock channel,
/// gathered: `changes` is a list of [seconds after `time`, MHz]); restore. `result`: "requested"
/// before a change, then "applied"; or "refused: ...", "failed: ...". Leases are named by their
/// first 8 characters, which give nobody the lease.

#include <filesystem>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "harpe/agent/policy.h"
#include "harpe/base/result.h"

namespace harpe {

struct AuditEntry {
  std::string action = {};
  Peer peer = {};
  std::string lease = {};
  std::string gpu = {};  ///< UUID; empty: none or several (`to`)
  std::string from = {}, to = {}, result = {};
  std::vector<std::pair<double, int>> changes = {};
};

/// Thread-safe. Each entry is one write, so that those of several processes do not mix.
class AuditLog {
 public:
  AuditLog() = default;
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;
  ~AuditLog();

  /// Opens for appending (made with mode 0640 if it is not there). An empty path: entries go
  /// nowhere.
  Status open(const std::filesystem::path& path);
  /// Opens the same path again, after the file was renamed by a log rotation.
  Status reopen();
  Status write(const AuditEntry& entry);

 private:
  std::mutex mutex_;
  std::filesystem::path path_;
  int file_ = -1;
  bool torn_ = false;  ///< the last line was written in part (full disk)
};

}  // namespace harpe
