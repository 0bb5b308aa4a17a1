#pragma once
/// \file
/// The audit log: a record of leases and of requests to change GPUs, with time, client and result,
/// as one JSON object per line. The file is append-only.
///
///   {"time": "2026-03-01T12:00:00.123456Z", "action": "power_limit", "uid": 1000, "pid": 4242,
///    "lease": "1f0c9a2b", "gpu": "GPU-...", "from": "300 W", "to": "250 W", "result": "applied"}
///
/// `action`: take, extend, release, expire, process_ended, channel_closed, right_lost, agent_stops;
/// power_limit, graphics_clocks, memory_clocks, persistence_mode; clock_changes, settings
/// (gathered: `changes` is a list of [seconds after `time`, MHz or setting]); restore; audit_log.
/// `result`: "requested" before a change, then "applied"; or "refused: ...", "failed: ...". A lease
/// appears as the first 8 characters of its id, which do not suffice to use it.
///
/// Refusals. The first refusal of a user is written at once. Further refusals within `kWindow` are
/// counted and written as one line with the newest (`count`, `for_s`). Refusals of users beyond the
/// first `kMostUsers` are counted together. So the number of lines is bounded for any number of
/// users, and every refusal is counted in a line, unless the agent is killed within the window.
///
/// Full disk. Lines of `write` use the sink's reserve; refusals are counted until there is room. If
/// lines could not be written, the next line is preceded by the number of missing lines.
/// docs/agent.md describes the agent's behaviour in the meantime.

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

  /// Appends a line, which ends with a line end. After an error, either nothing or a part of the
  /// line was written; in the latter case the next line starts on a new line.
  virtual Status append(std::string_view line) = 0;
  /// Returns true if there is room in addition to the reserve.
  virtual bool has_room() = 0;
  /// Opens the path again after a log rotation moved the file. On an error, keeps the old file.
  virtual Status reopen() = 0;
};

/// Opens a file of mode 640 that other users can neither write nor replace (trusted_file.h). The
/// file reserves between half and all of `kAuditReserve` bytes of disk space beyond its end, so
/// that lines can be written on a full disk. File systems that cannot reserve space (NFS) have no
/// reserve. If the file cannot be opened because the system lacks a resource, the next `append`
/// tries again; any other failure is an error at once.
inline constexpr std::size_t kAuditReserve = 1 << 20;
Result<std::unique_ptr<AuditSink>> open_audit_file(const std::filesystem::path& path);

struct AuditEntry {
  std::string action = {};
  net::Peer peer = {};
  std::string lease = {};
  std::string gpu = {};  ///< UUID; empty if none or several (listed in `to`)
  std::string from = {}, to = {}, result = {};
  std::vector<std::pair<double, int>> changes = {};           ///< clock_changes
  std::vector<std::pair<double, std::string>> settings = {};  ///< settings
};

/// Returns a name of the peer's user that all its processes share: "uid 1000", "token grafana".
std::string named_user_of(const net::Peer& peer);

/// Thread-safe. Each entry is one write, so that entries of several processes do not mix.
class AuditLog {
 public:
  static constexpr Seconds kWindow{10};
  static constexpr std::size_t kMostUsers = 64;
  /// Longer texts of refusals are cut.
  static constexpr std::size_t kLongestText = 400;

  /// Discards all entries until a sink is opened.
  AuditLog() = default;
  AuditLog(const AuditLog&) = delete;
  AuditLog& operator=(const AuditLog&) = delete;

  /// Sets the sink.
  /// \param on_event  called when writing starts to fail and when it works again; must not block
  void open(std::unique_ptr<AuditSink> sink, std::function<void(const std::string&)> on_event = {});
  /// Opens the same path again after a log rotation renamed the file.
  Status reopen();

  Status write(const AuditEntry& entry);
  void refuse(AuditEntry entry, Instant now);
  /// Writes the counts whose window is over (all counts if `all`). If writing failed before, checks
  /// if it works again.
  void flush(Instant now, bool all = false);
  /// Returns when `flush` is due next; nullopt if never.
  std::optional<Instant> due(Instant now) const;

  struct Health {
    std::string trouble;   ///< lines that cannot be written, with the reason; empty if none
    bool failing = false;  ///< true if lines of `write` cannot be written either
    std::uint64_t lines_lost = 0;
    std::uint64_t refusals = 0;  ///< number of all refusals, including those only counted
  };
  Health health() const;
  bool failing() const { return failing_; }

 private:
  /// Refusals of one user since the last written line.
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
      HARPE_GUARDED_BY(mutex_);                         ///< by user; "" for users beyond the limit
  std::uint64_t missing_ HARPE_GUARDED_BY(mutex_) = 0;  ///< lines lost since the last written one
  Health health_ HARPE_GUARDED_BY(mutex_);
  std::atomic<bool> failing_ = false;  ///< `health_.failing`
};

/// Changes of one GPU that are too frequent for one line each, gathered for a second, at most 256
/// per line. Not thread-safe.
class GatheredChanges {
 public:
  /// \param required  refuse changes while the log cannot be written
  GatheredChanges(AuditLog& log, bool required) : log_(log), required_(required) {}

  /// Prepares for a change under this lease: writes the gathered changes if they belong to another
  /// lease or fill a line. Fails if the log cannot be written and is required.
  Status make_room(const std::string& lease);
  /// Adds a change that was made. `first` is the entry of a new line, used if none is begun.
  void add(const AuditEntry& first, int clock, Instant now);
  void add(const AuditEntry& first, std::string setting, Instant now);

  bool empty() const { return size() == 0; }
  /// Returns when the line should be written; nullopt if there is none.
  std::optional<Instant> due() const;
  /// Writes the line. If that fails and the log is required, the line is due again a second later.
  Status flush();
  /// Drops changes that could not be written, because the GPU is being restored.
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
