#include "harpe/zeus/batch_size/pay_back.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <numbers>
#include <utility>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/zeus/batch_size/surrogate.h"

namespace harpe::zeus {
namespace {

/// Evidence about one batch size from the trials of a job and of another GPU.
struct SizeEvidence {
  int batch_size = 0;
  int runs = 0;                         ///< trials here that converged
  double epochs = 0;                    ///< mean of all trials known to have converged
  double known_runs = 0;                ///< trials that converged, here or elsewhere
  int most_epochs = 0;                  ///< maximum of the trials here that converged
  int given_up = 0;                     ///< trials here that did not converge
  double given_up_epochs = 0;           ///< mean epochs of those trials
  int longest = 0;                      ///< most epochs of a trial that did not reach the target
  double epoch_cost = 0;                ///< J; 0 if unknown
  bool epoch_cost_is_profiled = false;  ///< measured in a first epoch, which profiles limits
  bool failed_elsewhere = false;
  double cost_elsewhere = 0;  ///< J of a whole training on another GPU; 0 if unknown
  bool running = false;

  double doublings() const { return std::log2(batch_size); }

  /// True if trials of this size have converged, here or elsewhere.
  bool is_known() const { return known_runs > 0; }
};

// A GPU that draws this share of its highest power gains nothing from larger batches. A GPU that
// draws almost no power gains nearly in proportion (all GPUs and networks of Zeus's traces).
constexpr double kFilledPower = 0.5;
constexpr double kEmptySlope = -0.62;  // ln 2 x 0.9
// Costs per epoch hardly vary. An ended run gives little evidence of its full length.
constexpr double kCostDeviation = 0.005;
constexpr double kEndedDeviation = 0.2;
constexpr double kEndedFactor = 1.2;
constexpr int kLeastRemaining = 50;
// Profiling of power limits makes an epoch this much longer, with this standard deviation
// (docs/zeus.md, "which limits").
constexpr double kProfiling = 0.07;
// Weight of the predicted epochs, in trainings.
constexpr double kExpectedWeight = 0.5;
constexpr double kFailureWeight =
    1;  // number of trials that the prior's probability of failure counts as

/// Returns the newest `window` trials of each size that have a result.
std::vector<const Trial*> counted(const RecurringJob& job, std::span<const Trial> trials) {
  std::vector<const Trial*> kept;
  std::map<int, int> seen;
  for (std::size_t i = trials.size(); i-- > 0;) {
    const Trial& trial = trials[i];
    if (!trial.has_result() || trial.epochs == 0) continue;
    if (job.window > 0 && ++seen[trial.batch_size] > job.window) continue;
    kept.push_back(&trial);
  }
  std::ranges::reverse(kept);
  return kept;
}

/// Returns the variance of the mean of `runs` runs. A few runs do not show all the ways in which
/// runs differ, so one or two count for less than their number.
double run_variance(const PayBackPrior& prior, double runs) {
  return prior.run_deviation * prior.run_deviation * (1 + prior.doubt / runs) / runs;
}

/// The evidence of each batch size of a job and of each size known from elsewhere, ascending.
class Evidence {
 public:
  /// \param now  a running trial, whose cost per epoch already counts; null if there is none
  Evidence(const RecurringJob& job, std::span<const Trial> trials, const PayBackPrior& prior,
           const Trial* now = nullptr)
      : expected_(job.recurrences), prior_(prior) {
    std::map<int, SizeEvidence> sizes;
    for (const int size : job.batch_sizes) sizes[size].batch_size = size;
    for (const KnownEpochs& known : job.known_epochs) {
      SizeEvidence& size = sizes[known.batch_size];
      size.batch_size = known.batch_size;
      if (!known.converged) {
        size.failed_elsewhere = true;
        size.longest = std::max(size.longest, static_cast<int>(known.epochs));
        continue;
      }
      size.epochs = (size.epochs * size.known_runs + known.epochs * known.runs) /
                    (size.known_runs + known.runs);
      size.known_runs += known.runs;
      if (known.epoch_cost > 0) size.cost_elsewhere = known.epochs * known.epoch_cost;
    }
    for (auto& [batch_size, size] : sizes) sizes_.push_back(size);
    for (const Trial* trial : counted(job, trials)) add(job, *trial);
    for (const Trial& trial : trials) {
      if (trial.status != Trial::Status::kDispatched) continue;
      if (const SizeEvidence* size = find(trial.batch_size)) {
        sizes_[static_cast<std::size_t>(size - sizes_.data())].running = true;
      }
    }
    if (now != nullptr) add(job, *now);
    if (converged_ > 0) fit(job);
  }

  const std::vector<SizeEvidence>& sizes() const { return sizes_; }

  const SizeEvidence* find(int batch_size) const {
    const auto at = std::ranges::lower_bound(sizes_, batch_size, {}, &SizeEvidence::batch_size);
    return at != sizes_.end() && at->batch_size == batch_size ? &*at : nullptr;
  }

  int converged() const { return converged_; }  ///< trials

  // The estimates below are of natural logarithms. A measured cost has no variance.

  /// Returns the mean number of whole epochs of a training that converges.
  Estimate epochs(const SizeEvidence& size) const {
    Estimate needed = needed_epochs(size);
    const double variance = size.is_known() ? taken_epochs(size).variance : needed.variance;
    needed.variance += prior_.run_deviation * prior_.run_deviation;
    return {.mean = std::log(mean_epochs(size, needed)), .variance = variance};
  }

  Estimate epoch_cost(const SizeEvidence& size) const {
    if (size.epoch_cost == 0) return cost_->at(size.doublings());
    if (!size.epoch_cost_is_profiled) return {.mean = std::log(size.epoch_cost)};
    return {.mean = std::log(size.epoch_cost) - kProfiling, .variance = kProfiling * kProfiling};
  }

  /// Returns the epochs that a training needs, not rounded up to whole epochs.
  Estimate needed_epochs(const SizeEvidence& size) const { return needed_->at(size.doublings()); }

  /// Returns the epochs that converged trainings took, estimated from this and other sizes.
  Estimate taken_epochs(const SizeEvidence& size) const { return epochs_->at(size.doublings()); }

  /// Returns the mean number of epochs of trainings that need `needed`. The mean of a known size
  /// counts once per training, the expectation from `needed` as half a training.
  double mean_epochs(const SizeEvidence& size, const Estimate& needed) const {
    const double expected = expected_whole_epochs(needed);
    if (!size.is_known()) return expected;
    const double taken = std::exp(taken_epochs(size).mean);
    return (kExpectedWeight * expected + size.known_runs * taken) /
           (kExpectedWeight + size.known_runs);
  }

  /// Returns the probability that a trial does not converge. Sizes fail independently; the prior's
  /// probability counts as one trial.
  double failure(const SizeEvidence& size) const {
    double failed = size.given_up;
    if (failed > 0 && !size.is_known()) {
      // A trial that was given up before its expected end may not have failed.
      const Estimate needed = needed_epochs(size);
      const double z = (std::log(size.longest) - needed.mean) /
                       std::sqrt(needed.variance + prior_.run_deviation * prior_.run_deviation);
      failed *= std::erfc(-z / std::numbers::sqrt2) / 2;
    }
    if (size.failed_elsewhere) ++failed;
    return (kFailureWeight * prior_.failure + failed) / (kFailureWeight + size.known_runs + failed);
  }

  /// Returns the logarithm of the cost of a training. For a known size, this includes the trials
  /// that fail before one converges.
  double log_cost(const SizeEvidence& size) const {
    const double converging = epochs(size).mean + epoch_cost(size).mean;
    if (!size.is_known() || size.given_up == 0) return converging;
    // On average, failure / (1 - failure) trials fail before one converges.
    const double chance = failure(size);
    return converging + std::log1p(chance / (1 - chance) * size.given_up_epochs / size.epochs);
  }

  /// Returns the size with the least expected cost among those that converged here; null if none.
  const SizeEvidence* best() const {
    const SizeEvidence* best = nullptr;
    double least = 0;
    for (const SizeEvidence& size : sizes_) {
      if (size.runs == 0) continue;
      const double cost = log_cost(size);
      if (best != nullptr && cost >= least) continue;
      best = &size;
      least = cost;
    }
    return best;
  }

  /// Returns the number of remaining recurrences. If the job does not declare it, returns the
  /// number so far, at least 50.
  int remaining() const {
    if (expected_ > 0) return std::max(0, expected_ - converged_);
    return std::max(kLeastRemaining, converged_);
  }

 private:
  void add(const RecurringJob& job, const Trial& trial) {
    const SizeEvidence* found = find(trial.batch_size);
    if (found == nullptr || trial.epochs == 0) return;
    SizeEvidence& size = sizes_[static_cast<std::size_t>(found - sizes_.data())];
    const double cost = job.cost(trial.energy, trial.time);
    const double first = job.cost(trial.first_energy, trial.first_time);
    const bool is_split = trial.epochs > 1 && cost > first;
    if (is_split) {
      size.epoch_cost = first > 0 ? (cost - first) / (trial.epochs - 1) : cost / trial.epochs;
      size.epoch_cost_is_profiled = false;
    } else if (cost > 0 && size.epoch_cost == 0) {
      size.epoch_cost = cost;
      size.epoch_cost_is_profiled = true;
    } else if (cost > 0) {
      // A later training of one epoch has fewer or no limits left to profile.
      size.epoch_cost = std::min(size.epoch_cost, cost / trial.epochs);
      size.epoch_cost_is_profiled = false;
    }
    if (!filled_ && trial.time.value > 0) {
      filled_ = trial.energy.value / (job.max_power * trial.time).value;
      if (is_split && trial.time > trial.first_time) {
        filled_ = (trial.energy - trial.first_energy).value /
                  (job.max_power * (trial.time - trial.first_time)).value;
      }
    }
    if (!trial.has_result()) return;
    if (trial.converged) {
      size.epochs = (size.epochs * size.known_runs + trial.epochs) / (size.known_runs + 1);
      ++size.known_runs;
      ++size.runs;
      ++converged_;
      size.most_epochs = std::max(size.most_epochs, trial.epochs);
    } else {
      size.given_up_epochs =
          (size.given_up_epochs * size.given_up + trial.epochs) / (size.given_up + 1);
      ++size.given_up;
      size.longest = std::max(size.longest, trial.epochs);
    }
  }

  void fit(const RecurringJob& job) {
    const PayBackPrior& prior = prior_;
    const double origin = std::log2(job.default_batch_size);
    const SurrogatePrior epochs_prior{.slope = prior.epochs_slope,
                                      .slope_deviation = prior.epochs_slope_deviation,
                                      .bend = prior.epochs_bend,
                                      .bend_deviation = prior.epochs_bend_deviation,
                                      .waviness = prior.epochs_waviness,
                                      .scatter = prior.epochs_scatter};
    std::vector<Surrogate::Value> epochs, needed, costs;
    for (const SizeEvidence& size : sizes_) {
      if (size.known_runs > 0) {
        const double variance = run_variance(prior, size.known_runs);
        const Estimate of_needed = needed_for(size.epochs);
        epochs.push_back({size.doublings(), std::log(size.epochs), variance});
        needed.push_back({size.doublings(), of_needed.mean, of_needed.variance + variance});
      }
      if (size.epoch_cost > 0) {
        const Estimate cost = epoch_cost(size);
        costs.push_back(
            {size.doublings(), cost.mean, cost.variance + kCostDeviation * kCostDeviation});
      }
    }
    epochs_.emplace(epochs_prior, origin, epochs);
    needed_.emplace(epochs_prior, origin, needed);
    bool surprised = false;
    for (const SizeEvidence& size : sizes_) {
      if (size.known_runs > 0 || size.longest <= 1) continue;
      const double at_least = std::log(kEndedFactor * size.longest);
      if (at_least <= needed_->at(size.doublings()).mean) continue;
      epochs.push_back({size.doublings(), at_least, kEndedDeviation * kEndedDeviation});
      needed.push_back(epochs.back());
      surprised = true;
    }
    if (surprised) epochs_.emplace(epochs_prior, origin, epochs);
    if (surprised) needed_.emplace(epochs_prior, origin, needed);
    const double empty = std::max(0.0, 1 - filled_.value_or(kFilledPower) / kFilledPower);
    cost_.emplace(SurrogatePrior{.slope = kEmptySlope * empty,
                                 .slope_deviation = prior.cost_slope_deviation,
                                 .bend = prior.cost_bend,
                                 .bend_deviation = prior.cost_bend_deviation,
                                 .waviness = prior.cost_waviness,
                                 .scatter = prior.cost_scatter},
                  origin, costs);
  }

  std::vector<SizeEvidence> sizes_;
  int converged_ = 0;
  int expected_ = 0;              ///< recurrences
  std::optional<double> filled_;  ///< share of the GPUs' power that the first trial drew
  PayBackPrior prior_;
  std::optional<Surrogate> epochs_, needed_, cost_;
};

// A size is tried if it is next to a converged size or within this factor of one. More distant
// sizes may not converge at all.
constexpr double kReachFactor = 4;
constexpr double kMostLoss = 1;      // a trial ends before it costs more than necessary
constexpr double kFailureLoss = 1;   // loss of a trial that does not converge
constexpr double kFixedLoss = 0.05;  // makes free trials comparable
constexpr int kMostGivenUp = 2;
// Runs exceed their mean more often than a normal distribution predicts.
constexpr double kTail = 0.2, kTailFactor = 3;
constexpr int kMostAhead = 1000;  // epochs

double below(double z) {
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}

/// Returns the mean of max(x, 0) for a normal x with this mean (`gain`) and deviation.
double expected_above_0(double gain, double deviation) {
  const double z = gain / deviation;
  return gain * below(z) + deviation * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
}

/// Weights of a standard normal distribution, in steps of half a deviation.
constexpr std::array<double, 13> kNormalWeights{0.0022, 0.0088, 0.0270, 0.0648, 0.1210,
                                                0.1760, 0.2004, 0.1760, 0.1210, 0.0648,
                                                0.0270, 0.0088, 0.0022};
constexpr double kNormalStep = 0.5, kNormalFirst = -3;

bool is_in_reach(const Evidence& evidence, const RecurringJob& job, const SizeEvidence& size) {
  const auto place = [&job](const SizeEvidence& one) {
    return std::ranges::find(job.batch_sizes, one.batch_size) - job.batch_sizes.begin();
  };
  return std::ranges::any_of(evidence.sizes(), [&](const SizeEvidence& known) {
    return known.runs > 0 &&
           (std::abs(place(size) - place(known)) == 1 ||
            std::abs(size.doublings() - known.doublings()) <= std::log2(kReachFactor));
  });
}

struct Worth {
  double saving = 0;  ///< over all remaining recurrences, in costs of the best size
  double loss = 0;    ///< cost of the tries
  double net() const { return saving - loss; }
};

/// Returns the expected gain of a size in each later recurrence, as a share of the cost of the best
/// size, after `tries` trainings have shown the epochs that it takes.
/// \param least  logarithm of the cost of the best size
double expected_gain(const Evidence& evidence, const SizeEvidence& size, double least, int tries,
                     const PayBackPrior& prior) {
  const Estimate cost = evidence.epoch_cost(size);
  const double noise = prior.run_deviation * prior.run_deviation;
  // The variance by which `tries` runs may change an estimate with this variance.
  const auto moved = [&](double variance) {
    return variance * variance / (variance + noise / tries);
  };
  const Estimate needed = evidence.needed_epochs(size), taken = evidence.taken_epochs(size);
  const double by_runs = size.is_known() ? moved(taken.variance) : 0;
  const double deviation = std::sqrt(by_runs + cost.variance);
  const double failing = evidence.log_cost(size) - evidence.epochs(size).mean - cost.mean;
  // If trainings take few epochs, a size saves a whole epoch or none.
  const double shift = moved(needed.variance), left = needed.variance - shift + noise;
  double expected = 0;
  for (std::size_t i = 0; i < kNormalWeights.size(); ++i) {
    const double z = kNormalFirst + kNormalStep * static_cast<double>(i);
    const double epochs =
        evidence.mean_epochs(size, {.mean = needed.mean + z * std::sqrt(shift), .variance = left});
    expected += kNormalWeights[i] *
                expected_above_0(least - std::log(epochs) - failing - cost.mean, deviation);
  }
  return expected;
}

/// Returns the worth of trying `size` until its cost is known. \param least  as in `expected_gain`
Worth worth_of(const Evidence& evidence, const SizeEvidence& size, double least,
               const PayBackPrior& prior) {
  const Estimate epochs = evidence.epochs(size), cost = evidence.epoch_cost(size);
  const double loss = std::clamp(
      std::exp(evidence.log_cost(size) - least + (epochs.variance + cost.variance) / 2) - 1, 0.0,
      kMostLoss);
  // The cost of a known size includes its failures.
  const double failure = size.is_known() ? 0 : evidence.failure(size);
  const int remaining = evidence.remaining();
  Worth most{.saving = 0, .loss = 1};
  for (int tries = 1; tries <= 8 && (tries == 1 || tries < remaining); tries *= 2) {
    const double gain = expected_gain(evidence, size, least, tries, prior);
    const Worth worth{.saving = (remaining - tries) * gain * (1 - failure),
                      .loss = tries * loss + failure * kFailureLoss};
    if (worth.net() > most.net()) most = worth;
  }
  return most;
}

BatchSizeChoice choice_of(const SizeEvidence& size, std::string why) {
  return {.batch_size = size.batch_size,
          .kind = size.runs > 0 ? Trial::Kind::kExploitation : Trial::Kind::kExploration,
          .why = std::move(why)};
}

/// Returns a text of the worth of trying a size, in costs of a recurrence.
std::string text_of(const Worth& worth, int remaining) {
  return "may save the cost of " + shortest(worth.saving, 2) + " recurrences in the " +
         std::to_string(remaining) + " that remain, and may lose the cost of " +
         shortest(worth.loss, 2);
}

/// Returns the cheapest size on another GPU that was not given up here; null if none is known.
const SizeEvidence* cheapest_elsewhere(std::span<const SizeEvidence* const> sizes) {
  const SizeEvidence* cheapest = nullptr;
  for (const SizeEvidence* size : sizes) {
    if (size->cost_elsewhere == 0 || size->given_up > 0) continue;
    if (cheapest == nullptr || size->cost_elsewhere < cheapest->cost_elsewhere) cheapest = size;
  }
  return cheapest;
}

/// Returns the size to try before one has converged: the cheapest on another GPU or the default,
/// then the nearest to the default, each once.
Result<BatchSizeChoice> first_choice(const RecurringJob& job, const Evidence& evidence) {
  std::vector<const SizeEvidence*> order;
  bool running = false;
  for (const int size : job.batch_sizes) {
    order.push_back(evidence.find(size));
    running = running || order.back()->running;
  }
  const auto distance = [&job](const SizeEvidence* size) {
    return std::pair(std::abs(size->doublings() - std::log2(job.default_batch_size)),
                     size->batch_size);
  };
  std::ranges::sort(order, {}, distance);
  if (running) {
    return BatchSizeChoice{.batch_size = job.default_batch_size,
                           .kind = Trial::Kind::kConcurrent,
                           .why = "there is no result yet"};
  }
  if (const SizeEvidence* elsewhere = cheapest_elsewhere(order)) {
    return choice_of(*elsewhere, "the cheapest on another GPU");
  }
  for (const SizeEvidence* size : order) {
    if (size->given_up == 0) {
      return choice_of(*size, size->batch_size == job.default_batch_size
                                  ? "the default, as the first trial"
                                  : "nearest to the default, which did not converge");
    }
  }
  return Error::infeasible("no batch size of job " + job.id + " has converged");
}

}  // namespace

Result<BatchSizeChoice> choose_by_pay_back(const RecurringJob& job, std::span<const Trial> trials,
                                           const PayBackPrior& prior) {
  const Evidence evidence(job, trials, prior);
  const SizeEvidence* best = evidence.best();
  if (best == nullptr) return first_choice(job, evidence);
  const double least = evidence.log_cost(*best);
  const SizeEvidence *chosen = nullptr, *nearest = nullptr;
  Worth chosen_worth, nearest_worth;
  double highest = 0;
  for (const SizeEvidence& size : evidence.sizes()) {
    const bool is_own = std::ranges::binary_search(job.batch_sizes, size.batch_size);
    const bool is_out = size.runs == 0 && (size.given_up >= kMostGivenUp || size.running ||
                                           size.longest >= job.max_epochs);
    if (&size == best || !is_own || is_out) continue;
    if (!size.is_known() && !is_in_reach(evidence, job, size)) continue;
    const Worth worth = worth_of(evidence, size, least, prior);
    // Cheap tries first: their evidence on the other sizes may make those tries unnecessary.
    const double score = worth.net() / (kFixedLoss + worth.loss);
    if (worth.net() > 0 && (chosen == nullptr || score > highest)) {
      chosen = &size;
      chosen_worth = worth;
      highest = score;
    }
    if (nearest == nullptr || worth.net() > nearest_worth.net()) {
      nearest = &size;
      nearest_worth = worth;
    }
  }
  const int remaining = evidence.remaining();
  if (chosen != nullptr) return choice_of(*chosen, text_of(chosen_worth, remaining));
  if (nearest == nullptr) return choice_of(*best, "no other size is left to try");
  return choice_of(*best, "no other size can pay back: " + std::to_string(nearest->batch_size) +
                              " " + text_of(nearest_worth, remaining));
}

bool is_worth_another_epoch(const RecurringJob& job, std::span<const Trial> trials,
                            const Trial& trial, const PayBackPrior& prior) {
  const bool is_first = std::ranges::none_of(
      trials, [](const Trial& one) { return one.has_result() && one.converged; });
  if (is_first || trial.epochs == 0) return true;
  const Evidence evidence(job, trials, prior, &trial);
  const SizeEvidence* best = evidence.best();
  const SizeEvidence* size = evidence.find(trial.batch_size);
  if (best == nullptr || size == nullptr || size->epoch_cost <= 0) return true;
  if (size->runs > 0) return trial.epochs < std::max(2 * size->most_epochs, 4);
  const double restart = std::exp(evidence.log_cost(*best));
  const double epoch_cost = std::exp(evidence.epoch_cost(*size).mean);
  const Estimate estimate = evidence.needed_epochs(*size);
  const double deviation = std::sqrt(estimate.variance + prior.run_deviation * prior.run_deviation);
  const double failure = evidence.failure(*size);
  const auto longer_than = [&](int epochs) {
    const double z = (std::log(epochs) - estimate.mean) / deviation;
    return failure + (1 - failure) * (1 - (1 - kTail) * below(z) - kTail * below(z / kTailFactor));
  };
  const int done = trial.epochs;
  const double now = longer_than(done);
  if (now <= 1e-9) return true;
  double cost = 0, gain = 0, before = now;
  const int last = done + std::min(job.max_epochs - done, kMostAhead);
  for (int epochs = done + 1; epochs <= last; ++epochs) {
    const double after = longer_than(epochs);
    const double saving = std::max(0.0, restart - epoch_cost * epochs);
    cost += before / now * epoch_cost;
    gain += (before - after) / now *
            (restart + prior.knowledge * saving * static_cast<double>(evidence.remaining()));
    if (gain > cost) return true;
    before = after;
  }
  return false;
}

double epochs_to_come(const RecurringJob& job, std::span<const Trial> trials, int batch_size,
                      const PayBackPrior& prior) {
  const Evidence evidence(job, trials, prior);
  const SizeEvidence* size = evidence.find(batch_size);
  double epochs = 1;
  if (size != nullptr && evidence.converged() > 0) {
    epochs = std::exp(evidence.epochs(*size).mean);
  } else if (size != nullptr && size->known_runs > 0) {
    epochs = size->epochs;
  }
  return std::max(1, evidence.remaining()) * std::max(1.0, epochs);
}

}  // namespace harpe::zeus
