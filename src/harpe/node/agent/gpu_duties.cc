#include "harpe/node/agent/gpu_duties.h"

#include <algorithm>
#include <utility>

namespace harpe::node {
namespace {

constexpr Seconds kFirstRetry{0.1}, kLongestRetry{30};
/// Pauses after a command that changes nothing, and after a refused command, so that a client that
/// sends commands endlessly does not occupy a core.
constexpr Seconds kPauseAfterEarlySwitch{0.001}, kPauseAfterRefusal{0.005};

ClockOutcome outcome_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNoPermission:
    case ErrorCode::kInvalidInput:
      return ClockOutcome::kNotAllowed;
    case ErrorCode::kNotSupported:
      return ClockOutcome::kNotSupported;
    case ErrorCode::kRefused:
      return ClockOutcome::kDryRun;
    default:
      return ClockOutcome::kFailed;
  }
}

}  // namespace

GpuDuties::GpuDuties(std::unique_ptr<GpuControl> control, Seconds minimum_dwell, Counters& counters,
                     const Clock& clock, std::function<void(const std::string&)> on_event)
    : control_(std::move(control)),
      minimum_dwell_(minimum_dwell),
      counters_(counters),
      clock_(clock),
      on_event_(std::move(on_event)) {}

// --- Clock commands.

void GpuDuties::attach(std::shared_ptr<ClockSlot> slot, Holder holder) {
  drop_slot();
  if (slot->closed()) return slot->serve(0, ClockOutcome::kEnded, {});
  slot_ = std::move(slot);
  slot_holder_ = std::move(holder);
  last_sequence_ = 0;
}

void GpuDuties::drop_slot() {
  if (slot_ == nullptr) return;
  slot_->close();
  slot_->serve(last_sequence_, ClockOutcome::kEnded, {});
  slot_ = nullptr;
}

bool GpuDuties::serve_clock() {
  if (!has_slot()) return false;
  // The code that ends the lease restores its settings; this only ignores further commands.
  if (slot_holder_.has_ended(clock_.now())) {
    drop_slot();
    return false;
  }
  const ClockSlot::Wanted wanted = slot_->wanted();
  if (wanted.sequence == last_sequence_ || clock_.now() < next_command_) return false;
  serve(wanted);
  return true;
}

void GpuDuties::serve(ClockSlot::Wanted wanted) {
  const std::uint64_t before = control_->clock_calls();
  Status ready = ready_to_set();
  Result<Megahertz> clock = ready.ok()
                                ? control_->set_clock(slot_holder_, wanted.clock, clock_.now())
                                : Result<Megahertz>(std::move(ready).error());
  // The client sets the sequence, so it is used only for counting, and only up to a limit.
  constexpr std::uint32_t kBelieved = 1000;
  const std::uint32_t skipped = wanted.sequence - last_sequence_ - 1;
  if (skipped < kBelieved) counters_.clock_commands_coalesced += skipped;
  ++counters_.clock_commands;
  last_sequence_ = wanted.sequence;
  slot_->serve(wanted.sequence,
               clock.ok() ? ClockOutcome::kApplied : outcome_of(clock.error().code),
               clock.ok() ? *clock : wanted.clock);
  const bool called = control_->clock_calls() != before;
  pause(!clock.ok() ? std::max(kPauseAfterRefusal, minimum_dwell_)
        : called    ? minimum_dwell_
                    : kPauseAfterEarlySwitch);
}

void GpuDuties::pause(Seconds pause) {
  next_command_ = std::max(next_command_, clock_.now() + pause);
}

// --- Restoring.

Status GpuDuties::end_lease(const Holder& holder) {
  if (slot_ != nullptr && slot_holder_.lease == holder.lease) drop_slot();
  return restore(holder);
}

Status GpuDuties::ready_to_set() {
  if (!next_retry_) return ok_status();
  // Frequent commands of a client do not make retries more frequent.
  if (clock_.now() < last_try_ + kFirstRetry) return *last_failure_;
  return restore(to_restore_);
}

Status GpuDuties::restore(const Holder& holder) {
  to_restore_ = holder;
  last_try_ = clock_.now();
  Status status = control_->restore(holder);
  could_not_restore_ = !status.ok();
  if (status.ok()) {
    if (next_retry_) on_event_(control_->name() + " was restored by a later attempt");
    next_retry_.reset();
    retry_pause_ = {};
    return status;
  }
  if (!next_retry_) {
    on_event_(control_->name() +
              " could not be restored, and the agent tries again: " + status.error().text());
  }
  last_failure_ = status.error();
  retry_pause_ = std::clamp(retry_pause_ * 2, kFirstRetry, kLongestRetry);
  next_retry_ = clock_.now() + retry_pause_;
  return status;
}

std::optional<Instant> GpuDuties::put_all_back() {
  // Includes settings without a lease, which nothing else restores before the next start.
  to_restore_.controls = {};
  if (!control_->saved().changed() || restore(to_restore_).ok()) return std::nullopt;
  return next_retry_;
}

// --- Due work.

void GpuDuties::serve_due() {
  const Instant now = clock_.now();
  if (next_retry_ && *next_retry_ <= now) (void)restore(to_restore_);
  if (const auto due = control_->changes_due(); due && *due <= now) {
    // The audit log reports its errors and tries again.
    (void)control_->flush_changes();
  }
}

std::optional<Instant> GpuDuties::next_due() const {
  std::optional<Instant> due;
  const auto consider = [&](std::optional<Instant> other) {
    if (other && (!due || *other < *due)) due = other;
  };
  if (has_slot() && next_command_ > clock_.now()) consider(next_command_);
  consider(next_retry_);
  consider(control_->changes_due());
  return due;
}

}  // namespace harpe::node
