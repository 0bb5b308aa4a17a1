#include "harpe/training/job/savings.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace harpe::training {
namespace {

constexpr std::size_t kFewestOfLook = 2;
// Upper bound of all-max energy over plan energy, far above the savings of real plans.
constexpr double kMostShare = 3;
// Half-width of the 95 % interval of the mean over a time in which a value changed by 1 at an
// unknown moment: the standard deviation of a uniform distribution, 1 / sqrt(12), times 1.96.
constexpr double kOfChange = 0.57;
// Share of the change of all-max that was inferred from plans and that a look cannot confirm,
// because it was gone by then. All-max may have changed by the same joules instead of in
// proportion: the difference is the share that plans save.
constexpr double kNotAlike = 0.25;
// A change over fewer iterations is no rate: over the next thousand it would become absurd.
constexpr double kShortestOfDrift = 100;
constexpr double kHalfWidth = 1.96;  // of a 95 % interval, in standard deviations
// From the median of differences of neighbours to the deviation of one: 1 / (0.6745 sqrt(2)).
constexpr double kDifferenceToSigma = 1.0483;
constexpr int kMostDifferences = 15;  // number kept by a RunningMedian
constexpr int kFewestDifferences = 6;

// This many values in a row, all `kFarOff` standard deviations to one side, are a step.
constexpr std::size_t kInARow = 3;
constexpr double kFarOff = 3;  // standard deviations
// Most iterations between two plans, such as while clocks change; after more, all-max may differ.
constexpr std::int64_t kMostUnseen = 5;

double median(std::span<const double> values) {
  return quantile(values, 0.5);
}

}  // namespace

void Savings::Noise::add(double difference) {
  deviation = kDifferenceToSigma * differences.add(std::abs(difference));
  known = std::min(known + 1, kMostDifferences);
}

double Savings::Noise::error_of_median(std::size_t values) const {
  const double one = student_quantile(std::max(1, known - 1)) * deviation;
  // The median of two values is their mean.
  return one * (values > 2 ? kMedianLoss : 1) / std::sqrt(static_cast<double>(values));
}

/// Few iterations run at all-max, so their noise may be unknown. It is at least that of plans.
double Savings::error_of_look(std::size_t values) const {
  const bool is_known = at_all_max_.known >= kFewestDifferences || by_plan_.known == 0;
  const double of_plans = by_plan_.error_of_median(values);
  return is_known ? std::max(at_all_max_.error_of_median(values), of_plans) : of_plans;
}

/// Returns the plan's unexplained energy at the time of the look, or after the plan before.
double Savings::reference(const Plan& plan) const {
  return plan.follows_gap && plan.expected_share ? expected_reference(plan)
                                                 : measured_reference(plan);
}

double Savings::expected_reference(const Plan& plan) const {
  return *plan.expected_share * (plan.used - plan.beyond) / plan.iterations;
}

/// Returns the median of the first values of the plan's unexplained energy, up to a step.
double Savings::measured_reference(const Plan& plan) const {
  return median(until_step(plan.first, std::max(kInARow, plan.before)));
}

/// Returns the first values up to a step, at least `least` of them if there are as many.
std::span<const double> Savings::until_step(std::span<const double> values,
                                            std::size_t least) const {
  std::size_t count = std::min(values.size(), least);
  int off = 0;
  for (std::size_t next = count; next < values.size(); ++next) {
    const double from = values[next] - median(values.first(count));
    const int side = from > kFarOff * by_plan_.deviation    ? 1
                     : from < -kFarOff * by_plan_.deviation ? -1
                                                            : 0;
    off = side == 0 || side * off < 0 ? side : off + side;
    if (off == 0) count = next + 1;
    if (std::abs(off) == kInARow) return values.first(count);
  }
  return values;
}

/// Returns the joules by which all-max changes if the plan's iterations change by one joule.
double Savings::share(const Plan& plan) const {
  const double at_all_max = plan.at_all_max / plan.iterations + level_.value_or(0);
  const double before = (plan.used - plan.beyond) / plan.iterations + reference(plan);
  return before > 0 ? std::clamp(at_all_max / before, 1.0, kMostShare) : 1;
}

Savings::Sum Savings::claim(const Plan& plan) const {
  if (plan.iterations == 0 || !level_) return {};
  const double n = plan.iterations, at_look = reference(plan), part = share(plan);
  const double moved = part * (plan.beyond - n * at_look);
  Sum sum{.joules = plan.at_all_max + n * *level_ + moved - plan.used,
          .bias = n * level_error_ + plan.at_all_max_error,
          .variance = plan.used_variance,
          .moved = moved + n * (*level_ - look_level_)};
  // The reference is measured in the first iterations. Its error affects only the others.
  const double others = n - static_cast<double>(plan.first.size() - plan.before);
  sum.variance += square(part * others * by_plan_.error_of_median(plan.first.size()));
  if (plan.expected_share && !plan.follows_gap)
    sum.doubted = square(part * n * (at_look - expected_reference(plan)));
  if (!is_confirmed_ || (plan.follows_gap && !plan.expected_share)) {
    // The unexplained energy of all-max and that of a plan should be the same, in joules or in
    // proportion. If they differ, one of the two was disturbed.
    const double explained = (plan.used - plan.beyond) / plan.at_all_max;
    const double off =
        std::min(std::abs(*level_ - at_look), std::abs(*level_ - at_look / explained));
    sum.variance += square(n * off);
  }
  return sum;
}

bool Savings::add(std::uint64_t plan, const ByPlan& iteration) {
  const double beyond = iteration.used - iteration.by_plan;
  if (!level_ || !std::isfinite(beyond + iteration.at_all_max + iteration.used_error)) return false;
  const bool is_near = newest_ && iteration.number - *newest_ <= kMostUnseen;
  // After a gap, the iterations of the same plan count as those of another one: all-max may have
  // changed. If they are too few to show it, the next plan uses the expected share from before the
  // gap instead of its own first iterations.
  const bool is_same =
      plan == plan_.number &&
      (is_near || (plan_.first.size() >= kInARow && plan_.newest.size() < kInARow));
  if (!is_same) {
    end_plan(false);
    // Right after a look, the plan's own first iterations show its energy at the time of the look.
    if (!plan_.follows_gap && !(is_near && follows_look_)) {
      plan_.expected_share = unexplained_share_;
      plan_.follows_gap = !is_near;
    }
  }
  follows_look_ = false;
  newest_ = iteration.number;
  plan_.number = plan;
  if (!plan_.newest.empty()) by_plan_.add(beyond - plan_.newest.back());
  plan_.iterations += 1;
  plan_.used += iteration.used;
  plan_.used_variance += square(iteration.used_error);
  plan_.beyond += beyond;
  plan_.at_all_max += iteration.at_all_max;
  plan_.at_all_max_error += iteration.at_all_max_error;
  if (plan_.first.size() < kReference) plan_.first.push_back(beyond);
  plan_.newest.push_back(beyond);
  if (plan_.newest.size() > kReference) plan_.newest.pop_front();
  return true;
}

/// Ends the plan's iterations and carries their change of energy over to the level.
/// \param goes_on  the same plan continues after a look; its last iterations are part of the next
///                 reference
void Savings::end_plan(bool goes_on) {
  if (plan_.iterations == 0) {
    plan_ = {};
    return;
  }
  since_ = since_ + claim(plan_);
  iterations_ += plan_.iterations;
  // After a step among the newest iterations, only those since count.
  const std::vector<double> backwards(plan_.newest.rbegin(), plan_.newest.rend());
  const std::span<const double> newest = until_step(backwards, kInARow);
  if (level_ && plan_.iterations > static_cast<double>(kReference)) {
    const double part = share(plan_);
    *level_ += part * (median(newest) - reference(plan_));
    level_error_ = std::hypot(level_error_, part * by_plan_.error_of_median(kReference),
                              part * by_plan_.error_of_median(newest.size()));
  }
  // Too few iterations did not update the level above, so the next plan shows the change.
  const bool is_pending = plan_.follows_gap && plan_.iterations <= static_cast<double>(kReference);
  const double predicted = plan_.used - plan_.beyond;
  if (!is_pending && newest.size() >= kInARow && predicted > 0)
    unexplained_share_ = median(newest) * plan_.iterations / predicted;
  Plan next;
  if (is_pending && !goes_on) {
    next.expected_share = plan_.expected_share;
    next.follows_gap = true;
  }
  if (goes_on) {
    next.number = plan_.number;
    const std::size_t kept = std::min(plan_.newest.size(), kReference / 2);
    next.first.assign(plan_.newest.end() - static_cast<std::ptrdiff_t>(kept), plan_.newest.end());
    next.before = kept;
  }
  plan_ = std::move(next);
}

/// Returns the sum since the last look with two more errors: the drift since then, as a random walk
/// (its mean over the time has a third of the variance of its end), and the change of all-max that
/// was inferred from plans, which no look has confirmed yet.
Savings::Sum Savings::open() const {
  Sum sum = since_ + claim(plan_);
  const double n = iterations_ + plan_.iterations;
  sum.variance += square(n) * drift_ * n / 3 + square(kOfChange * sum.moved);
  return sum;
}

void Savings::look(std::span<const double> beyond, std::optional<std::int64_t> newest) {
  if (beyond.size() < kFewestOfLook) return;
  end_plan(true);
  for (std::size_t i = 1; i < beyond.size(); ++i) at_all_max_.add(beyond[i] - beyond[i - 1]);
  const double seen = median(beyond), seen_error = error_of_look(beyond.size());
  if (!level_) {
    done_ = done_ + since_;
    level_ = seen;
    level_error_ = seen_error;
  } else {
    const double change = seen - *level_;
    const double known = square(level_error_), by_look = square(seen_error);
    const double n = std::max(kShortestOfDrift, iterations_);
    // A change that noise would explain in fewer than 1 of 20 cases is drift.
    const double of_change = square(kHalfWidth * change);
    has_moved_ = square(change) > known + by_look;
    drift_ = std::max(drift_ / 4, has_moved_ ? (of_change - known - by_look) / n : 0);
    const double expected = known + drift_ * n;
    const double gain = expected + by_look > 0 ? expected / (expected + by_look) : 1;
    since_.joules += iterations_ * gain * change / 2;
    since_.variance +=
        square(kOfChange * gain * change * iterations_) + square(kNotAlike * since_.moved);
    since_.doubted = 0;
    done_ = done_ + since_;
    *level_ += gain * change;
    level_error_ =
        std::sqrt(expected + by_look > 0 ? expected * by_look / (expected + by_look) : 0);
    is_confirmed_ = is_confirmed_ || iterations_ > 0;
    if (has_moved_) {
      // All-max may have changed just before the look, so iterations before it say nothing.
      plan_ = {};
      unexplained_share_.reset();
    }
  }
  if (newest) newest_ = newest;
  follows_look_ = true;
  look_level_ = *level_;
  since_ = {};
  iterations_ = 0;
}

void Savings::forget_level() {
  end_plan(false);
  done_ = done_ + open();
  done_.variance += std::exchange(done_.doubted, 0);
  since_ = {};
  iterations_ = 0;
  level_.reset();
  is_confirmed_ = false;
  unexplained_share_.reset();
  plan_ = {};
}

Joules Savings::error() const {
  const Sum now = open();
  return {
      std::hypot(done_.bias + now.bias, std::sqrt(done_.variance + now.variance + now.doubted))};
}

Savings::Kept Savings::kept() const {
  Savings ended = *this;
  ended.end_plan(false);
  return {.saved = done_.joules,
          .bias = done_.bias,
          .variance = done_.variance,
          .since = ended.since_.joules,
          .since_bias = ended.since_.bias,
          .since_variance = ended.since_.variance,
          .since_moved = ended.since_.moved,
          .since_doubted = ended.since_.doubted,
          .iterations = ended.iterations_,
          .level = ended.level_,
          .look_level = ended.look_level_,
          .level_error = ended.level_error_,
          .drift = drift_,
          .is_confirmed = is_confirmed_,
          .unexplained_share = ended.unexplained_share_};
}

void Savings::restore(const Kept& kept) {
  *this = {};
  done_ = {kept.saved, kept.bias, kept.variance};
  since_ = {kept.since, kept.since_bias, kept.since_variance, kept.since_moved, kept.since_doubted};
  iterations_ = kept.iterations;
  level_ = kept.level;
  look_level_ = kept.look_level;
  level_error_ = kept.level_error;
  drift_ = kept.drift;
  is_confirmed_ = kept.is_confirmed;
  unexplained_share_ = kept.unexplained_share;
}

void Savings::inherit(const Savings& before) {
  Savings ended = before;
  ended.forget_level();
  done_ = ended.done_;
}

}  // namespace harpe::training
