#include "harpe/zeus/power_limit/limit_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/base/statistics.h"
#include "harpe/zeus/power_limit/setting_model.h"

namespace harpe::zeus {
namespace {

constexpr std::size_t kNearest = 4;  // number of sizes that count
// Distance at which sizes share the deviation of their curves from the prior, in doublings.
constexpr double kSizeLength = 2;
// Candidates for the independent error of each limit.
constexpr std::array kScatters{0.003, 0.01, 0.03, 0.06};
// Probability that a size has the scatter of the others: small batches may wait for the host,
// large ones do not.
constexpr double kSameScatter = 0.75;
constexpr double kLevelDeviation = 1;   // after subtraction of each size's mean
constexpr double kLeastPromise = 1e-4;  // as a share of an epoch

/// A limit of a size, as input of the model.
struct Point {
  int batch_size = 0;
  double x = 0;
  double mean = 0;                                 ///< log score by the prior, without the level
  double time_deviation = 0, power_deviation = 0;  ///< of the log score
};

double covariance(const Point& a, const Point& b) {
  const double doublings = std::log2(a.batch_size) - std::log2(b.batch_size);
  const double near = std::exp(-square(doublings / kSizeLength) / 2);
  const double distance = square(a.x - b.x) / 2;
  const double curve =
      a.time_deviation * b.time_deviation * std::exp(-distance / square(kPriorTimeLength)) +
      a.power_deviation * b.power_deviation * std::exp(-distance / square(kPriorPowerLength));
  return near * curve + (a.batch_size == b.batch_size ? square(kLevelDeviation) : 0);
}

Point point_of(int batch_size, double limit, double drawn, const ScoreWeights& weights, int gpus) {
  const double x = prior_position(KnobKind::kPowerLimit, limit, 0, drawn);
  const PriorCurve time = prior_log_time(x), power = prior_log_power(x);
  const double energy_rate = weights.per_joule * drawn * gpus * std::exp(power.mean);
  const double rate = energy_rate + weights.per_second;
  return {.batch_size = batch_size,
          .x = x,
          .mean = time.mean + std::log(rate),
          .time_deviation = time.deviation,
          .power_deviation = power.deviation * energy_rate / rate};
}

/// A measured limit.
struct Seen {
  Point point;
  double log_score = 0;
};

/// Gaussian process of the measurements, factored for these scatters.
class ScatterModel {
 public:
  /// \param own  batch size whose scatter is `own_scatter`
  ScatterModel(std::span<const Seen> seen, double scatter, int own, double own_scatter)
      : seen_(seen), own_scatter_(own_scatter), lower_(seen.size()) {
    double surprise = 0, log_determinant = 0;
    for (std::size_t i = 0; i < seen.size(); ++i) {
      std::vector<double>& row = lower_[i];
      const double error = square(seen[i].point.batch_size == own ? own_scatter : scatter);
      for (std::size_t j = 0; j <= i; ++j) {
        double left = covariance(seen[i].point, seen[j].point) + (i == j ? error : 0);
        for (std::size_t k = 0; k < j; ++k) left -= row[k] * lower_[j][k];
        row.push_back(i == j ? std::sqrt(left) : left / lower_[j][j]);
      }
      residuals_.push_back(seen[i].log_score - seen[i].point.mean);
      for (std::size_t k = 0; k < i; ++k) residuals_[i] -= row[k] * residuals_[k];
      residuals_[i] /= row[i];
      surprise += square(residuals_[i]);
      log_determinant += std::log(row[i]);
    }
    log_likelihood_ = -surprise / 2 - log_determinant;
  }

  double log_likelihood() const { return log_likelihood_; }

  /// Returns the forecast for the size with `own_scatter`.
  ScoreForecast forecast(const Point& point) const {
    std::vector<double> across(seen_.size());
    ScoreForecast result{.log_score = point.mean};
    double variance = covariance(point, point) + square(own_scatter_);
    for (std::size_t i = 0; i < across.size(); ++i) {
      across[i] = covariance(point, seen_[i].point);
      for (std::size_t k = 0; k < i; ++k) across[i] -= lower_[i][k] * across[k];
      across[i] /= lower_[i][i];
      result.log_score += across[i] * residuals_[i];
      variance -= square(across[i]);
    }
    result.deviation = std::sqrt(std::max(variance, square(own_scatter_)));
    return result;
  }

 private:
  std::span<const Seen> seen_;
  double own_scatter_;
  std::vector<std::vector<double>> lower_;  ///< Cholesky factor
  std::vector<double> residuals_;           ///< divided by the factor
  double log_likelihood_ = 0;
};

/// Returns the power of a GPU with a measured size if no limit held it back.
double drawn_by(const SizeProfile& profile, double highest, int gpus) {
  const auto most = std::ranges::max_element(profile.measured, {}, &Measurement::setting);
  const double power = (most->energy / most->time).value / gpus;
  if (most->setting >= highest) return power;  // as in setting_model.h
  return std::clamp(prior_unlimited_power(most->setting, power), power, std::max(power, highest));
}

double distance_of(const SizeProfile& one, const SizeProfile& other) {
  return std::abs(std::log2(one.batch_size) - std::log2(other.batch_size));
}

/// Returns the sizes with measurements, nearest first.
std::vector<const SizeProfile*> nearest_of(const SizeProfile& own,
                                           std::span<const SizeProfile> others) {
  std::vector<const SizeProfile*> nearest;
  for (const SizeProfile& other : others) {
    if (!other.measured.empty() && other.batch_size != own.batch_size) nearest.push_back(&other);
  }
  std::ranges::sort(nearest, {}, [&own](const SizeProfile* other) {
    return std::pair(distance_of(own, *other), other->batch_size);
  });
  nearest.resize(std::min(nearest.size(), kNearest));
  return nearest;
}

/// The expected score of a limit and its expected gain, weighted by the likelihood of each scatter.
struct Promise {
  double log_score = 0, gain = 0;
};

/// Returns weights with sum 1 from the logarithms of likelihoods.
std::vector<double> shares_of(std::vector<double> logs) {
  const double most = *std::ranges::max_element(logs);
  double sum = 0;
  for (double& value : logs) sum += value = std::exp(value - most);
  for (double& value : logs) value /= sum;
  return logs;
}

/// \param seen  limits of other sizes first, then `own` limits of the size in question
std::vector<Promise> promises(std::span<const Seen> seen, std::size_t own,
                              std::span<const Point> candidates, double log_best) {
  const int size = candidates.front().batch_size;
  const auto others = seen.first(seen.size() - own);
  std::vector<double> of_others(kScatters.size());
  for (std::size_t i = 0; i < kScatters.size(); ++i) {
    of_others[i] = ScatterModel(others, kScatters[i], size, 0).log_likelihood();
  }
  of_others = shares_of(std::move(of_others));
  const auto likeliest = std::ranges::max_element(of_others) - of_others.begin();
  const double scatter = kScatters[static_cast<std::size_t>(likeliest)];
  std::vector<ScatterModel> models;
  std::vector<double> weights;
  for (std::size_t i = 0; i < kScatters.size(); ++i) {
    const double before =
        kSameScatter * of_others[i] + (1 - kSameScatter) / double{kScatters.size()};
    models.emplace_back(seen, scatter, size, kScatters[i]);
    weights.push_back(std::log(before) + models.back().log_likelihood());
  }
  weights = shares_of(std::move(weights));
  std::vector<Promise> result(candidates.size());
  for (std::size_t m = 0; m < models.size(); ++m) {
    for (std::size_t i = 0; i < candidates.size(); ++i) {
      const ScoreForecast forecast = models[m].forecast(candidates[i]);
      result[i].log_score += weights[m] * forecast.log_score;
      result[i].gain += weights[m] * forecast.improvement_on(log_best);
    }
  }
  return result;
}

/// Input of the model: the measured limits and the candidates.
struct Question {
  std::vector<Seen> seen;  ///< limits of the size itself last
  double level = 0;        ///< of the size itself, subtracted from its log scores
  std::vector<Point> candidates;
  std::vector<std::size_t> positions;  ///< of the candidates in the knob
};

/// \param known  nearest first
Question question_of(const Knob& limits, const SizeProfile& own,
                     std::vector<const SizeProfile*> known, const LimitPlanOptions& options) {
  const auto point = [&](const SizeProfile& drawing, int batch_size, double limit) {
    return point_of(batch_size, limit, drawn_by(drawing, limits[0], options.gpus), options.weights,
                    options.gpus);
  };
  Question question;
  // If nothing was measured with this size, the nearest size determines its power.
  const SizeProfile& alike = own.measured.empty() ? *known.front() : own;
  for (std::size_t i = 0; i < limits.size(); ++i) {
    if (own.has(limits[i])) continue;
    question.positions.push_back(i);
    question.candidates.push_back(point(alike, own.batch_size, limits[i]));
  }
  if (!own.measured.empty()) known.push_back(&own);
  for (const SizeProfile* profile : known) {
    const std::size_t first = question.seen.size();
    double level = 0;
    for (const Measurement& one : profile->measured) {
      question.seen.push_back({point(*profile, profile->batch_size, one.setting),
                               std::log(options.weights.of(one.time, one.energy))});
      level += question.seen.back().log_score - question.seen.back().point.mean;
    }
    level /= static_cast<double>(profile->measured.size());
    for (Seen& one : std::span(question.seen).subspan(first)) one.log_score -= level;
    if (profile == &own) question.level = level;
  }
  return question;
}

/// Returns the candidate whose worth exceeds its cost of measurement by most, in costs of an epoch
/// under the best limit; nullopt if there is none.
std::optional<std::size_t> most_worthwhile(std::span<const Promise> promised, double log_best,
                                           std::span<const double> in_epoch, double epochs) {
  const auto count = static_cast<double>(in_epoch.size());
  // If nothing is measured in it, the epoch has the best limit.
  double mean = in_epoch.empty() ? 1 : 0;
  for (const double cost : in_epoch) mean += cost / count;
  std::optional<std::size_t> chosen;
  double most = 0;
  for (std::size_t i = 0; i < promised.size(); ++i) {
    if (promised[i].gain < kLeastPromise) continue;
    const double loss = (std::exp(promised[i].log_score - log_best) - mean) / (count + 1);
    const double worth = promised[i].gain * epochs - loss;
    if (worth <= most) continue;
    most = worth;
    chosen = i;
  }
  return chosen;
}

}  // namespace

const Measurement* SizeProfile::best(const ScoreWeights& weights) const {
  const Measurement* best = nullptr;
  double least = 0;
  for (const Measurement& one : measured) {
    const double score = weights.of(one.time, one.energy);
    const bool is_less =
        best == nullptr || score < least || (score == least && one.setting > best->setting);
    if (!is_less) continue;
    best = &one;
    least = score;
  }
  return best;
}

bool SizeProfile::has(double limit) const {
  return std::ranges::find(measured, limit, &Measurement::setting) != measured.end();
}

std::optional<std::size_t> next_limit(const Knob& limits, const SizeProfile& own,
                                      std::span<const SizeProfile> others,
                                      const LimitPlanOptions& options) {
  HARPE_CHECK(limits.kind() == KnobKind::kPowerLimit && options.gpus > 0 &&
                  options.in_epoch <= own.measured.size(),
              "a plan is of power limits that some GPU has");
  std::vector<const SizeProfile*> known = nearest_of(own, others);
  if (known.empty() && own.measured.empty()) {
    return limits.size() > 0 ? std::optional<std::size_t>(0) : std::nullopt;
  }
  const Question question = question_of(limits, own, std::move(known), options);
  if (question.candidates.empty()) return std::nullopt;
  const Measurement* best = own.best(options.weights);
  const double least = best == nullptr ? 1 : options.weights.of(best->time, best->energy);
  const double log_best = std::log(least) - question.level;
  const std::vector<Promise> promised =
      promises(question.seen, own.measured.size(), question.candidates, log_best);
  if (best == nullptr) {
    const auto lowest = std::ranges::min_element(promised, {}, &Promise::log_score);
    return question.positions[static_cast<std::size_t>(lowest - promised.begin())];
  }
  std::vector<double> in_epoch;
  for (const Measurement& one : std::span(own.measured).last(options.in_epoch)) {
    in_epoch.push_back(options.weights.of(one.time, one.energy) / least);
  }
  const auto chosen = most_worthwhile(promised, log_best, in_epoch, options.epochs);
  return chosen ? std::optional(question.positions[*chosen]) : std::nullopt;
}

}  // namespace harpe::zeus
