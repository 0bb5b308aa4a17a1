#include "harpe/agent/audit_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cmath>
#include <ctime>
#include <nlohmann/json.hpp>
#include <system_error>

#include "harpe/base/json_text.h"

namespace harpe {
namespace {

constexpr std::size_t kLeaseCharacters = 8;

Error failure(const std::filesystem::path& path, const char* what, int error) {
  return Error::io(path.string(), std::string(what) + ": " +
                                      std::generic_category().message(error) +
                                      "; nothing is changed without an audit log");
}

/// The time of day in UTC with microseconds.
std::string time_text() {
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

std::string line_of(const AuditEntry& entry) {
  nlohmann::ordered_json line = {{"time", time_text()}, {"action", entry.action}};
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
  if (!entry.changes.empty()) {
    nlohmann::ordered_json changes = nlohmann::ordered_json::array();
    for (const auto& [seconds, clock] : entry.changes) {
      changes.push_back({std::round(seconds * 1e6) / 1e6, clock});
    }
    line["changes"] = std::move(changes);
  }
  add("result", entry.result);
  return json_line(line) + "\n";
}

}  // namespace

AuditLog::~AuditLog() {
  if (file_ >= 0) ::close(file_);
}

Status AuditLog::open(const std::filesystem::path& path) {
  {
    const std::lock_guard lock(mutex_);
    path_ = path;
  }
  return reopen();
}

Status AuditLog::reopen() {
  const std::lock_guard lock(mutex_);
  if (path_.empty()) return ok_status();
  const int file = ::open(path_.c_str(),
                          O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, 0640);
  if (file < 0) return failure(path_, "cannot open the audit log", errno);
  if (file_ >= 0) ::close(file_);
  file_ = file;
  torn_ = false;
  return ok_status();
}

Status AuditLog::write(const AuditEntry& entry) {
  const std::lock_guard lock(mutex_);
  if (path_.empty()) return ok_status();
  std::string line = line_of(entry);
  if (torn_) line.insert(0, "\n");
  ssize_t written = 0;
  do {
    written = ::write(file_, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written < 0) return failure(path_, "cannot write the audit log", errno);
  torn_ = static_cast<std::size_t>(written) != line.size();
  if (torn_) return failure(path_, "cannot write the audit log", ENOSPC);
  return ok_status();
}

}  // namespace harpe
