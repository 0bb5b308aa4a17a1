#pragma once
/// \file
/// Who changed what, when, and what came of it: one JSON object a line, only ever appended.
///
///   {"time": "2026-03-01T12:00:00.123456Z", "action": "power_limit", "uid": 1000, "pid": 4242,
///    "lease": "1f0c9a2b", "gpu": "GPU-...", "from": "300 W", "to": "250 W", "result": "applied"}
///
/// `action`: take, extend, release, expire, process_ended, channel_closed, right_lost, agent_stops;
/// power_limit, graphics_clocks, memory_clocks, persistence_mode; clock_changes, settings
/// (gathered: `changes` is a list of [seconds after `time`, MHz or what was set]); restore;
/// audit_log. `result`: "requested" before a change, then "applied"; or "refused: ...", "failed:
/// ...". Leases are named by their first 8 characters, which do not give the lease away.
///
/// Refusals. Each user's first is written at once; what more comes within `kWindow` is counted and
/// written as one line with the newest of them (`count`, `for_s`). Of more than `kMostUsers` at a
/// time the rest is counted together. So what any number of users can have written is bounded, and
/// every refusal is counted in some line, but those of the last window of an agent that is killed.
///
/// A full disk. What `write` is given comes from the sink's reserve; refusals wait, counted, for
/// room. Where a line could not be written, the next one that can is preceded by how many are
/// missing. docs/agent.md says what an agent does meanwhile.

#include <atomic>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/base/result.h"
#include "harpe/node/agent/policy.h"

namespace harpe::node {

/// The destination of the audit log's lines. Not thread-safe.
class AuditSink {
 public:
  virtual ~AuditSink() = default;

  /// Appends a line, which ends with a line end. After an error none of it was written, or a part
  /// that the next line does not continue.
  virtual Status append(std::string_view line) = 0;
  /// True if there is room beside the reserve.
  virtual bool has_room() = 0;
  /// Continues in a new file after a rotation moved the old one; after an error in the old one.
  virtual Status reopen() = 0;
};

/// Opens a file of mode 640 that others can neither write nor replace (trusted_file.h). It holds
/// `kAuditReserve` bytes of disk space beyond its end, or half of that between two lines, so that a
/// full disk cannot take them; on file systems that cannot reserve space (NFS) it holds none. If
/// the file cannot be opened because the system lacks a resource, the next line tries again; any
/// other failure is an error at once.
inline constexpr std::size_t kAuditReserve = 1 << 20;
Result<std::unique_ptr<AuditSink>> open_audit_file(const std::filesystem::path& path);

struct AuditEntry {
  std::string action = {};
  net::Peer peer = {};
  std::string lease = {};
  std::string gpu = {};  ///< UUID; empty: none or several (`to`)
  std::string from = {}, to = {}, result = {};
  std::vector<std::pair<double, int>> changes = {};           ///< clock_changes
  std::vector<std::pair<double, std::string>> settings = {};  ///< settings
};

/// Returns the name of a user, the same for all of its processes: "uid 1000", "token grafana".
std::string named_user_of(const net::Peer& peer);

/// Thread-safe. Each entry is one write, so that those of several processes do not mix.
class AuditLog {
 public:
  static constexpr Seconds kWindow{10};
  static constexpr std::size_t kMostUsers = 64;
  /// Longer texts of refusals are cut.
  static constexpr std::size_t kLongestText = 400;

  /// Without a sink entries go nowhere.
  AuditLog() = default;
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// \param on_event  hears when lines cannot be written, and when they can again; must not block
  void open(std::unique_ptr<AuditSink> sink, std::function<void(const std::string&)> on_event = {});
  /// Opens the same path again, after the file was renamed by a log rotation.
  Status reopen();

  Status write(const AuditEntry& entry);
  void refuse(AuditEntry entry, Instant now);
  /// Writes the counts whose window is over, or all, and finds out whether what could not be
  /// written can be again.
  void flush(Instant now, bool all = false);
  /// When `flush` has something to do; nullopt: never.
  std::optional<Instant> due(Instant now) const;

  struct Health {
    std::string trouble;   ///< what cannot be written, and why; empty: all is well
    bool failing = false;  ///< also what must be written
    std::uint64_t lines_lost = 0;
    std::uint64_t refusals = 0;  ///< all, whether in a line of their own or counted
  };
  Health health() const;
  bool failing() const { return failing_; }

 private:
  /// Refusals of one user, since a line was written.
  struct Gathered {
    AuditEntry newest;
    std::uint64_t count = 0;
    Instant since;
  };

  Status append(const std::string& line, bool must) HARPE_REQUIRES(mutex_);
  void flush_locked(Instant now, bool all) HARPE_REQUIRES(mutex_);
  void set_trouble(std::string trouble, bool failing) HARPE_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::unique_ptr<AuditSink> sink_ HARPE_GUARDED_BY(mutex_);
  std::function<void(const std::string&)> on_event_ HARPE_GUARDED_BY(mutex_);
  std::map<std::string, Gathered> gathered_
      HARPE_GUARDED_BY(mutex_);                         ///< by user; "" for those beyond the limit
  std::uint64_t missing_ HARPE_GUARDED_BY(mutex_) = 0;  ///< lines lost since one was written
  Health health_ HARPE_GUARDED_BY(mutex_);
  std::atomic<bool> failing_ = false;  ///< `health_.failing`
};

/// Changes of one GPU that come too fast for a line of the audit log each: gathered for a second,
/// at most 256 a line. Not thread-safe.
class GatheredChanges {
 public:
  /// \param required  refuse changes while the log cannot be written
  GatheredChanges(AuditLog& log, bool required) : log_(log), required_(required) {}

  /// Called before a change under this lease: writes the gathered changes if they are of another
  /// lease or enough for a line. Fails if the log cannot be written and is required.
  Status make_room(const std::string& lease);
  /// Called after a change. `first` is the line to begin if none is gathered.
  void add(const AuditEntry& first, int clock, Instant now);
  void add(const AuditEntry& first, std::string setting, Instant now);

  bool empty() const { return size() == 0; }
  /// When the line should be written; nullopt if there is none.
  std::optional<Instant> due() const;
  /// Writes the line. If that fails, it stays and is due again a second later.
  Status flush();
  /// Drops what could not be written: the GPU is restored.
  void drop() { line_ = {}; }

 private:
  void begin(const AuditEntry& first, Instant now);
  std::size_t size() const { return line_.changes.size() + line_.settings.size(); }

  AuditLog& log_;
  bool required_;
  AuditEntry line_;
  Instant begun_, due_;
};

}  // namespace harpe::node
