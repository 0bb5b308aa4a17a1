#include "harpe/node/agent/power_board.h"

#include <utility>

namespace harpe {
namespace {

constexpr const char* kHeartbeatText = ": hb\n\n";

}  // namespace

bool PowerBoard::put(int device, const std::string& value, std::string event) {
  const MutexLock lock(mutex_);
  Entry& entry = entries_[device];
  if (entry.value == value) return false;
  entry.value = value;
  entry.kept = std::move(event);
  return true;
}

void PowerBoard::publish() {
  const MutexLock lock(mutex_);
  ++publications_;
  for (auto& [device, entry] : entries_) {
    if (entry.kept.empty()) continue;
    entry.event = std::exchange(entry.kept, {});
    entry.published = publications_;
  }
}

std::string PowerBoard::newer(const std::vector<int>& devices, Seen& seen) const {
  const MutexLock lock(mutex_);
  std::string text;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto found = entries_.find(devices[i]);
    if (found == entries_.end() || found->second.published <= seen[i]) continue;
    text += found->second.event;
    seen[i] = found->second.published;
  }
  return text;
}

bool PowerBoard::has_newer(const std::vector<int>& devices, const Seen& seen) const {
  const MutexLock lock(mutex_);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const auto found = entries_.find(devices[i]);
    if (found != entries_.end() && found->second.published > seen[i]) return true;
  }
  return false;
}

void PowerBoard::clear() {
  const MutexLock lock(mutex_);
  entries_.clear();
}

PowerListener::PowerListener(std::shared_ptr<const PowerBoard> board, std::vector<int> devices,
                             std::string client)
    : board_(std::move(board)),
      devices_(std::move(devices)),
      client_(std::move(client)),
      seen_(devices_.size()) {}

void PowerListener::start(std::function<void()> wake) {
  {
    const MutexLock lock(mutex_);
    wake_ = std::move(wake);
  }
  after_round();
}

std::string PowerListener::take() {
  const MutexLock lock(mutex_);
  std::string text = board_->newer(devices_, seen_);
  if (text.empty() && heartbeat_due_) text = kHeartbeatText;
  heartbeat_due_ = false;
  if (!text.empty()) quiet_ = false;
  return text;
}

void PowerListener::after_round() {
  {
    const MutexLock lock(mutex_);
    if (!board_->has_newer(devices_, seen_)) return;
  }
  wake();
}

void PowerListener::heartbeat() {
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(quiet_, true)) return;
    heartbeat_due_ = true;
  }
  wake();
}

void PowerListener::wake() {
  std::function<void()> wake;
  {
    const MutexLock lock(mutex_);
    wake = wake_;
  }
  if (wake) wake();
}

}  // namespace harpe
