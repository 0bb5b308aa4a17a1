#include "harpe/training/client/reporter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/training/client/stream_library.h"

namespace harpe::training {
namespace {

constexpr double kForgetting = 0.98;      // per iteration, because chips warm up
constexpr double kRelativeNoise = 0.002;  // of the energy of an interval, in addition to its edges
// Standard deviations of the prior, as shares of the power.
constexpr double kWeak = 3;            // without knowledge
constexpr double kAlike = 0.25;        // between computations at one clock
constexpr double kWaitingAlike = 0.1;  // between waiting under these and the previous assignments
constexpr double kShort = 0.3;      // s: shorter instructions contain too few steps of the counter
constexpr double kGood = 0.2;       // relative error
constexpr Seconds kMostMoved{0.1};  // longest change of a known edge's time by later edges
constexpr std::size_t kSize = PowerSplit::kMostClasses;

double overlap(const TimeSpan& span, Instant begin, Instant end) {
  return std::max(0.0, (std::min(span.end, end) - std::max(span.begin, begin)).value);
}

/// Inverts a positive definite matrix of n rows in place by Cholesky decomposition. Returns false
/// if it is not positive definite.
bool invert(std::vector<double>& matrix, std::size_t n) {
  std::vector<double> lower(n * n, 0);
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j <= i; ++j) {
      double sum = matrix[i * n + j];
      for (std::size_t k = 0; k < j; ++k) sum -= lower[i * n + k] * lower[j * n + k];
      if (i == j && !(sum > 0)) return false;
      lower[i * n + j] = i == j ? std::sqrt(sum) : sum / lower[j * n + j];
    }
  }
  for (std::size_t column = 0; column < n; ++column) {
    std::vector<double> x(n, 0);
    for (std::size_t i = 0; i < n; ++i) {
      double sum = i == column ? 1 : 0;
      for (std::size_t k = 0; k < i; ++k) sum -= lower[i * n + k] * x[k];
      x[i] = sum / lower[i * n + i];
    }
    for (std::size_t i = n; i-- > 0;) {
      double sum = x[i];
      for (std::size_t k = i + 1; k < n; ++k) sum -= lower[k * n + i] * x[k];
      x[i] = sum / lower[i * n + i];
    }
    for (std::size_t i = 0; i < n; ++i) matrix[i * n + column] = x[i];
  }
  return true;
}

/// Time from the end of an iteration until its energy is read: the next step of the counter then
/// includes the energy of the last instructions.
constexpr Seconds kSettle{0.12};
constexpr Seconds kShutdownWait{2};
constexpr Seconds kLongestStep{0.5};
constexpr std::size_t kMostEnded = 64;

// Windows of the monitor: one keeps it sampling, the other lasts an iteration to detect throttling.
const char* const kTrainingWindow = "training";
const char* const kIteration = "iteration";

/// Returns true if the assignment leaves clocks and knobs unchanged.
bool leaves_clocks(const StageAssignment& assignment) {
  return assignment.knobs.empty() &&
         std::ranges::all_of(assignment.clocks, [](Megahertz clock) { return clock.value == 0; });
}

}  // namespace

std::size_t PowerSplit::index(const Class& of) {
  const auto [known, added] = classes_.try_emplace(of, classes_.size());
  return known->second;
}

void PowerSplit::add(const IterationRecord& record, std::span<const CounterEdge> edges) {
  if (version_ != record.version) {
    std::optional<double> waiting = waiting_;
    if (const auto solution = solve()) waiting = solution->power[classes_.at({-1, 0, 0})];
    *this = PowerSplit();
    if (waiting && *waiting > 0) waiting_ = waiting;
    version_ = record.version;
    times_times_.assign(kSize * kSize, 0);
    times_energy_.assign(kSize, 0);
    return;
  }
  if (too_many_ || record.damaged) {
    known_since_.reset();
    return;
  }
  for (double& sum : times_times_) sum *= kForgetting;
  for (double& sum : times_energy_) sum *= kForgetting;
  for (double* sum : {&energy_energy_, &intervals_, &energy_, &time_}) *sum *= kForgetting;
  // Intervals cross the borders of iterations.
  if (!known_since_ || *known_since_ < record.span.begin + -kBefore) {
    known_since_ = record.span.begin;
    instructions_.clear();
  }
  instructions_.insert(instructions_.end(), record.instructions.begin(), record.instructions.end());
  for (std::size_t i = 1; i < edges.size(); ++i) {
    const CounterEdge &begin = edges[i - 1], &end = edges[i];
    // Later edges refine the time of an edge; its counter value does not change.
    const bool is_used = used_ && std::pair(begin.restarts, begin.energy.value) <
                                      std::pair(used_->restarts, used_->energy.value);
    const bool is_known = begin.time >= *known_since_ && end.time <= record.span.end;
    if (is_used || !is_known || begin.restarts != end.restarts) continue;
    add_interval(begin, end, instructions_);
    used_ = end;
  }
  if (!used_) return;
  known_since_ = std::max(*known_since_, used_->time + -kMostMoved);
  std::erase_if(instructions_,
                [this](const TimedInstruction& one) { return one.span.end < *known_since_; });
}

void PowerSplit::add_interval(const CounterEdge& from, const CounterEdge& to,
                              std::span<const TimedInstruction> instructions) {
  const double length = (to.time - from.time).value;
  const double energy = (to.energy - from.energy).value;
  if (!(length > 0) || !(energy >= 0)) return;
  std::vector<double> times(kSize, 0);
  double waiting = length;
  for (const TimedInstruction& one : instructions) {
    const double time = overlap(one.span, from.time, to.time);
    if (time <= 0) continue;
    const std::size_t at = index({static_cast<int>(one.kind), one.chunk, one.clock.value});
    if (at >= kSize) {
      too_many_ = true;
      return;
    }
    times[at] += time;
    waiting -= time;
  }
  const std::size_t at = index({-1, 0, 0});
  if (at >= kSize) {
    too_many_ = true;
    return;
  }
  times[at] += std::max(0.0, waiting);
  // An edge that is wrong by some milliseconds misplaces the energy of these milliseconds.
  const double edges = std::hypot(from.sigma.value, to.sigma.value) * energy / length;
  const double weight = 1 / (square(edges) + square(kRelativeNoise * energy) + 1e-6);
  for (std::size_t i = 0; i < kSize; ++i) {
    if (times[i] == 0) continue;
    for (std::size_t j = 0; j < kSize; ++j)
      times_times_[i * kSize + j] += weight * times[i] * times[j];
    times_energy_[i] += weight * times[i] * energy;
  }
  energy_energy_ += weight * square(energy);
  intervals_ += 1;
  energy_ += energy;
  time_ += length;
}

void PowerSplit::expect(std::vector<double>& matrix, std::vector<double>& right) const {
  const std::size_t n = classes_.size();
  const double mean = energy_ / time_;
  const double alike = 1 / square(kAlike * mean);
  for (const auto& [one, i] : classes_) {
    const bool waits = std::get<0>(one) < 0;
    const double expected = waits && waiting_ ? *waiting_ : mean;
    const double pull = 1 / square(expected * (waits && waiting_ ? kWaitingAlike : kWeak));
    matrix[i * n + i] += pull;
    right[i] += pull * expected;
    for (const auto& [other, j] : classes_) {
      if (i == j || waits || std::get<0>(other) < 0 || std::get<2>(one) != std::get<2>(other)) {
        continue;
      }
      matrix[i * n + i] += alike;
      matrix[i * n + j] -= alike;
    }
  }
}

std::optional<PowerSplit::Solution> PowerSplit::solve() const {
  const std::size_t n = classes_.size();
  if (too_many_ || n == 0 || !(time_ > 0) || !(energy_ > 0)) return std::nullopt;
  if (intervals_ < 1.5 * static_cast<double>(n) + 2) return std::nullopt;
  Solution solution{std::vector<double>(n, 0), std::vector<double>(n * n)};
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      solution.covariance[i * n + j] = times_times_[i * kSize + j];
    }
  }
  std::vector<double> right(times_energy_.begin(),
                            times_energy_.begin() + static_cast<std::ptrdiff_t>(n));
  expect(solution.covariance, right);
  if (!invert(solution.covariance, n)) return std::nullopt;
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      solution.power[i] += solution.covariance[i * n + j] * right[j];
    }
  }
  // Weighted squares of the residuals, whose expected value is 1 per interval.
  double squares = energy_energy_;
  for (std::size_t i = 0; i < n; ++i) {
    squares -= 2 * solution.power[i] * times_energy_[i];
    for (std::size_t j = 0; j < n; ++j) {
      squares += solution.power[i] * times_times_[i * kSize + j] * solution.power[j];
    }
  }
  const double freedom = std::max(1.0, intervals_ - static_cast<double>(n));
  const double inflation = std::max(1.0, squares / freedom);
  for (double& entry : solution.covariance) entry *= inflation;
  return solution;
}

void PowerSplit::refine(const IterationRecord& record, IterationReport& report) const {
  if (version_ != record.version) return;
  const auto solution = solve();
  if (!solution) return;
  const std::size_t n = classes_.size();
  for (InstructionTotals& totals : report.instructions) {
    std::vector<double> times(n, 0);
    bool known = true;
    for (const TimedInstruction& one : record.instructions) {
      if (one.kind != totals.kind || one.chunk != totals.chunk) continue;
      const auto of = classes_.find({static_cast<int>(one.kind), one.chunk, one.clock.value});
      known = known && of != classes_.end();
      if (known) times[of->second] += (one.span.end - one.span.begin).value;
    }
    if (!known) continue;
    double energy = 0, variance = 0;
    for (std::size_t i = 0; i < n; ++i) {
      energy += times[i] * solution->power[i];
      for (std::size_t j = 0; j < n; ++j) {
        variance += times[i] * solution->covariance[i * n + j] * times[j];
      }
    }
    const double error = kNinetyFivePercent * std::sqrt(std::max(0.0, variance));
    // Power sensors that measure a quarter of the time underestimate their errors for short spans.
    const bool is_short = totals.time.value < kShort * totals.count && error < kGood * energy;
    const bool better =
        std::isnan(totals.energy.value) || error < totals.energy_error.value || is_short;
    if (!better || !std::isfinite(energy) || !std::isfinite(error)) continue;
    totals.energy = {energy};
    totals.energy_error = {error};
  }
}

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

/// Returns why an iteration did not run by its assignment; empty if only clocks were not set.
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
  if (ended_.empty()) session_.end();  // after all reports
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

/// Returns the time at which a report is made.
Instant Reporter::due(const IterationRecord& record) const {
  // Device times of this iteration or a later one end the wait.
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
    record.damaged = true;  // else the times of calls would be reported as times of the work
  } else {
    by_calls_ = true;
  }
  return record;
}

bool Reporter::held_to(const IterationRecord& record) {
  const StageAssignment* assignments = book_.of_version(record.version);
  if (assignments == nullptr) return false;
  // If no agent ever connected, the clock is not locked, as at all-max.
  if (parts_.clocks == nullptr || !parts_.clocks->ever_connected()) {
    return assignments->purpose == StageAssignment::Purpose::kAllMax || leaves_clocks(*assignments);
  }
  return parts_.clocks->obeyed_since(record.span.begin);
}

/// Returns true if the GPU was held below the requested clock. A power limit at the highest clock
/// does not count: it is part of all-max.
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

/// Warns if clocks follow calls that only enqueue work: clocks that are set too early save nothing,
/// and the user would not notice.
void Reporter::tell_of_streams() {
  if (!by_calls_ || std::exchange(told_calls_, true) || !StreamLibrary::find().ok()) return;
  parts_.log(
      "this process uses a GPU library, but clocks follow the calls of training: if these calls "
      "only queue work in a stream, name the stream (follow_stream), or clocks change too early");
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
