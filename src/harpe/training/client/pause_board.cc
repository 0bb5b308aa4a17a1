#include "harpe/training/client/pause_board.h"

#include <algorithm>
#include <chrono>

namespace harpe::training {
namespace {

constexpr Seconds kLookAgain{0.5};  // between checks for changes without a notification

}  // namespace

void PauseBoard::take(const std::vector<StageAssignment>& assignments) {
  {
    const MutexLock lock(mutex_);
    for (const StageAssignment& one : assignments) book_.take(one);
  }
  changed_.notify_all();
}

void PauseBoard::forget() {
  {
    const MutexLock lock(mutex_);
    book_.clear();
  }
  changed_.notify_all();
}

void PauseBoard::governed(bool is_governed) {
  const MutexLock lock(mutex_);
  if (governed_ && !is_governed) alone_since_ = clock_.now();
  governed_ = is_governed;
}

std::uint64_t PauseBoard::waiting() const {
  const MutexLock lock(mutex_);
  return waiting_;
}

std::int64_t PauseBoard::reached() const {
  const MutexLock lock(mutex_);
  return asked_ ? iteration_ - 1 : iteration_;
}

std::optional<PauseRequest> PauseBoard::before(std::int64_t iteration) {
  const MutexLock lock(mutex_);
  waiting_ = 0;
  asked_ = book_.before(iteration);
  iteration_ = iteration;
  return asked_;
}

bool PauseBoard::is_over(const PauseRequest& pause) const {
  if (!book_.lasts(pause, iteration_)) return true;
  if (governed_) return false;
  // All assignments with this pause state its end; the newest one is valid.
  const std::optional<PauseRequest> newest = book_.newest();
  if (newest && newest->until) return wall_() >= *newest->until;
  return clock_.now() >= alone_since_ + kAlone;
}

bool PauseBoard::wait(Seconds most) {
  MutexLock lock(mutex_);
  if (!asked_) return true;
  const PauseRequest pause = *asked_;
  book_.follow(pause);
  waiting_ = pause.number;
  const Instant began = clock_.now();
  bool over = is_over(pause);
  while (!over && clock_.now() - began < most) {
    const Seconds next = std::min(kLookAgain, most - (clock_.now() - began));
    changed_.wait_for(mutex_, std::chrono::duration<double>(std::max(next.value, 1e-3)),
                      [&]() HARPE_REQUIRES(mutex_) { return is_over(pause); });
    over = is_over(pause);
  }
  if (over) {
    waiting_ = 0;
    asked_.reset();
  }
  return over;
}

}  // namespace harpe::training
