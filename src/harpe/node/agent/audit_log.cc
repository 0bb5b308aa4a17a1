#include "harpe/node/agent/audit_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <string>
#include <system_error>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/base/unique_fd.h"
#include "harpe/node/agent/trusted_file.h"

namespace harpe::node {
namespace {

constexpr std::size_t kLeaseCharacters = 8;
constexpr Seconds kRetry{1};  ///< interval between attempts to write after an error
constexpr const char* kTight =
    "the disk of the audit log is full: refusals are counted and not written; leases and settings "
    "are written to space that is reserved for them";

/// Returns the present date and time in UTC with microseconds.
std::string time_of_day_text() {
  timespec now{};
  ::clock_gettime(CLOCK_REALTIME, &now);
  std::tm parts{};
  ::gmtime_r(&now.tv_sec, &parts);
  std::array<char, 32> date{};
  const std::size_t size = std::strftime(date.data(), date.size(), "%Y-%m-%dT%H:%M:%S", &parts);
  const std::string micros = std::to_string(now.tv_nsec / 1000);
  return std::string(date.data(), size) + "." +
         std::string(6 - std::min<std::size_t>(6, micros.size()), '0') + micros + "Z";
}

/// Returns the line of an entry without the result, which is added last.
nlohmann::ordered_json line_of(const AuditEntry& entry) {
  nlohmann::ordered_json line = {{"time", time_of_day_text()}, {"action", entry.action}};
  if (entry.peer.uid >= 0) line["uid"] = entry.peer.uid;
  if (entry.peer.pid > 0) line["pid"] = entry.peer.pid;
  if (!entry.peer.token_subject.empty()) line["token"] = entry.peer.token_subject;
  const auto add = [&](const char* key, const std::string& value) {
    if (!value.empty()) line[key] = value;
  };
  add("lease", entry.lease.substr(0, kLeaseCharacters));
  add("gpu", entry.gpu);
  add("from", entry.from);
  add("to", entry.to);
  nlohmann::ordered_json changes = nlohmann::ordered_json::array();
  const auto add_changes = [&changes](const auto& list) {
    for (const auto& [seconds, what] : list) {
      changes.push_back({std::round(seconds * 1e6) / 1e6, what});
    }
  };
  add_changes(entry.changes);
  add_changes(entry.settings);
  if (!changes.empty()) line["changes"] = std::move(changes);
  return line;
}

std::string line_text(nlohmann::ordered_json line, const std::string& result) {
  if (!result.empty()) line["result"] = result;
  return json_line(line) + "\n";
}

void cut(std::string& text) {
  if (text.size() > AuditLog::kLongestText)
    text.replace(AuditLog::kLongestText, std::string::npos, "...");
}

class AuditFile final : public AuditSink {
 public:
  explicit AuditFile(std::filesystem::path path) : path_(std::move(path)) {}
  AuditFile(const AuditFile&) = delete;
  AuditFile& operator=(const AuditFile&) = delete;
  ~AuditFile() override { give_back(); }

  Status append(std::string_view line) override {
    if (!file_) {
      HARPE_TRY(reopen());
    }
    const std::string text = (torn_ ? "\n" : "") + std::string(line);
    const off_t before = size();
    take_space(before);
    ssize_t written = 0;
    do {
      written = ::write(file_.get(), text.data(), text.size());
    } while (written < 0 && errno == EINTR);
    if (written == static_cast<ssize_t>(text.size())) {
      torn_ = false;
      return ok_status();
    }
    const int why = written < 0 ? errno : ENOSPC;
    if (written > 0) {
      torn_ = torn_ || ::ftruncate(file_.get(), before) != 0;
      taken_until_ = 0;  // truncation also freed the space beyond the end
    }
    return failure("cannot write", why);
  }

  bool has_room() override {
    if (!file_ && !reopen().ok()) return false;
    take_space(size());
    return has_room_;
  }

  Status reopen() override {
    // Readable, to detect a line that a killed agent wrote only in part.
    auto opened = HARPE_TRY(open_trusted(path_, O_RDWR | O_APPEND | O_CREAT, 0640));
    give_back();
    file_ = std::move(opened);
    taken_until_ = 0;
    const off_t end = size();
    char last = '\n';
    torn_ = end > 0 && ::pread(file_.get(), &last, 1, end - 1) == 1 && last != '\n';
    take_space(end);
    return ok_status();
  }

 private:
  Error failure(const char* what, int error) const {
    return {ErrorCode::kUnavailable,
            {{.file = path_.string(),
              .message = std::string(what) + ": " + std::generic_category().message(error)}}};
  }

  off_t size() const {
    struct stat status{};
    return ::fstat(file_.get(), &status) == 0 ? status.st_size : 0;
  }

  /// Reserves space beyond the end, which also moves if a rotation truncates the file.
  void take_space(off_t end) {
    constexpr auto kReserve = static_cast<off_t>(kAuditReserve);
    const bool truncated = end < std::exchange(last_end_, end);
    if (has_room_ && end + kReserve / 2 <= taken_until_ && !truncated) return;
    has_room_ = ::fallocate(file_.get(), FALLOC_FL_KEEP_SIZE, end, kReserve) == 0;
    if (has_room_) taken_until_ = end + kReserve;
    if (!has_room_ && errno == EOPNOTSUPP) has_room_ = true;
  }

  /// Frees the space beyond the end of a file that this agent no longer writes.
  void give_back() {
    if (file_) [[maybe_unused]]
      const int ignored = ::ftruncate(file_.get(), size());
  }

  const std::filesystem::path path_;
  UniqueFd file_;
  off_t taken_until_ = 0, last_end_ = 0;
  bool has_room_ = false;
  bool torn_ = false;  ///< true if the last line was written only in part
};

constexpr std::size_t kMostChanges = 256;
constexpr Seconds kLongest{1};

}  // namespace

std::string named_user_of(const net::Peer& peer) {
  return peer.uid >= 0 ? "uid " + std::to_string(peer.uid) : "token " + peer.token_subject;
}

void AuditLog::open(std::unique_ptr<AuditSink> sink,
                    std::function<void(const std::string&)> on_event) {
  const MutexLock lock(mutex_);
  sink_ = std::move(sink);
  on_event_ = std::move(on_event);
}

Status AuditLog::reopen() {
  const MutexLock lock(mutex_);
  return sink_ == nullptr ? ok_status() : sink_->reopen();
}

void AuditLog::set_trouble(std::string trouble, bool failing) {
  const bool changed = trouble.empty() != health_.trouble.empty() || failing != health_.failing;
  health_.trouble = std::move(trouble);
  failing_ = health_.failing = failing;
  if (!changed || !on_event_) return;
  on_event_(health_.trouble.empty() ? "the audit log can be written again" : health_.trouble);
}

/// Writes a line, after another line with the number of lines missing before it, if any.
/// \param must  if true, a line that cannot be written counts as lost; other lines are kept
Status AuditLog::append(const std::string& line, bool must) {
  std::string lines;
  if (missing_ > 0) {
    nlohmann::ordered_json gap = {
        {"time", time_of_day_text()}, {"action", "audit_log"}, {"count", missing_}};
    lines = line_text(std::move(gap), "failed: this number of lines could not be written");
  }
  lines += line;
  Status status = lines.empty() ? ok_status() : sink_->append(lines);
  if (status.ok()) {
    missing_ = 0;
    set_trouble(sink_->has_room() ? "" : kTight, false);
    return status;
  }
  if (must) ++missing_, ++health_.lines_lost;
  set_trouble("the audit log cannot be written: " + status.error().text(), true);
  return status;
}

Status AuditLog::write(const AuditEntry& entry) {
  const MutexLock lock(mutex_);
  if (sink_ == nullptr) return ok_status();
  return append(line_text(line_of(entry), entry.result), true);
}

void AuditLog::refuse(AuditEntry entry, Instant now) {
  const MutexLock lock(mutex_);
  if (sink_ == nullptr) return;
  ++health_.refusals;
  cut(entry.to);
  cut(entry.result);
  std::string user = named_user_of(entry.peer);
  flush_locked(now, false);
  auto found = gathered_.find(user);
  const bool is_new = found == gathered_.end();
  if (is_new && gathered_.size() >= kMostUsers) {
    user.clear();
    entry.peer = {};
    found = gathered_.find(user);
  } else if (is_new && sink_->has_room() &&
             append(line_text(line_of(entry), entry.result), false).ok()) {
    gathered_[user] = {.newest = {}, .count = 0, .since = now};
    return;
  }
  if (found == gathered_.end()) found = gathered_.emplace(user, Gathered{{}, 0, now}).first;
  found->second.newest = std::move(entry);
  ++found->second.count;
}

void AuditLog::flush(Instant now, bool all) {
  const MutexLock lock(mutex_);
  if (sink_ == nullptr) return;
  flush_locked(now, all);
  if (!health_.trouble.empty() && sink_->has_room()) (void)append("", false);
}

std::optional<Instant> AuditLog::due(Instant now) const {
  const MutexLock lock(mutex_);
  if (sink_ == nullptr) return std::nullopt;
  std::optional<Instant> due;
  if (!health_.trouble.empty()) due = now + kRetry;
  for (const auto& [user, gathered] : gathered_) {
    const Instant end = std::max(gathered.since + kWindow, health_.trouble.empty() ? now : *due);
    due = std::min(due.value_or(end), end);
  }
  return due;
}

AuditLog::Health AuditLog::health() const {
  const MutexLock lock(mutex_);
  return health_;
}

void AuditLog::flush_locked(Instant now, bool all) {
  for (auto at = gathered_.begin(); at != gathered_.end();) {
    Gathered& gathered = at->second;
    if (!all && now < gathered.since + kWindow) {
      ++at;
      continue;
    }
    if (gathered.count == 0) {
      at = gathered_.erase(at);
      continue;
    }
    nlohmann::ordered_json line = line_of(gathered.newest);
    line["count"] = gathered.count;
    line["for_s"] = std::round((now - gathered.since).value * 1e3) / 1e3;
    const bool written =
        sink_->has_room() && append(line_text(std::move(line), gathered.newest.result), false).ok();
    gathered.since = written ? now : gathered.since;
    if (written) gathered.count = 0;
    ++at;
  }
}

Result<std::unique_ptr<AuditSink>> open_audit_file(const std::filesystem::path& path) {
  auto file = std::make_unique<AuditFile>(path);
  const Status opened = file->reopen();
  if (!opened.ok() && opened.error().code != ErrorCode::kUnavailable) return opened.error();
  return std::unique_ptr<AuditSink>(std::move(file));
}

Status GatheredChanges::make_room(const std::string& lease) {
  const bool full = line_.lease != lease || size() >= kMostChanges;
  if (!empty() && (full || log_.failing())) return flush();
  if (required_ && log_.failing()) {
    return Error::of(
        ErrorCode::kUnavailable,
        "no setting is changed while changes cannot be logged: " + log_.health().trouble);
  }
  return ok_status();
}

void GatheredChanges::begin(const AuditEntry& first, Instant now) {
  if (!empty()) return;
  line_ = first;
  begun_ = now;
  due_ = now + kLongest;
}

void GatheredChanges::add(const AuditEntry& first, int clock, Instant now) {
  begin(first, now);
  line_.changes.emplace_back((now - begun_).value, clock);
}

void GatheredChanges::add(const AuditEntry& first, std::string setting, Instant now) {
  begin(first, now);
  line_.settings.emplace_back((now - begun_).value, std::move(setting));
}

std::optional<Instant> GatheredChanges::due() const {
  return empty() ? std::nullopt : std::optional(due_);
}

Status GatheredChanges::flush() {
  if (empty()) return ok_status();
  Status status = log_.write(line_);
  if (status.ok() || !required_) {
    line_ = {};
    return ok_status();
  }
  due_ = due_ + kLongest;
  return status;
}

}  // namespace harpe::node
