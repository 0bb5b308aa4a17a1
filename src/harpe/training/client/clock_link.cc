#include "harpe/training/client/clock_link.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::training {
namespace {

/// An agent that serves no pending command for longer than this is assumed not to set clocks.
constexpr Seconds kSlowAgent{0.1};

const char* reason_of(node::ClockOutcome outcome) {
  switch (outcome) {
    case node::ClockOutcome::kNotAllowed:
      return "the agent's policy does not allow it (clocks_mhz in its policy file)";
    case node::ClockOutcome::kNotSupported:
      return "this GPU or its driver does not support it";
    case node::ClockOutcome::kFailed:
      return "the driver, or the agent's files, failed: see the agent's log";
    case node::ClockOutcome::kDryRun:
      return "the agent runs with --dry-run and sets nothing";
    case node::ClockOutcome::kEnded:
      return "the lease has ended";
    case node::ClockOutcome::kNone:
    case node::ClockOutcome::kApplied:
      break;
  }
  return nullptr;
}

}  // namespace

std::uint64_t SteadyKnobs::word_of(const Knobs& knobs) noexcept {
  const auto milliwatts = static_cast<std::uint32_t>(std::lround(knobs.power_limit.value * 1000));
  return std::uint64_t{static_cast<std::uint32_t>(knobs.memory_clock.value)} << 32 | milliwatts;
}

Watts SteadyKnobs::limit_of(std::uint64_t word) {
  return Watts{static_cast<double>(static_cast<std::uint32_t>(word)) / 1000};
}

Status SteadyKnobs::set(node::ClockChannel& channel, std::uint64_t wanted) {
  const Megahertz clock = clock_of(wanted);
  const Watts limit = limit_of(wanted);
  const auto note = [this](Megahertz clock_set, Watts limit_set) {
    in_force_ = word_of({.memory_clock = clock_set, .power_limit = limit_set});
  };
  if (clock != clock_of(in_force_)) {
    HARPE_TRY(channel.set_memory_clock(0, clock));
    note(clock, limit_of(in_force_));
  }
  if (limit != limit_of(in_force_)) {
    HARPE_TRY(channel.set_power_limit(0, limit));
    note(clock, limit);
  }
  return ok_status();
}

Status SteadyKnobs::apply(node::ClockChannel& channel, Instant now) {
  const std::uint64_t wanted = wanted_;
  if (wanted == in_force_ || (wanted == refused_ && now < retry_)) return ok_status();
  Status done = set(channel, wanted);
  if (done.ok()) {
    refused_ = kNone;
    return ok_status();
  }
  // Also if the channel failed: values that may be the cause are not tried at once on the next one.
  refusal_ = done.error().text();
  refused_ = wanted;
  retry_ = now + kRetry;
  if (std::exchange(told_, refusal_) != refusal_) {
    log_("the plan's memory clock or power limit is not set: " + refusal_ +
         "; training runs at all-max");
  }
  if (done.error().code != ErrorCode::kRefused) return done;
  Status undone = set(channel, 0);
  return undone.ok() || undone.error().code == ErrorCode::kRefused ? ok_status()
                                                                   : std::move(undone);
}

ClockLink::ClockLink(ClockLinkOptions options, WantedClock& wanted, Clock& clock,
                     std::function<void(const std::string&)> log)
    : options_(std::move(options)),
      wanted_(wanted),
      clock_(clock),
      log_(std::move(log)),
      knobs_(log_),
      next_(clock.now()),
      troubled_(clock.now()) {}

void ClockLink::tick() {
  channels_.collect();
  look();
  look_at_outcome();
  apply_knobs();
  if (clock_.now() < next_) return;
  node::ClockChannel* channel = channels_.newest();
  if (channel == nullptr) return connect();
  if (Status status = channel->renew(options_.lease); !status.ok()) return lost(status.error());
  next_ = clock_.now() + options_.lease / 3;
}

void ClockLink::apply_knobs() {
  node::ClockChannel* channel = channels_.newest();
  if (channel == nullptr || knobs_.in_force()) return;
  const Status applied = knobs_.apply(*channel, clock_.now());
  troubled_ = clock_.now();
  if (!applied.ok()) lost(applied.error());
}

void ClockLink::connect() {
  auto channel =
      node::ClockChannel::take(options_.socket, {options_.gpu}, options_.lease, options_.name);
  if (!channel.ok()) return lost(channel.error());
  if (std::exchange(told_away_, false)) log_("the agent sets clocks again");
  failures_ = 0;
  ever_connected_ = true;
  told_outcome_ = node::ClockOutcome::kNone;
  told_refusals_ = false;
  waiting_since_.reset();
  served_ = refused_ = 0;
  knobs_.forget();
  channels_.publish(std::make_unique<node::ClockChannel>(*std::move(channel)));
  node::ClockChannel* newest = channels_.newest();
  wanted_.repeat([newest](Megahertz clock) { newest->set(0, clock); });
  // The policy may have granted less time than requested.
  next_ = clock_.now() + std::min(options_.lease, newest->duration()) / 3;
  apply_knobs();
}

void ClockLink::lost(const Error& error) {
  channels_.publish(nullptr);
  const bool is_of_node = error.code == ErrorCode::kUnavailable;
  if (!told_away_ && (options_.logs_for_node || !is_of_node)) {
    told_away_ = true;
    log_("clocks cannot be set: " + error.text() +
         "; training continues at the present clocks, and Harpe tries again");
  }
  const double doubled = options_.first_retry.value * std::exp2(std::min(failures_++, 20));
  next_ = clock_.now() + Seconds{std::min(doubled, options_.longest_retry.value)};
}

void ClockLink::look_at_outcome() {
  const node::ClockChannel* channel = channels_.newest();
  if (channel == nullptr) return;
  const node::ClockChannel::Served served = channel->served(0);
  const char* reason = reason_of(served.outcome);
  if (reason == nullptr && channel->refused(0) > 0 && !std::exchange(told_refusals_, true)) {
    log_(
        "the agent refused some of the clocks in between: its policy (clocks_mhz) does not allow "
        "them, or the driver failed");
  }
  if (reason == nullptr || served.outcome == told_outcome_) return;
  told_outcome_ = served.outcome;
  told_refusals_ = true;
  log_("a clock of " + std::to_string(served.clock.value) + " MHz was not set: " + reason);
  if (served.outcome == node::ClockOutcome::kEnded) {
    channels_.publish(nullptr);
    next_ = clock_.now() + options_.first_retry;
  }
}

/// Notes the time if any request is not in force.
void ClockLink::look() {
  const Instant now = clock_.now();
  const node::ClockChannel* channel = channels_.newest();
  if (channel != nullptr && !channel->connected()) {
    lost(Error::of(ErrorCode::kUnavailable, "the agent has closed the connection"));
    channel = nullptr;
  }
  if (channel == nullptr) {
    troubled_ = now;
    return;
  }
  const std::uint32_t wanted = channel->wanted(0);
  const node::ClockChannel::Served served = channel->served(0);
  if (served.sequence == wanted || served.sequence != served_) {
    waiting_since_.reset();
  } else if (!waiting_since_) {
    waiting_since_ = now;
  }
  const std::uint32_t refused = channel->refused(0);
  if (!knobs_.in_force() || refused != refused_ || reason_of(served.outcome) != nullptr ||
      (waiting_since_ && now - *waiting_since_ > kSlowAgent)) {
    troubled_ = now;
  }
  served_ = served.sequence;
  refused_ = refused;
}

bool ClockLink::obeyed_since(Instant begin) {
  look();
  return troubled_ < begin;
}

}  // namespace harpe::training
