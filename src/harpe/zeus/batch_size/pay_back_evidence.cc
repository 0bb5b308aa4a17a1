#include "harpe/zeus/batch_size/pay_back_evidence.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>

#include "harpe/zeus/batch_size/whole_epochs.h"

namespace harpe {
namespace {

// A GPU that draws this share of its highest power gains nothing from larger batches; one that
// draws next to nothing gains nearly in proportion (all GPUs and networks of Zeus's traces).
constexpr double kFilledPower = 0.5;
constexpr double kEmptySlope = -0.62;  // ln 2 x 0.9
// Costs per epoch hardly vary; a run that was ended tells little of how long it would have been.
constexpr double kCostDeviation = 0.005;
constexpr double kEndedDeviation = 0.2;
constexpr double kEndedFactor = 1.2;
constexpr int kLeastRemaining = 50;
// Profiling of power limits makes an epoch longer by this share, with this standard deviation
// (docs/zeus.md, "which limits").
constexpr double kProfiling = 0.07;
// Weight of the predicted epochs, in trainings.
constexpr double kExpectedWeight = 0.5;
constexpr double kFailureWeight = 1;  // trials that the prior's chance of failure counts as

/// The newest `window` trials with a result of each size.
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

/// Of the mean of so many runs. Runs are unlike each other in ways that few of them do not show:
/// one or two count for less than their number.
double run_variance(const PayBackPrior& prior, double runs) {
  return prior.run_deviation * prior.run_deviation * (1 + prior.doubt / runs) / runs;
}

}  // namespace

double SizeEvidence::doublings() const {
  return std::log2(batch_size);
}

Evidence::Evidence(const RecurringJob& job, std::span<const Trial> trials,
                   const PayBackPrior& prior, const Trial* now)
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

void Evidence::add(const RecurringJob& job, const Trial& trial) {
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
    // A later training of one epoch has no or fewer limits left to profile.
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

void Evidence::fit(const RecurringJob& job) {
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

const SizeEvidence* Evidence::find(int batch_size) const {
  const auto at = std::ranges::lower_bound(sizes_, batch_size, {}, &SizeEvidence::batch_size);
  return at != sizes_.end() && at->batch_size == batch_size ? &*at : nullptr;
}

Estimate Evidence::epochs(const SizeEvidence& size) const {
  Estimate needed = needed_epochs(size);
  const double variance = size.is_known() ? taken_epochs(size).variance : needed.variance;
  needed.variance += prior_.run_deviation * prior_.run_deviation;
  return {.mean = std::log(mean_epochs(size, needed)), .variance = variance};
}

Estimate Evidence::epoch_cost(const SizeEvidence& size) const {
  if (size.epoch_cost == 0) return cost_->at(size.doublings());
  if (!size.epoch_cost_is_profiled) return {.mean = std::log(size.epoch_cost)};
  return {.mean = std::log(size.epoch_cost) - kProfiling, .variance = kProfiling * kProfiling};
}

Estimate Evidence::needed_epochs(const SizeEvidence& size) const {
  return needed_->at(size.doublings());
}

Estimate Evidence::taken_epochs(const SizeEvidence& size) const {
  return epochs_->at(size.doublings());
}

double Evidence::mean_epochs(const SizeEvidence& size, const Estimate& needed) const {
  const double expected = expected_whole_epochs(needed);
  if (!size.is_known()) return expected;
  const double taken = std::exp(taken_epochs(size).mean);
  return (kExpectedWeight * expected + size.known_runs * taken) /
         (kExpectedWeight + size.known_runs);
}

double Evidence::failure(const SizeEvidence& size) const {
  double failed = size.given_up;
  if (failed > 0 && !size.is_known()) {
    // A trial that was given up before its expected end has not failed.
    const Estimate needed = needed_epochs(size);
    const double z = (std::log(size.longest) - needed.mean) /
                     std::sqrt(needed.variance + prior_.run_deviation * prior_.run_deviation);
    failed *= std::erfc(-z / std::numbers::sqrt2) / 2;
  }
  if (size.failed_elsewhere) ++failed;
  return (kFailureWeight * prior_.failure + failed) / (kFailureWeight + size.known_runs + failed);
}

double Evidence::log_cost(const SizeEvidence& size) const {
  const double converging = epochs(size).mean + epoch_cost(size).mean;
  if (!size.is_known() || size.given_up == 0) return converging;
  // Before one converges, failure / (1 - failure) fail on average.
  const double chance = failure(size);
  return converging + std::log1p(chance / (1 - chance) * size.given_up_epochs / size.epochs);
}

const SizeEvidence* Evidence::best() const {
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

int Evidence::remaining() const {
  if (expected_ > 0) return std::max(0, expected_ - converged_);
  return std::max(kLeastRemaining, converged_);
}

}  // namespace harpe
