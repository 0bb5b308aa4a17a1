#include "harpe/device/measure/counter_steps.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>

#include "harpe/base/statistics.h"

namespace harpe::device {
namespace {

constexpr double kNarrow = 0.6;  // of the period; a narrow bracket's middle shows the number
constexpr std::size_t kEnoughBrackets = 2;  // narrow brackets for a line of the expected period
constexpr std::size_t kToLearn = 8;         // narrow brackets to learn another period
constexpr double kLongestCountedGap = 10;   // periods; no count of steps over longer gaps
constexpr int kLineIterations = 2, kFirstIterations = 5;
// Assumed jitter of steps, error of the expected period, and least error of a learned period, as
// shares of the period.
constexpr double kUsualStepJitter = 0.01, kUsualPeriod = 0.02, kLearntPeriod = 0.002;
constexpr double kUsualCounts = 0.5;   // number of observed steps that the assumed jitter counts as
constexpr double kLeastJitter = 2e-4;  // s
constexpr double kIrregularSteps = 0.12;  // largest jitter of a line, as a share of the period
constexpr std::size_t kEnoughRises = 16;
constexpr double kSure = 4;  // standard deviations

double uniform_variance(double width) {
  return width * width / 12;
}

}  // namespace

TruncatedNormal truncated_normal(double mean, double sigma, double low, double high) {
  const double a = (low - mean) / sigma, b = (high - mean) / sigma;
  TruncatedNormal inside;
  inside.share = (std::erf(b / std::numbers::sqrt2) - std::erf(a / std::numbers::sqrt2)) / 2;
  if (!inside.likely()) {
    inside.mean = (low + high) / 2;
    inside.variance = (high - low) * (high - low) / 12;
    return inside;
  }
  const double scale = std::numbers::inv_sqrtpi / std::numbers::sqrt2;
  const double at_a = scale * std::exp(-a * a / 2), at_b = scale * std::exp(-b * b / 2);
  const double shift = (at_a - at_b) / inside.share;
  const double variance = 1 + (a * at_a - b * at_b) / inside.share - shift * shift;
  inside.mean = std::clamp(mean + sigma * shift, low, high);
  inside.variance = sigma * sigma * std::clamp(variance, 1e-6, 1.0);
  return inside;
}

void CounterSteps::restart() {
  last_.reset();
  drop_all();
}

void CounterSteps::learn_period() {
  if (!period_ || !line_) return;
  const double sigma = std::max(kLearntPeriod * line_->slope, std::sqrt(line_->slope_variance));
  learnt_ = {.mean = line_->slope, .sigma = sigma};
}

void CounterSteps::drop_all() {
  learn_period();
  brackets_.clear();
  line_.reset();
}

std::optional<Joules> CounterSteps::last_value() const {
  if (!last_) return std::nullopt;
  return last_->value;
}

std::optional<CounterStep> CounterSteps::add(Instant time, Seconds spread, Joules value) {
  if (last_ && value < last_->value) restart();
  const bool is_first = !last_;
  if (is_first) origin_ = time;
  if (!is_first && value == last_->value) {
    last_->time = time;
    last_->spread = spread;
    return std::nullopt;
  }
  const double high = (time - origin_).value + spread.value;
  const double since_reading =
      is_first ? period().value : (time - last_->time).value + last_->spread.value + spread.value;
  if (since_reading > kLongestCountedGap * period().value) {  // steps cannot be counted
    drop_all();
  }
  brackets_.push_back({.high = high,
                       .since = is_first ? 0 : since_reading,
                       .spread = spread.value,
                       .value = value.value});
  if (brackets_.size() > kRemembered) {
    learn_period();
    brackets_.pop_front();
  }
  last_ = Reading{time, spread, value};
  fit();
  const Bracket& newest = brackets_.back();
  const TruncatedNormal placed = place(newest);
  next_earliest_ = (time - origin_).value;
  if (line_) {
    const double next = line_->at(static_cast<double>(newest.index) + 1);
    next_earliest_ = next - 3 * std::hypot(line_->jitter, std::sqrt(placed.variance));
  }
  return CounterStep{.time = origin_ + Seconds{placed.mean},
                     .sigma = {std::sqrt(placed.variance)},
                     .value = value,
                     .earliest = origin_ + Seconds{newest.low},
                     .latest = origin_ + Seconds{newest.high}};
}

/// Returns the period that neighbouring steps show, or the expected one if they agree with it. Two
/// consecutive steps in narrow brackets are one period apart, because no reading in between saw
/// another step; a run of such steps measures the period. If brackets are as wide as the distances
/// between steps, steps may be missing, and the period is at most the distance between steps seen.
CounterSteps::PeriodPrior CounterSteps::seen_period() const {
  const double expected = expected_.value, slack = 3 * kUsualStepJitter * expected;
  const auto middle = [](const Bracket& one) { return one.high - one.since / 2; };
  std::vector<double> distances;
  PeriodPrior by_run;
  double longest = 0, resolved = 0;
  bool as_expected = true;
  std::size_t first = 0;
  for (std::size_t i = 1; i < brackets_.size(); ++i) {
    const Bracket &a = brackets_[i - 1], &b = brackets_[i];
    const double distance = middle(b) - middle(a);
    const bool narrow = a.since > 0 && std::max(a.since, b.since) <= kNarrow * distance;
    if (a.since > 0) {
      distances.push_back(distance);
      as_expected &= b.high - (a.high - a.since) >= expected - slack;
    }
    if (!narrow) {
      first = i;
      continue;
    }
    resolved += 1;
    const Bracket& start = brackets_[first];
    const auto periods = static_cast<double>(i - first);
    if (periods < longest) continue;
    longest = periods;
    by_run.mean = (middle(b) - middle(start)) / periods;
    by_run.sigma = std::sqrt(uniform_variance(start.since) + uniform_variance(b.since)) / periods;
  }
  if (longest > 0 && 2 * resolved >= static_cast<double>(distances.size())) {
    const double off = std::abs(by_run.mean - expected);
    // Each end is uniform, so its error is at most sqrt(3) standard deviations.
    as_expected &= off <= std::sqrt(6.0) * by_run.sigma + slack / longest;
    if (!as_expected) return {by_run.mean, std::hypot(by_run.sigma, kUsualPeriod * by_run.mean)};
  }
  if (as_expected || distances.empty()) return {expected, kUsualPeriod * expected};
  const auto median = distances.begin() + static_cast<std::ptrdiff_t>(distances.size() / 2);
  std::ranges::nth_element(distances, median);
  return {.mean = *median, .sigma = *median, .resolved = false};
}

/// Returns the period learned from earlier brackets, or else the period seen. A period learned from
/// the present brackets would count them twice.
CounterSteps::PeriodPrior CounterSteps::period_prior() const {
  return learnt_ ? *learnt_ : seen_period();
}

/// Returns the share of the variance that all steps have in common if only their brackets are
/// known. If readings are in phase with the counter, the brackets' middles keep the period, and all
/// have the same error. If the errors are independent, the distances between middles deviate from
/// multiples of the period by as much as the middles do.
double CounterSteps::common_share() const {
  const double period = this->period().value;
  double scatter = 0, pairs = 0;
  for (std::size_t i = 1; i < brackets_.size(); ++i) {
    const Bracket &a = brackets_[i - 1], &b = brackets_[i];
    const double distance = b.middle() - a.middle();
    const double off = distance - period * std::max(1.0, std::round(distance / period));
    scatter += 2 * square(off) / (uniform_variance(a.width()) + uniform_variance(b.width()));
    pairs += 1;
  }
  return 1 - std::min(1.0, scatter / (pairs + 1));
}

/// Numbers the steps by the line. A narrow bracket gets the number nearest to its middle. A wide
/// bracket gets the number of the last step before its end, uncertain if a step is near the end.
void CounterSteps::count(Line& line) {
  for (Bracket& bracket : brackets_) {
    const bool narrow = bracket.width() <= kNarrow * line.slope;
    const double end = line.center + (bracket.high - line.middle) / line.slope;
    const double middle = end - bracket.width() / 2 / line.slope;
    const double number = narrow ? std::round(middle) : std::floor(end);
    const double sigma = std::sqrt(line.variance(number) + square(line.jitter)) / line.slope;
    bracket.index = static_cast<std::int64_t>(number);
    bracket.counted = narrow || std::abs(end - std::round(end)) > kSure * sigma;
  }
  for (std::size_t i = 1; i < brackets_.size(); ++i) {
    if (brackets_[i].index <= brackets_[i - 1].index) brackets_[i].counted = false;
  }
}

double CounterSteps::narrowest() const {
  double width = std::numeric_limits<double>::infinity();
  for (const Bracket& bracket : brackets_) width = std::min(width, bracket.width());
  return width;
}

/// Makes one iteration towards the most likely line (Newton) and jitter (expectation maximisation).
/// The line determines each step's place in its bracket. The place carries at least as much
/// information about the line as the bracket's middle, and more if the line passes near an end.
/// \returns  false if no step has a certain number, so that there is no line
bool CounterSteps::improve(Line& line, const PeriodPrior& prior) const {
  const double variance = square(line.jitter);
  // Readings in phase with the counter count as one reading: their middles do not scatter.
  double scatter = 0, counted = 0;
  for (const Bracket& bracket : brackets_) {
    if (!bracket.counted) continue;
    scatter += square(bracket.middle() - line.at(static_cast<double>(bracket.index))) /
               (uniform_variance(bracket.width()) + variance);
    counted += 1;
  }
  const double scattered = std::min(1.0, (scatter + 1) / (counted + 1));
  std::vector<TruncatedNormal> places;
  std::vector<double> told;
  double weight = 0, sum_x = 0;
  for (const Bracket& bracket : brackets_) {
    const auto number = static_cast<double>(bracket.index);
    places.push_back(truncated_normal(line.at(number), line.jitter, bracket.low, bracket.high));
    const double by_middle = scattered / (uniform_variance(bracket.width()) + variance);
    const double by_place =
        places.back().likely() ? (1 - places.back().variance / variance) / variance : 0;
    told.push_back(bracket.counted ? std::max(by_middle, by_place) : 0);
    weight += told.back();
    sum_x += told.back() * number;
  }
  if (!(weight > 0)) return false;
  Line better = line;
  better.center = sum_x / weight;
  const double known = square(prior.sigma);
  double told_slope = 1 / known, pull = 0, pull_slope = (prior.mean - line.slope) / known;
  double stray = 0, steps = 0;
  for (std::size_t i = 0; i < brackets_.size(); ++i) {
    if (!brackets_[i].counted) continue;
    const auto number = static_cast<double>(brackets_[i].index);
    const double x = number - better.center, off = places[i].mean - line.at(number);
    // A bracket that the line misses pulls the line towards its middle.
    const double force = places[i].likely() ? off / variance : off * told[i];
    told_slope += told[i] * x * x;
    pull += force;
    pull_slope += force * x;
    stray += square(off) + places[i].variance;
    steps += 1;
  }
  better.middle = line.at(better.center) + pull / weight;
  better.slope = line.slope + pull_slope / told_slope;
  better.middle_variance = 1 / weight;
  better.slope_variance = 1 / told_slope;
  const double usual =
      kUsualCounts * std::max(uniform_variance(narrowest()), square(kUsualStepJitter * line.slope));
  better.jitter = std::max(kLeastJitter, std::sqrt((stray + usual) / (steps + kUsualCounts)));
  line = better;
  return true;
}

/// Limits each bracket to the period before its reading and to the time since the previous reading.
void CounterSteps::narrow_brackets() {
  for (Bracket& bracket : brackets_) {
    const double longest = period().value + 2 * bracket.spread;
    bracket.low = bracket.high - (bracket.since > 0 ? std::min(bracket.since, longest) : longest);
  }
}

void CounterSteps::fit() {
  const PeriodPrior prior = period_prior();
  seen_ = prior.mean;
  narrow_brackets();
  if (!prior.resolved) {
    line_.reset();
    return;
  }
  const double period = period_.value_or(prior.mean);
  const Bracket* narrowest = nullptr;
  std::size_t narrow = 0;
  for (const Bracket& bracket : brackets_) {
    if (bracket.width() > kNarrow * period) continue;
    narrow += 1;
    if (narrowest == nullptr || bracket.width() < narrowest->width()) narrowest = &bracket;
  }
  const bool had_line = line_.has_value();
  if (narrow < kEnoughBrackets) {
    line_.reset();
    return;
  }
  if (!had_line) {
    line_ = Line{.center = 0,
                 .middle = narrowest->middle(),
                 .slope = period,
                 .jitter = std::max(kLeastJitter, std::sqrt(uniform_variance(narrowest->width()))),
                 .middle_variance = uniform_variance(narrowest->width()),
                 .slope_variance = square(prior.sigma)};
  }
  for (int i = 0; i < (had_line ? kLineIterations : kFirstIterations); ++i) {
    count(*line_);
    if (improve(*line_, prior)) continue;
    line_.reset();
    return;
  }
  if (line_->jitter > kIrregularSteps * line_->slope) {
    line_.reset();
  } else if (narrow >= kToLearn) {
    period_ = line_->slope;
  }
}

TruncatedNormal CounterSteps::place(const Bracket& bracket) const {
  if (!line_ || !bracket.counted) {
    return {.mean = bracket.middle(), .variance = uniform_variance(bracket.width()), .share = 1};
  }
  const auto number = static_cast<double>(bracket.index);
  const double sigma = std::sqrt(line_->variance(number) + square(line_->jitter));
  return truncated_normal(line_->at(number), sigma, bracket.low, bracket.high);
}

/// Returns the jitter of steps estimated from their energies; nullopt if too few steps are
/// consecutive. If power is steady, a late step counts more energy and the next step less, so the
/// median of the second differences measures the jitter. Unsteady power increases the estimate.
std::optional<double> CounterSteps::counted_jitter() const {
  std::vector<double> strays;
  for (std::size_t i = 3; i < brackets_.size(); ++i) {
    const Bracket *a = &brackets_[i - 3], *d = &brackets_[i];
    if (!a->counted || !d->counted || d->index != a->index + 3) continue;
    const double rise = d->value - a->value;
    const double bend =
        d->value - 3 * brackets_[i - 1].value + 3 * brackets_[i - 2].value - a->value;
    if (rise > 0) strays.push_back(std::abs(bend) / (rise / 3) * period().value);
  }
  if (strays.size() < kEnoughRises) return std::nullopt;
  const auto middle = strays.begin() + static_cast<std::ptrdiff_t>(strays.size() / 2);
  std::ranges::nth_element(strays, middle);
  // Half of a normal distribution is within 0.6745 standard deviations; a sum of steps with the
  // factors 1, 3, 3 and 1 has sqrt(20) times the deviation of one step.
  return *middle / (0.6745 * std::sqrt(20.0));
}

std::vector<PlacedStep> CounterSteps::placed() const {
  std::vector<PlacedStep> steps;
  steps.reserve(brackets_.size());
  const std::optional<double> counted = counted_jitter();
  const double share = line_ ? 0 : common_share();
  for (const Bracket& bracket : brackets_) {
    const TruncatedNormal place = this->place(bracket);
    PlacedStep step{.time = origin_ + Seconds{place.mean},
                    .own = {std::sqrt((1 - share) * place.variance)},
                    .common = share * place.variance,
                    .number = static_cast<double>(bracket.index),
                    .on_line = line_.has_value() && bracket.counted && place.likely()};
    // The error of the line is common to all steps; the rest is the step's own.
    if (step.on_line) {
      const double jitter = square(line_->jitter);
      step.common = line_->variance(step.number);
      step.own = {std::sqrt(place.variance * jitter / (jitter + step.common))};
      if (counted) step.own = {std::clamp(*counted, kLeastJitter, step.own.value)};
    }
    steps.push_back(step);
  }
  return steps;
}

double CounterSteps::common_variance(double number, double other) const {
  if (!line_) return 0;
  return line_->middle_variance +
         (number - line_->center) * (other - line_->center) * line_->slope_variance;
}

bool CounterSteps::due(Instant now, Seconds interval) const {
  if (!line_) return true;
  return (now - origin_).value + interval.value >= next_earliest_;
}

}  // namespace harpe::device
