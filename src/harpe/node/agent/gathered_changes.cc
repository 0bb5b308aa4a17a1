#include "harpe/node/agent/gathered_changes.h"

#include <utility>

namespace harpe {
namespace {

constexpr std::size_t kMost = 256;
constexpr Seconds kLongest{1};

}  // namespace

Status GatheredChanges::make_room(const std::string& lease) {
  const bool full = line_.lease != lease || size() >= kMost;
  if (!empty() && (full || log_.failing())) return flush();
  if (required_ && log_.failing()) {
    return Error::of(ErrorCode::kUnavailable,
                     "nothing is changed while it cannot be logged: " + log_.health().trouble);
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

}  // namespace harpe
