#include "harpe/device/measure/step_gap.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harpe/base/statistics.h"

namespace harpe::device {
namespace {

constexpr double kCellsPerStep = 12, kFewestCells = 8, kMostCells = 40;
constexpr double kSame = 1e-7;          // s: closer instants are merged
constexpr double kUnlikelyPair = 1e-3;  // less likely explanations are dropped
constexpr double kOnset = 0.004;        // s: error of the time of a change, which is not instant
constexpr double kTwoChanges = 0.5;     // probability of two changes of power in a short window
/// Power between two changes: amplitude as a share of the mean level, and correlation time in s.
constexpr double kRoughBetween = 0.1, kRoughTime = 0.02;
constexpr double kLeastPairVariance = 1e-6;  // counters count in mJ
constexpr double kAnother = 0.2;  // factor on the probability of a change near a certain one
constexpr double kNone = 0.25;    // probability that power does not change in a gap

/// Energy between two instants, in three parts by power: as on the left, in between, and as on the
/// right. Left instants end spans from the left border; right instants begin spans to the right
/// border. -1: the border itself, where the counter's step is.
struct Parts {
  int left_from = -1, left_to = -1, right_from = -1, right_to = -1;
  double between_from = 0, between_to = 0;
};

constexpr std::size_t kMostObservations = 8;

/// A normal distribution of the energies of spans in the gap.
struct SideEnergy {
  double weight = 1;               ///< probability of this explanation
  bool runs_on = true;             ///< false if the readings carry no information about power
  std::vector<double> mean;        ///< J
  std::vector<double> covariance;  ///< J^2, square
  double c(int i, int j) const {
    return covariance[static_cast<std::size_t>(i) * mean.size() + static_cast<std::size_t>(j)];
  }
};

/// Energies in the gap inferred from the readings on one side of it.
struct SideAnswer {
  /// Energies if power continues from the readings, and if it changed within the nearest reading,
  /// so that they carry no information. Unlikely alternatives are dropped.
  std::vector<SideEnergy> energies;
  double log_evidence = 0;  ///< log density of the readings
  std::size_t run = 0;      ///< most likely number of readings in the run next to the gap
  double log_rest = 0;      ///< log density of the other readings and of this length of the run
};

constexpr double kHazard = 0.03;        // probability at each reading that a run ends
constexpr double kUnlikelySide = 2e-3;  // less likely explanations are dropped
constexpr double kNegligible = 0.01;    // smaller components of an explanation are dropped
/// Noise of readings that belong to other runs, as shares of their level.
constexpr std::array<double, 3> kRestNoise{0.004, 0.04, 0.25};
constexpr double kUsualJitter = 0.01;  // of steps, as a share of the period

/// One explanation of the nearest readings: a manner and a length of the run.
struct Component {
  double log_weight = 0, weight = 0;
  std::size_t manner = 0;
  std::size_t run = 0;  ///< number of readings in the run
};

/// Returns the log density of a reading if only the range of its power is known.
double log_anything(const SpanReading& reading, const PowerPrior& prior) {
  const double length = reading.span.to - reading.span.from;
  return log_normal(reading.energy - prior.mean * length,
                    square(prior.deviation * length) + reading.variance);
}

/// Returns the log density of the readings after a run of `run` readings from `first` on, and of
/// this length of the run. Power changes within the next reading if it is a step, which is then a
/// mixture, and before it if it is a sample. `rest[k]`: log density of the readings from k on.
double log_after(std::span<const SpanReading> readings, std::size_t first, std::size_t run,
                 const PowerPrior& prior, std::span<const double> rest) {
  const std::size_t next = first + run;
  const double lasted = static_cast<double>(run) * std::log(1 - kHazard);
  if (next == readings.size()) return lasted;
  const double ended = lasted + std::log(kHazard);
  if (readings[next].is_sample && run > 0) return ended + rest[next];
  return ended + log_anything(readings[next], prior) + rest[next + 1];
}

/// Returns for each k the log density of the readings from k on, as runs of noise around levels.
std::vector<double> log_rest(std::span<const SpanReading> readings, const PowerPrior& prior) {
  std::vector<double> rest(readings.size() + 1, 0);
  std::vector<double> terms;
  for (std::size_t first = readings.size(); first-- > 0;) {
    terms.clear();
    for (const double rough : kRestNoise) {
      double precision = 1 / square(prior.deviation), sum = prior.mean * precision, density = 0;
      for (std::size_t i = first; i < readings.size(); ++i) {
        const SpanReading& reading = readings[i];
        const double length = reading.span.to - reading.span.from;
        const double power = reading.energy / length;
        const double jitter =
            reading.is_sample ? 0 : 2 * square(kUsualJitter * power * prior.period / length);
        const double noise =
            square(rough * prior.level) + reading.variance / square(length) + jitter;
        // The other densities are of energy, not of power.
        density += log_normal(power - sum / precision, 1 / precision + noise) - std::log(length);
        precision += 1 / noise;
        sum += power / noise;
        terms.push_back(density + log_after(readings, first, i - first + 1, prior, rest) -
                        std::log(static_cast<double>(kRestNoise.size())));
      }
    }
    rest[first] = log_sum(terms);
  }
  return rest;
}

/// Returns the normal distribution with the mean and covariance of the mixture.
SideEnergy average(const std::vector<Component>& components, const PowerRegression& regression,
                   std::span<const EnergySpan> targets) {
  const std::size_t n = targets.size();
  SideEnergy energy{.mean = std::vector<double>(n, 0), .covariance = std::vector<double>(n * n, 0)};
  double all = 0;
  for (const Component& one : components) all += one.weight;
  for (std::size_t first = 0; first < components.size();) {
    const std::size_t manner = components[first].manner;
    std::vector<std::size_t> runs;
    const std::size_t begin = first;
    std::size_t last = first;
    for (; last < components.size() && components[last].manner == manner; ++last) {
      runs.push_back(components[last].run);
    }
    for (const PowerRegression::Prediction& one : regression.predict(manner, runs, targets)) {
      const double unsure = unsure_amplitude(manner, runs[first - begin]);
      const double weight = components[first++].weight / all;
      for (std::size_t i = 0; i < n; ++i) {
        energy.mean[i] += weight * one.mean[i];
        for (std::size_t j = 0; j < n; ++j) {
          energy.covariance[i * n + j] +=
              weight * (unsure * one.covariance[i * n + j] + one.mean[i] * one.mean[j]);
        }
      }
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    for (std::size_t j = 0; j < n; ++j) {
      energy.covariance[i * n + j] -= energy.mean[i] * energy.mean[j];
    }
  }
  return energy;
}

/// Infers the energies of spans inside the gap from the readings on one side of it.
///
/// Model. Power varies in one manner for some time (a run), then changes to another manner, of
/// which only the range is known. The step in which it changes is a mixture and belongs to neither
/// run. Within a run, power is a Gaussian process around an unknown level: steady, or rough with
/// one of several amplitudes and times, or swinging at one of several frequencies. The result is
/// the average over these manners and over the lengths of the run, weighted by the density of the
/// readings (Bayesian model averaging; the length of runs as in Adams and MacKay, arXiv 0710.3742).
/// \param readings  nearest to the gap first
/// O(readings^3) for each manner, and O(readings x targets^2) for each likely manner.
SideAnswer energy_beyond(std::span<const SpanReading> readings, std::span<const StepTime> steps,
                         const PowerPrior& prior, std::span<const EnergySpan> targets) {
  const std::vector<double> rest = log_rest(readings, prior);
  const PowerRegression regression(readings, steps, prior);
  std::vector<double> after;
  for (std::size_t run = 0; run <= readings.size(); ++run) {
    after.push_back(log_after(readings, 0, run, prior, rest));
  }
  std::vector<Component> components{{.log_weight = after[0]}};
  const std::span<const PowerManner> manners = power_manners();
  for (std::size_t manner = 0; manner < manners.size(); ++manner) {
    for (std::size_t run = 1; run <= readings.size(); ++run) {
      components.push_back({.log_weight = manners[manner].log_prior + after[run] +
                                          regression.log_densities()[manner][run - 1],
                            .manner = manner,
                            .run = run});
    }
  }
  std::vector<double> terms;
  for (const Component& one : components) terms.push_back(one.log_weight);
  SideAnswer response{.energies = {}, .log_evidence = log_sum(terms)};
  std::vector<double> of_run(readings.size() + 1, 0);
  for (Component& one : components) {
    one.weight = std::exp(one.log_weight - response.log_evidence);
    of_run[one.run] += one.weight;
  }
  response.run = static_cast<std::size_t>(std::ranges::max_element(of_run) - of_run.begin());
  response.log_rest = after[response.run];
  for (const bool runs_on : {true, false}) {
    std::vector<Component> chosen;
    double weight = 0;
    for (const Component& one : components) {
      if ((one.run > 0) != runs_on) continue;
      weight += one.weight;
      chosen.push_back(one);
    }
    if (weight < kUnlikelySide) continue;
    std::erase_if(chosen, [&](const Component& one) { return one.weight < kNegligible * weight; });
    response.energies.push_back(average(chosen, regression, targets));
    response.energies.back().weight = weight;
    response.energies.back().runs_on = runs_on;
  }
  return response;
}

class Gap {
 public:
  Gap(const StepGap& gap, std::vector<double> asked) : gap_(gap), asked_(std::move(asked)) {
    lay_instants();
    PowerPrior prior = gap.prior;
    prior.level = gap.left_level;
    left_answer_ = energy_beyond(gap.left, gap.steps, prior, targets(true));
    prior.level = gap.right_level;
    right_answer_ = energy_beyond(gap.right, gap.steps, prior, targets(false));
    observations_ = gap.rises;
    observations_.insert(observations_.end(), gap.samples.begin(), gap.samples.end());
    if (observations_.size() > kMostObservations) observations_.resize(kMostObservations);
  }

  std::vector<Explanation> explain() {
    const std::vector<Change> all = changes();
    for (const SideEnergy& left : left_answer_.energies) {
      for (const SideEnergy& right : right_answer_.energies) {
        if (left.weight * right.weight < kUnlikelyPair) continue;
        left_ = &left;
        right_ = &right;
        for (const Change& change : all) {
          const double prior = prior_of_sides(change) * change.prior;
          if (prior > 0) consider(change, prior * left.weight * right.weight);
        }
      }
    }
    consider_none();
    const double sum = log_sum(log_weights_);
    for (std::size_t i = 0; i < found_.size(); ++i) {
      found_[i].weight = std::exp(log_weights_[i] - sum);
    }
    return simplified(std::move(found_));
  }

 private:
  /// A change of power at instant `first` and another at `second`; one change if they are equal.
  struct Change {
    int first = 0, second = 0;
    double prior = 0;
  };

  void lay_instants() {
    const double cells = std::clamp(std::ceil(kCellsPerStep * gap_.length / gap_.prior.period),
                                    kFewestCells, kMostCells);
    for (double i = 0; i <= cells; ++i) instants_.push_back(gap_.length * i / cells);
    instants_.insert(instants_.end(), asked_.begin(), asked_.end());
    for (const std::vector<SpanReading>* readings : {&gap_.rises, &gap_.samples}) {
      for (const SpanReading& reading : *readings) {
        instants_.push_back(reading.span.from);
        instants_.push_back(reading.span.to);
      }
    }
    std::ranges::sort(instants_);
    std::vector<double> different;
    for (const double instant : instants_) {
      if (different.empty() || instant > different.back() + kSame) different.push_back(instant);
    }
    instants_ = std::move(different);
  }

  std::vector<EnergySpan> targets(bool left) const {
    std::vector<EnergySpan> spans;
    for (const double instant : instants_) {
      spans.push_back(
          left ? EnergySpan{.from = 0, .to = instant, .from_step = 0}
               : EnergySpan{.from = instant, .to = instants_.back(), .to_step = gap_.right_step});
    }
    return spans;
  }

  std::vector<Change> changes() const {
    std::vector<Change> changes;
    const std::vector<double> first = prior_of_change(at(asked_.front()));
    const std::vector<double> second = is_short() ? prior_of_change(at(asked_.back())) : first;
    for (int i = 0; i <= last(); ++i) {
      const auto k = static_cast<std::size_t>(i);
      const double once = (first[k] + second[k]) / 2;
      changes.push_back({i, i, is_short() ? (1 - kTwoChanges) * once : once});
      if (!is_short()) continue;
      for (int j = i + 1; j <= last(); ++j) {
        changes.push_back({i, j, kTwoChanges * first[k] * second[static_cast<std::size_t>(j)]});
      }
    }
    return changes;
  }

  /// Returns for each instant the probability that power changed there.
  std::vector<double> prior_of_change(int edge) const {
    std::vector<double> prior(instants_.size());
    for (int i = 0; i <= last(); ++i) {
      const double share = (time(std::min(last(), i + 1)) - time(std::max(0, i - 1))) / 2;
      prior[static_cast<std::size_t>(i)] = gap_.change_within * share / instants_.back();
    }
    prior[static_cast<std::size_t>(edge)] += gap_.change_at_edge;
    const double outside = 1 - gap_.change_within - gap_.change_at_edge - prior_of_none();
    // If the gap is open, a change outside of it has not happened yet.
    if (!gap_.is_open) prior.front() += outside / 2;
    prior.back() += gap_.is_open ? outside : outside / 2;
    return prior;
  }

  /// Returns the factor on the probability of a change. If the readings of a side carry no
  /// information, power changed just outside of the gap, so a change within it is less likely.
  double prior_of_sides(const Change& change) const {
    const auto usual = [&](bool at_border) { return at_border ? 1 : kAnother; };
    if (gap_.is_open) return left_->runs_on ? 1 : usual(change.first == 0);
    if (left_->runs_on && right_->runs_on) return 1;
    if (left_->runs_on) return usual(change.second == last());
    if (right_->runs_on) return usual(change.first == 0);
    return usual(change.first == 0 || change.second == last());
  }

  double prior_of_none() const { return gap_.is_open ? 0 : kNone; }
  bool is_short() const { return asked_.size() > 1; }
  double time(int instant) const { return instants_[static_cast<std::size_t>(instant)]; }
  int at(double time) const {
    const auto found = std::ranges::lower_bound(instants_, time - kSame);
    return static_cast<int>(std::min(found - instants_.begin(), std::ssize(instants_) - 1));
  }
  int last() const { return static_cast<int>(instants_.size()) - 1; }

  Parts parts(int from, int to, const Change& change) const {
    Parts parts;
    parts.left_from = from == 0 ? -1 : std::min(from, change.first);
    parts.left_to = std::min(to, change.first);
    parts.right_from = std::max(from, change.second);
    parts.right_to = to == last() && !gap_.is_open ? -1 : std::max(to, change.second);
    parts.between_from = std::clamp(time(from), time(change.first), time(change.second));
    parts.between_to = std::clamp(time(to), time(change.first), time(change.second));
    return parts;
  }

  double mean(const Parts& parts) const {
    const auto of = [](const SideEnergy& side, int i) {
      return i < 0 ? 0 : side.mean[static_cast<std::size_t>(i)];
    };
    return of(*left_, parts.left_to) - of(*left_, parts.left_from) + of(*right_, parts.right_from) -
           of(*right_, parts.right_to) + gap_.prior.mean * (parts.between_to - parts.between_from);
  }

  double covariance(const Parts& a, const Parts& b) const {
    const auto of = [](const SideEnergy& side, int i, int j) {
      return i < 0 || j < 0 ? 0 : side.c(i, j);
    };
    const auto both = [&](const SideEnergy& side, int from, int to, int other_from, int other_to) {
      if (from == to || other_from == other_to) return 0.0;
      return of(side, to, other_to) - of(side, to, other_from) - of(side, from, other_to) +
             of(side, from, other_from);
    };
    double sum = both(*left_, a.left_from, a.left_to, b.left_from, b.left_to) +
                 both(*right_, a.right_from, a.right_to, b.right_from, b.right_to);
    const double a_between = a.between_to - a.between_from;
    const double b_between = b.between_to - b.between_from;
    if (a_between > 0 && b_between > 0) {
      const double overlap = std::max(
          0.0, std::min(a.between_to, b.between_to) - std::max(a.between_from, b.between_from));
      sum += square(gap_.prior.deviation) * a_between * b_between +
             square(kRoughBetween * gap_.prior.mean) * 2 * kRoughTime * overlap;
    }
    return sum;
  }

  /// Returns the covariance of two readings that is due to their noise and to the uncertain times
  /// of steps within the gap.
  double noise_covariance(const SpanReading& a, const SpanReading& b) const {
    double sum = &a == &b ? a.variance + kLeastPairVariance : 0;
    const auto inner = [&](int step) { return step > 0 && step != gap_.right_step; };
    const auto variance = [&](int step) {
      const StepTime& time = gap_.steps[static_cast<std::size_t>(step)];
      return square(time.power) * (square(time.jitter) + square(time.fixed));
    };
    if (inner(a.span.from_step)) {
      if (a.span.from_step == b.span.from_step) sum += variance(a.span.from_step);
      if (a.span.from_step == b.span.to_step) sum -= variance(a.span.from_step);
    }
    if (inner(a.span.to_step)) {
      if (a.span.to_step == b.span.to_step) sum += variance(a.span.to_step);
      if (a.span.to_step == b.span.from_step) sum -= variance(a.span.to_step);
    }
    return sum;
  }

  /// Adds the explanation that power changed as in `change`: its energy and likelihood.
  void consider(const Change& change, double prior) {
    double log_weight = std::log(prior);
    const Parts wanted = parts(is_short() ? at(asked_.front()) : 0, at(asked_.back()), change);
    double energy = mean(wanted), variance = covariance(wanted, wanted), share_of_rise = 0;
    std::array<Parts, kMostObservations> used;
    std::array<const SpanReading*, kMostObservations> readings{};
    std::array<std::array<double, kMostObservations>, kMostObservations> factor{};
    std::array<double, kMostObservations> z{}, w{};
    std::size_t count = 0;
    for (const SpanReading& one : observations_) {
      const int from = at(one.span.from), to = at(one.span.to);
      const auto inside = [&](int i) {
        return time(i) > one.span.from - one.blur - one.before && time(i) < one.span.to + one.blur;
      };
      if (one.is_sample && (inside(change.first) || inside(change.second))) {
        // A sample that spans a change carries little information: any power is possible.
        const double length = one.span.to - one.span.from;
        log_weight += log_normal(one.energy - gap_.prior.mean * length,
                                 square(gap_.prior.deviation * length) + one.variance);
        continue;
      }
      used[count] = parts(from, to, change);
      readings[count] = &one;
      double off = one.energy - mean(used[count]), with_wanted = covariance(used[count], wanted);
      for (std::size_t j = 0; j <= count; ++j) {
        double sum = covariance(used[count], used[j]) + noise_covariance(one, *readings[j]);
        const bool sudden = j == count && change.first == change.second && !one.is_sample &&
                            change.first >= from && change.first <= to;
        if (sudden) sum += square(kOnset * (gap_.right_level - gap_.left_level));
        for (std::size_t k = 0; k < j; ++k) sum -= factor[count][k] * factor[j][k];
        factor[count][j] =
            j == count ? std::sqrt(std::max(sum, kLeastPairVariance)) : sum / factor[j][j];
      }
      for (std::size_t k = 0; k < count; ++k) {
        off -= factor[count][k] * z[k];
        with_wanted -= factor[count][k] * w[k];
      }
      const double own = factor[count][count];
      z[count] = off / own;
      w[count] = with_wanted / own;
      log_weight -= 0.5 * square(z[count]) + std::log(own);
      energy += w[count] * z[count];
      variance -= square(w[count]);
      if (count == 0 && !one.is_sample) share_of_rise = w[0] / own;
      count += 1;
    }
    found_.push_back(
        {.energy = energy,
         .variance = std::max(variance, kLeastPairVariance),
         .power = gap_.left_level + share_of_rise * (gap_.right_level - gap_.left_level)});
    log_weights_.push_back(log_weight);
  }

  /// Adds the explanation that power does not change in the gap.
  void consider_none() {
    if (prior_of_none() <= 0 || left_answer_.run == 0 || right_answer_.run == 0) return;
    std::vector<SpanReading> readings = gap_.rises;
    const auto add = [&](const std::vector<SpanReading>& more, std::size_t count) {
      readings.insert(readings.end(), more.begin(),
                      more.begin() + static_cast<std::ptrdiff_t>(count));
    };
    add(gap_.samples, gap_.samples.size());
    add(gap_.left, left_answer_.run);
    add(gap_.right, right_answer_.run);
    PowerPrior prior = gap_.prior;
    prior.level = (gap_.left_level + gap_.right_level) / 2;
    const PowerRegression regression(readings, gap_.steps, prior);
    EnergySpan wanted{.from = is_short() ? asked_.front() : 0, .to = asked_.back()};
    if (!is_short()) wanted.from_step = 0;
    const std::array<std::size_t, 1> all{readings.size()};
    const double common = std::log(prior_of_none()) + left_answer_.log_rest +
                          right_answer_.log_rest - left_answer_.log_evidence -
                          right_answer_.log_evidence;
    const std::span<const PowerManner> manners = power_manners();
    std::vector<double> log_weights;
    for (std::size_t i = 0; i < manners.size(); ++i) {
      log_weights.push_back(common + manners[i].log_prior + regression.log_densities()[i].back());
    }
    const double most = *std::ranges::max_element(log_weights);
    for (std::size_t i = 0; i < manners.size(); ++i) {
      if (log_weights[i] < most + std::log(kUnlikelyPair)) continue;
      const auto predicted = regression.predict(i, all, std::span(&wanted, 1)).front();
      found_.push_back(
          {.energy = predicted.mean.front(),
           .variance = std::max(unsure_amplitude(i, readings.size()) * predicted.covariance.front(),
                                kLeastPairVariance),
           .power = prior.level});
      log_weights_.push_back(log_weights[i]);
    }
  }

  const StepGap& gap_;
  const std::vector<double> asked_;  ///< one instant, or begin and end
  std::vector<double> instants_;
  SideAnswer left_answer_, right_answer_;
  const SideEnergy* left_ = nullptr;
  const SideEnergy* right_ = nullptr;
  std::vector<SpanReading> observations_;
  std::vector<Explanation> found_;
  std::vector<double> log_weights_;
};

}  // namespace

std::vector<Explanation> energy_until(const StepGap& gap, double instant) {
  return Gap(gap, {instant}).explain();
}

std::vector<Explanation> energy_within(const StepGap& gap, double begin, double end) {
  return Gap(gap, {begin, end}).explain();
}

}  // namespace harpe::device
