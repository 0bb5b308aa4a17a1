#include "harpe/training/client/reporter.h"

#include <algorithm>
#include <utility>

#include "harpe/training/client/stream_library.h"

namespace harpe::training {
namespace {

/// After an iteration has ended, until its energy is looked up: the counter's next step then says
/// what the last instructions used.
constexpr Seconds kSettle{0.12};
constexpr Seconds kShutdownWait{2};
constexpr Seconds kLongestStep{0.5};
constexpr std::size_t kMostEnded = 64;

// Windows of the monitor: one keeps it sampling, the other, an iteration long, sees throttling.
const char* const kTrainingWindow = "training";
const char* const kIteration = "iteration";

/// True if the assignment leaves clocks and knobs as they are.
bool leaves_clocks(const StageAssignment& assignment) {
  return assignment.knobs.empty() &&
         std::ranges::all_of(assignment.clocks, [](Megahertz clock) { return clock.value == 0; });
}

}  // namespace

Reporter::Reporter(Parts parts, ServerSessionOptions options, std::size_t instructions)
    : parts_(std::move(parts)),
      place_(options.registration.coordinates),
      book_(instructions),
      session_(std::move(options), *parts_.link, parts_.clock, listener()) {
  thread_ = std::thread([this] { run(); });
}

ServerSession::Listener Reporter::listener() {
  return {.assignments =
              [this](const std::vector<StageAssignment>& assignments) {
                for (const StageAssignment& one : assignments) take_assignment(one);
                parts_.pauses.take(assignments);
                publish(governed_);
              },
          .forget =
              [this] {
                book_.clear();
                parts_.pauses.forget();
                publish(governed_);
                forgotten_ = parts_.clock.now();
              },
          .log = parts_.log,
          .governed =
              [this](bool governed) {
                publish(governed);
                parts_.pauses.governed(governed);
              },
          .reached = [this] { return parts_.pauses.reached(); }};
}

void Reporter::take_assignment(const StageAssignment& assignment) {
  if (parts_.readings != nullptr) parts_.readings->enable(leaves_clocks(assignment));
  const Status added = book_.add(assignment);
  if (!added.ok()) {
    if (!std::exchange(told_refused_, true)) parts_.log(added.error().text());
    return;
  }
  const RankAssignment* taken = book_.of_version(assignment.version);
  if (taken == nullptr || taken->refusal.empty() || taken->refusal == told_refusal_) return;
  told_refusal_ = taken->refusal;
  parts_.log(told_refusal_ + "; until then training runs at all-max");
}

/// Why an iteration did not run by its assignment, as far as that is not just clocks.
std::string Reporter::refusal_in(std::int64_t iteration) const {
  std::string why;
  const RankAssignment* known = book_.in_force(iteration);
  if (known != nullptr && !known->refusal.empty()) {
    why = known->refusal;
  } else if (const char* of_training = refusal_) {
    why = of_training;
  } else if (parts_.clocks != nullptr) {
    why = parts_.clocks->refusal();
  }
  return why.substr(0, IterationReport::kLongestRefusal);
}

void Reporter::publish(bool governed) {
  governed_ = governed;
  parts_.assignments.publish(governed
                                 ? std::make_unique<const AssignmentBook>(book_)
                                 : std::make_unique<const AssignmentBook>(book_.instructions()));
}

void Reporter::stop() {
  {
    const MutexLock lock(mutex_);
    if (!std::exchange(stopping_, true)) give_up_ = parts_.clock.now() + kShutdownWait;
  }
  parts_.link->wake();
  if (thread_.joinable()) thread_.join();
}

void Reporter::ended(IterationRecord record) {
  {
    const MutexLock lock(mutex_);
    if (ended_.size() >= kMostEnded) ended_.pop_front();
    ended_.push_back(std::move(record));
  }
  parts_.link->wake();
}

void Reporter::await_device_times(Seconds most) {
  const MutexLock lock(mutex_);
  await_times_ = most;
}

void Reporter::device_times(std::int64_t iteration, std::vector<TimeSpan> times) {
  {
    const MutexLock lock(mutex_);
    if (device_times_.size() >= kMostEnded) device_times_.pop_front();
    device_times_.push_back({iteration, std::move(times)});
  }
  parts_.link->wake();
}

void Reporter::say_what_is_to_say() {
  if (const char* log = to_say_.exchange(nullptr)) parts_.log(log);
}

void Reporter::run() {
  if (parts_.monitor != nullptr) {
    (void)parts_.monitor->begin(kTrainingWindow, true);
    (void)parts_.monitor->begin(kIteration, true);
  }
  for (;;) {
    const Instant now = parts_.clock.now();
    say_what_is_to_say();
    report_ended(now);
    session_.pausing(parts_.pauses.waiting());
    session_.tick();
    if (parts_.clocks != nullptr) parts_.clocks->tick();
    registered_ = session_.registered();
    reports_sent_ = session_.reports().sent();
    reports_dropped_ = session_.reports().dropped();
    if (is_done(now)) return;
    parts_.link->step(std::clamp(next(now) - parts_.clock.now(), Seconds{0.001}, kLongestStep));
  }
}

bool Reporter::is_done(Instant now) {
  const MutexLock lock(mutex_);
  if (!stopping_) return false;
  if (ended_.empty()) session_.end();  // behind all that is to be reported
  const bool sent = ended_.empty() && session_.reports().empty() && session_.ended();
  return sent || !session_.registered() || now >= give_up_;
}

Instant Reporter::next(Instant now) {
  Instant next = session_.next();
  if (parts_.clocks != nullptr) next = std::min(next, parts_.clocks->next());
  const MutexLock lock(mutex_);
  if (!ended_.empty()) next = std::min(next, due(ended_.front()));
  if (stopping_) next = std::min(next, now + Seconds{0.05});
  return next;
}

void Reporter::report_ended(Instant now) {
  while (auto record = take_ended(now)) report(*std::move(record));
}

/// When a report is made.
Instant Reporter::due(const IterationRecord& record) const {
  // Once this iteration's times are there, or later ones', there is nothing to wait for.
  const bool waits = await_times_.value > 0 &&
                     (device_times_.empty() || device_times_.back().iteration < record.iteration);
  return record.span.end + (waits ? std::max(kSettle, await_times_) : kSettle);
}

std::optional<IterationRecord> Reporter::take_ended(Instant now) {
  const MutexLock lock(mutex_);
  if (ended_.empty() || now < due(ended_.front())) return std::nullopt;
  IterationRecord record = std::move(ended_.front());
  ended_.pop_front();
  while (!device_times_.empty() && device_times_.front().iteration < record.iteration) {
    device_times_.pop_front();
  }
  if (!device_times_.empty() && device_times_.front().iteration == record.iteration) {
    record.damaged |= !IterationLog::replace_times(record, device_times_.front().times);
    device_times_.pop_front();
  } else if (await_times_.value > 0) {
    record.damaged = true;  // the moments of the calls would be reported as times of the work
  } else {
    by_calls_ = true;
  }
  return record;
}

bool Reporter::held_to(const IterationRecord& record) {
  const StageAssignment* assignments = book_.of_version(record.version);
  if (assignments == nullptr) return false;
  // Where no agent ever was, the GPU runs as fast as it likes.
  if (parts_.clocks == nullptr || !parts_.clocks->ever_connected()) {
    return assignments->purpose == StageAssignment::Purpose::kAllMax || leaves_clocks(*assignments);
  }
  return parts_.clocks->obeyed_since(record.span.begin);
}

/// Held back below the clock asked for. A power limit at the highest clock is no such thing: what
/// the GPU does there is all-max.
bool Reporter::throttled(const IterationRecord& record) {
  const auto window = parts_.monitor->end(kIteration);
  (void)parts_.monitor->begin(kIteration, true);
  if (!window.ok() || window->devices.empty()) return false;
  const EventReasons reasons = window->devices.front().reasons;
  if (!reasons.throttled()) return false;
  if (EventReasons{reasons.bits & ~EventReasons::kPowerCap}.throttled()) return true;
  const auto at_highest = [this](const TimedInstruction& one) {
    return one.clock.value <= 0 || one.clock >= parts_.highest;
  };
  return std::ranges::none_of(record.instructions, at_highest);
}

IterationReport Reporter::report_of(const IterationRecord& record) {
  IterationReport report = make_report(record, place_, [&](std::span<const TimeSpan> spans) {
    if (parts_.monitor == nullptr) return std::vector<EnergyEstimate>();
    auto energies = parts_.monitor->past(0, spans);
    return energies.ok() ? *std::move(energies) : std::vector<EnergyEstimate>();
  });
  if (parts_.monitor == nullptr) return report;
  report.throttled = throttled(record);
  if (parts_.readings != nullptr && parts_.readings->enabled())
    report.clock = parts_.readings->during(record.instructions);
  if (const auto edges = parts_.monitor->counter_edges(0, record.span.begin + -PowerSplit::kBefore);
      edges.ok()) {
    split_.add(record, *edges);
    split_.refine(record, report);
  }
  return report;
}

/// Clocks that come too early save nothing, and the user would not notice.
void Reporter::tell_of_streams() {
  if (!by_calls_ || std::exchange(told_calls_, true) || !StreamLibrary::find().ok()) return;
  parts_.log(
      "this process uses a GPU's library, but clocks follow training's calls: where those only put "
      "work into a stream, say which one (follow_stream), or clocks come too early");
}

void Reporter::report(const IterationRecord& record) {
  tell_of_streams();
  if (!record.damaged) {
    IterationReport report = report_of(record);
    if (record.span.begin < forgotten_ || !held_to(record)) {
      report.version = 0;
      report.refusal = refusal_in(record.iteration);
    }
    session_.report(std::move(report));
  }
  const std::size_t before = book_.size();
  book_.forget_before(record.iteration);
  if (book_.size() != before) publish(governed_);
}

}  // namespace harpe::training
