#include "harpe/measure/short_operation.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/base/text.h"
#include "harpe/measure/energy_estimator.h"

namespace harpe {
namespace {

constexpr double kLeastSteps = 10;  // counter steps in a batch
constexpr int kClockTolerance = 8;  // MHz between a locked clock and the one read back

struct Batch {
  double time = 0, energy = 0;  ///< of one operation, s and J
  int operations = 0;
  bool valid = false;
  EventReasons reasons;
};

struct Point {
  OperationCost cost;
  std::vector<double> times, energies;
  int discarded_in_row = 0;
  bool ended() const { return cost.done || !cost.remark.empty(); }
};

class OperationSession {
 public:
  OperationSession(Gpu& gpu, const RunOperation& operation, const ShortOperationOptions& options,
                   Clock& clock)
      : gpu_(gpu),
        operation_(operation),
        options_(options),
        clock_(clock),
        random_(options.seed),
        estimator_({.counter_step = options.counter_step}) {}

  Result<ShortOperationResult> run() {
    const Instant start = clock_.now();
    ShortOperationResult result;
    HARPE_TRY(estimate_operation());
    const std::size_t count = std::max<std::size_t>(options_.clocks.size(), 1);
    std::vector<Point> points(count);
    for (std::size_t i = 0; i < options_.clocks.size(); ++i) {
      points[i].cost.clock = options_.clocks[i];
    }
    std::vector<std::size_t> order(count);
    for (std::size_t i = 0; i < count; ++i) order[i] = i;
    while (result.within_budget &&
           !std::ranges::all_of(points, [](const Point& point) { return point.ended(); })) {
      std::ranges::shuffle(order, random_);
      for (const std::size_t i : order) {
        if (points[i].ended()) continue;
        if ((clock_.now() - start).value + options_.batch.value > options_.budget.value) {
          result.within_budget = false;
          break;
        }
        const Batch batch = HARPE_TRY(measure(points[i].cost.clock));
        take(batch, points[i]);
      }
    }
    for (Point& point : points) result.costs.push_back(std::move(point.cost));
    result.spent = clock_.now() - start;
    return result;
  }

 private:
  /// How many operations fit between two looks at the sensors.
  Status estimate_operation() {
    const OperationSpan span = HARPE_TRY(operation_(1));
    const double time = std::max(1e-7, (span.end - span.begin).value);
    chunk_ = std::max(1, static_cast<int>(options_.poll.value / time));
    return ok_status();
  }

  Status look() {
    EnergySample sample;
    const Result<Watts> power = gpu_.instant_power();
    const Result<Joules> counter = gpu_.total_energy();
    sample.time = clock_.now();
    if (power.ok()) sample.power = *power;
    if (counter.ok()) sample.counter = *counter;
    if (!power.ok() && !counter.ok()) return counter.error();
    estimator_.add(sample);
    return ok_status();
  }

  Status rest(Seconds time) {
    const Instant end = clock_.now() + time;
    while (clock_.now() < end) {
      clock_.sleep_until(std::min(end, clock_.now() + options_.poll));
      HARPE_TRY(look());
    }
    return ok_status();
  }

  /// Repeats the operation for `time`; what it took and how often, and when it began and ended.
  struct Repeated {
    OperationSpan span;
    double busy = 0;
    int operations = 0;
  };
  Result<Repeated> repeat(Seconds time) {
    Repeated repeated;
    bool first = true;
    do {
      const OperationSpan span = HARPE_TRY(operation_(chunk_));
      if (first) repeated.span.begin = span.begin;
      first = false;
      repeated.span.end = span.end;
      repeated.busy += (span.end - span.begin).value;
      repeated.operations += chunk_;
      HARPE_TRY(look());
    } while (repeated.span.end - repeated.span.begin < time);
    return repeated;
  }

  /// Whether the GPU runs as it was told.
  bool as_told(Megahertz wanted, Batch& batch) {
    if (const auto reasons = gpu_.event_reasons(); reasons.ok()) {
      batch.reasons.bits |= reasons->bits;
      if (reasons->throttled()) return false;
    }
    if (wanted.value == 0) return true;
    const auto now = gpu_.clock(ClockDomain::kGraphics);
    return !now.ok() || std::abs(now->value - wanted.value) <= kClockTolerance;
  }

  Result<Batch> measure(Megahertz wanted) {
    HARPE_TRY(rest(options_.rest));
    if (wanted.value != 0) {
      HARPE_TRY(gpu_.set_locked_clocks(ClockDomain::kGraphics, {wanted, wanted}));
    }
    std::uniform_real_distribution<double> unit(0, 1);
    const Seconds phase = options_.counter_step * unit(random_);
    HARPE_TRY(repeat(options_.batch * options_.warm_up + phase));
    Batch batch;
    batch.valid = as_told(wanted, batch);
    const auto repeated = HARPE_TRY(repeat(options_.batch));
    batch.valid = as_told(wanted, batch) && batch.valid;
    // Both edges lie between two steps of the counter, amid the same work: whatever power gets
    // wrong about it, it gets wrong at both.
    HARPE_TRY(repeat(options_.counter_step * 1.5));
    const EnergyEstimate used = estimator_.between(repeated.span.begin, repeated.span.end);
    if (used.source == EnergySource::kNone) {
      return Error::of(ErrorCode::kNotSupported,
                       "this GPU tells neither energy nor instant power: what an operation costs "
                       "cannot be measured on it");
    }
    batch.operations = repeated.operations;
    batch.time = repeated.busy / repeated.operations;
    batch.energy = used.energy.value / repeated.operations;
    return batch;
  }

  void take(const Batch& batch, Point& point) {
    OperationCost& cost = point.cost;
    if (!batch.valid) {
      cost.discarded += 1;
      cost.held_back.bits |= batch.reasons.bits;
      if (++point.discarded_in_row >= options_.most_discarded) {
        const std::string why =
            batch.reasons.throttled() ? batch.reasons.text() : std::string("unknown reasons");
        cost.remark = "the GPU does not keep this clock: held back by " + why;
      }
      return;
    }
    point.discarded_in_row = 0;
    point.times.push_back(batch.time);
    point.energies.push_back(batch.energy);
    cost.operations += batch.operations;
    cost.batches += 1;
    const MeanWithError time = mean_with_error(point.times);
    const MeanWithError energy = mean_with_error(point.energies);
    cost.time = {time.mean};
    cost.time_error = {time.error};
    cost.energy = {energy.mean};
    cost.energy_error = {energy.error};
    cost.done =
        cost.batches >= options_.least_batches && energy.error <= options_.target * energy.mean;
  }

  Gpu& gpu_;
  const RunOperation& operation_;
  const ShortOperationOptions& options_;
  Clock& clock_;
  std::mt19937_64 random_;
  EnergyEstimator estimator_;
  int chunk_ = 1;
};

Status check(const ShortOperationOptions& options) {
  const double steps = options.batch / options.counter_step;
  if (steps < kLeastSteps && !options.force) {
    return Error::invalid("a batch of " + shortest(options.batch.value) + " s has " +
                          shortest(std::floor(steps)) +
                          " counter steps; at least 10 are needed for its energy to mean "
                          "something (or force it)");
  }
  if (!(options.target > 0) || !(options.warm_up >= 0) || options.least_batches < 2 ||
      !(options.batch.value > 0) || !(options.poll.value > 0)) {
    return Error::invalid("the target must be above 0, and 2 batches are the least");
  }
  return ok_status();
}

}  // namespace

ClockRestorer::ClockRestorer(Gpu& gpu) : gpu_(&gpu) {
  const auto before = gpu.locked_clocks(ClockDomain::kGraphics);
  knows_before_ = before.ok();
  if (before.ok()) before_ = *before;
}

Status ClockRestorer::restore() {
  if (std::exchange(restored_, true)) return ok_status();
  if (before_) return gpu_->set_locked_clocks(ClockDomain::kGraphics, *before_);
  return gpu_->reset_locked_clocks(ClockDomain::kGraphics);
}

Result<ShortOperationResult> measure_short_operation(Gpu& gpu, const RunOperation& operation,
                                                     const ShortOperationOptions& options,
                                                     Clock& clock) {
  HARPE_TRY(check(options));
  std::optional<ClockRestorer> restorer;
  if (!options.clocks.empty()) restorer.emplace(gpu);
  Result<ShortOperationResult> result = OperationSession(gpu, operation, options, clock).run();
  if (restorer) {
    if (Status status = restorer->restore(); !status.ok() && result.ok()) {
      return std::move(status).error();
    }
  }
  return result;
}

}  // namespace harpe
