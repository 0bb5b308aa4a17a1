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
// Iterations after which the next look is overdue, as under a power cap, which a look could break:
// the longest pause between looks is 1600.
constexpr double kLooksUntil = 2000;
// Change of the energy at all-max that is assumed in the error then. Not measured: hot rooms and
// neighbours change it by 5 to 15 %.
constexpr double kUnseenChange = 0.1;
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

Savings::Noise Savings::Noise::of(double deviation) {
  Noise noise;
  if (deviation <= 0) return noise;
  for (int i = 0; i < kFewestDifferences; ++i) noise.add(deviation / kDifferenceToSigma);
  return noise;
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
                                                 : median(first_values(plan));
}

double Savings::expected_reference(const Plan& plan) const {
  return *plan.expected_share * (plan.used - plan.beyond) / plan.iterations;
}

/// Returns the first values of the plan's unexplained energy, up to a step.
std::span<const double> Savings::first_values(const Plan& plan) const {
  return until_step(plan.first, std::max(kInARow, plan.before));
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
  const std::size_t known = first_values(plan).size();
  const double others = n - static_cast<double>(known - std::min(known, plan.before));
  sum.variance += square(part * others * by_plan_.error_of_median(known));
  if (plan.expected_share && !plan.follows_gap)
    sum.doubted = part * n * (at_look - expected_reference(plan));
  if (!is_confirmed_) {
    // The unexplained energy of all-max and that of a plan should be the same, in joules or in
    // proportion. If they differ, one of the two was disturbed.
    const double explained = (plan.used - plan.beyond) / plan.at_all_max;
    const double off =
        std::max(std::abs(*level_ - at_look), std::abs(*level_ - at_look / explained));
    sum.variance += square(n * off);
  }
  return sum;
}

/// Returns true if the iteration follows the newest one closely.
bool Savings::is_near(std::int64_t iteration) const {
  return newest_ && iteration - *newest_ <= kMostUnseen;
}

bool Savings::add(std::uint64_t plan, const ByPlan& iteration) {
  const double beyond = iteration.used - iteration.by_plan;
  if (!level_ || !std::isfinite(beyond + iteration.at_all_max + iteration.used_error)) return false;
  const bool follows_gap = !is_near(iteration.number);
  has_gap_ = has_gap_ || follows_gap;
  // After a gap, the iterations of the same plan count as those of another one: all-max may have
  // changed. If they are too few to show it, the next plan uses the expected share from before the
  // gap instead of its own first iterations.
  const bool is_same =
      plan == plan_.number &&
      (!follows_gap || (plan_.first.size() >= kInARow && plan_.newest.size() < kInARow));
  if (!is_same) {
    end_plan(false);
    plan_.expected_share = expected_share_;
    plan_.follows_gap = plan_.follows_gap || follows_gap;
  }
  newest_ = iteration.number;
  plan_.number = plan;
  if (!plan_.newest.empty()) by_plan_.add(beyond - plan_.newest.back());
  plan_.iterations += 1;
  plan_.used += iteration.used;
  plan_.used_variance += square(iteration.used_error);
  plan_.beyond += beyond;
  newest_at_all_max_ = iteration.at_all_max;
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
  const double predicted = (plan_.used - plan_.beyond) / plan_.iterations;
  const bool is_known = newest.size() >= kInARow && predicted > 0;
  const double at_first = reference(plan_);
  // Too few iterations do not show a change of the energies, so the next plan shows it.
  const bool is_long = plan_.iterations > static_cast<double>(kReference);
  if (level_ && is_long) {
    const double part = share(plan_);
    *level_ += part * (median(newest) - at_first);
    level_error_ = std::hypot(level_error_, part * by_plan_.error_of_median(kReference),
                              part * by_plan_.error_of_median(newest.size()));
    if (expected_share_ && is_known) *expected_share_ += (median(newest) - at_first) / predicted;
  }
  if (is_known && (goes_on || !expected_share_)) expected_share_ = median(newest) / predicted;
  Plan next;
  next.follows_gap = plan_.follows_gap && !is_long && !goes_on;
  if (goes_on) {
    next.number = plan_.number;
    next.before = std::min(newest.size(), kReference / 2);
    next.first.assign(backwards.begin(),
                      backwards.begin() + static_cast<std::ptrdiff_t>(next.before));
    std::ranges::reverse(next.first);
  }
  plan_ = std::move(next);
}

/// Returns the sum since the last look with three more errors: the drift since then, as a random
/// walk (its mean over the time has a third of the variance of its end); the change of all-max that
/// was inferred from plans, which no look has confirmed yet; and a change that looks would have
/// shown if they were not overdue.
Savings::Sum Savings::open() const {
  Sum sum = since_ + claim(plan_);
  const double n = iterations_ + plan_.iterations;
  const double unseen = std::max(0.0, n - kLooksUntil) * kUnseenChange * newest_at_all_max_;
  sum.variance += square(n) * drift_ * n / 3 + square(kOfChange * sum.moved) + square(unseen);
  return sum;
}

/// Adds the doubted joules to the error, unless the look shows that all-max did not change with the
/// plan.
/// \param change  of the level that the look has shown, J
/// \param noise   J: error of `change`
void Savings::count_doubt(double change, double noise) {
  const double doubted = std::abs(std::exchange(since_.doubted, 0));
  const double most_unlike = (std::abs(change) + noise) * iterations_;
  const bool is_resolved =
      !has_gap_ && std::abs(since_.moved) < doubted / 2 && most_unlike < doubted / 2;
  if (!is_resolved) since_.variance += square(doubted);
}

void Savings::look(std::span<const double> beyond, std::optional<std::int64_t> newest) {
  if (beyond.size() < kFewestOfLook) return;
  const auto size = static_cast<std::int64_t>(beyond.size());
  has_gap_ = has_gap_ || !newest || !is_near(*newest - size);
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
    count_doubt(change, std::sqrt(known + by_look));
    done_ = done_ + since_;
    const double before = newest_at_all_max_ + *level_;
    *level_ += gain * change;
    level_error_ =
        std::sqrt(expected + by_look > 0 ? expected * by_look / (expected + by_look) : 0);
    is_confirmed_ = is_confirmed_ || expected_share_;
    if (has_moved_) {
      // All-max may have changed just before the look: the plan's iterations before it are no
      // reference. They are assumed to change in proportion.
      plan_ = {};
      const double factor = before > 0 ? (before + gain * change) / before : 0;
      const bool is_alike = factor > 1 / kMostShare && factor < kMostShare;
      if (expected_share_ && is_alike) expected_share_ = (1 + *expected_share_) * factor - 1;
    }
  }
  if (newest) newest_ = newest;
  has_gap_ = false;
  look_level_ = *level_;
  since_ = {};
  iterations_ = 0;
}

void Savings::forget_level() {
  end_plan(false);
  done_ = done_ + open();
  done_.variance += square(std::exchange(done_.doubted, 0));
  since_ = {};
  iterations_ = 0;
  level_.reset();
  is_confirmed_ = false;
  expected_share_.reset();
  plan_ = {};
}

Joules Savings::error() const {
  const Sum now = open();
  return {std::hypot(done_.bias + now.bias,
                     std::sqrt(done_.variance + now.variance + square(now.doubted)))};
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
          .at_all_max = newest_at_all_max_,
          .level_error = ended.level_error_,
          .drift = drift_,
          .noise_by_plan = ended.by_plan_.deviation,
          .noise_at_all_max = ended.at_all_max_.deviation,
          .is_confirmed = is_confirmed_,
          .expected_share = ended.expected_share_};
}

void Savings::restore(const Kept& kept) {
  *this = {};
  done_ = {kept.saved, kept.bias, kept.variance};
  since_ = {kept.since, kept.since_bias, kept.since_variance, kept.since_moved, kept.since_doubted};
  iterations_ = kept.iterations;
  level_ = kept.level;
  look_level_ = kept.look_level;
  newest_at_all_max_ = kept.at_all_max;
  has_gap_ = true;
  level_error_ = kept.level_error;
  drift_ = kept.drift;
  by_plan_ = Noise::of(kept.noise_by_plan);
  at_all_max_ = Noise::of(kept.noise_at_all_max);
  is_confirmed_ = kept.is_confirmed;
  expected_share_ = kept.expected_share;
}

void Savings::inherit(const Savings& before) {
  Savings ended = before;
  ended.forget_level();
  done_ = ended.done_;
}

}  // namespace harpe::training
