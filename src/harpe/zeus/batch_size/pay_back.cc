#include "harpe/zeus/batch_size/pay_back.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <numbers>
#include <utility>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/zeus/batch_size/pay_back_evidence.h"
#include "harpe/zeus/batch_size/whole_epochs.h"

namespace harpe {
namespace {

// A size next to one that converged, or within this factor of it, is tried: what lies farther may
// not converge at all.
constexpr double kReachFactor = 4;
constexpr double kMostLoss = 1;      // a trial is ended before it costs more than it must
constexpr double kFailureLoss = 1;   // of a trial that does not converge
constexpr double kFixedLoss = 0.05;  // so that tries that cost nothing compare
constexpr int kMostGivenUp = 2;
// Runs are longer than their mean more often than a normal distribution has it.
constexpr double kTail = 0.2, kTailFactor = 3;
constexpr int kMostAhead = 1000;  // epochs

double below(double z) {
  return std::erfc(-z / std::numbers::sqrt2) / 2;
}

/// How far a normal value of this deviation around `gain` is above 0, on average.
double expected_above_0(double gain, double deviation) {
  const double z = gain / deviation;
  return gain * below(z) + deviation * std::exp(-z * z / 2) / std::sqrt(2 * std::numbers::pi);
}

/// A standard normal distribution, in steps of half a deviation.
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
  double saving = 0;  ///< in all recurrences that remain, as shares of the best one's cost
  double loss = 0;    ///< of trying
  double net() const { return saving - loss; }
};

/// Returns the expected gain of a size in each later recurrence, as a share of the cost of the best
/// size, after `tries` trainings have shown how many epochs it takes.
/// \param least  logarithm of the cost of the best size
double expected_gain(const Evidence& evidence, const SizeEvidence& size, double least, int tries,
                     const PayBackPrior& prior) {
  const Estimate cost = evidence.epoch_cost(size);
  const double noise = prior.run_deviation * prior.run_deviation;
  // Variance by which `tries` runs may change an estimate of this variance.
  const auto moved = [&](double variance) {
    return variance * variance / (variance + noise / tries);
  };
  const Estimate needed = evidence.needed_epochs(size), taken = evidence.taken_epochs(size);
  const double by_runs = size.is_known() ? moved(taken.variance) : 0;
  const double deviation = std::sqrt(by_runs + cost.variance);
  const double failing = evidence.log_cost(size) - evidence.epochs(size).mean - cost.mean;
  // Where trainings take few epochs, a size saves whole ones or none.
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

/// What trying a size may bring, in costs of a recurrence.
std::string text_of(const Worth& worth, int remaining) {
  return "may save the cost of " + shortest(worth.saving, 2) + " recurrences in the " +
         std::to_string(remaining) + " that remain, and cost that of " + shortest(worth.loss, 2);
}

/// The cheapest on another GPU of those that were not given up here; null: none is known.
const SizeEvidence* cheapest_elsewhere(std::span<const SizeEvidence* const> sizes) {
  const SizeEvidence* cheapest = nullptr;
  for (const SizeEvidence* size : sizes) {
    if (size->cost_elsewhere == 0 || size->given_up > 0) continue;
    if (cheapest == nullptr || size->cost_elsewhere < cheapest->cost_elsewhere) cheapest = size;
  }
  return cheapest;
}

/// Until one has converged: the cheapest on another GPU, or the default, then what is nearest to
/// it, each once.
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
                           .why = "no result is there yet"};
  }
  if (const SizeEvidence* elsewhere = cheapest_elsewhere(order)) {
    return choice_of(*elsewhere, "the cheapest on another GPU");
  }
  for (const SizeEvidence* size : order) {
    if (size->given_up == 0) {
      return choice_of(*size, size->batch_size == job.default_batch_size
                                  ? "the default, first of all"
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
    // Cheap tries first: what they show of the others may save these.
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

}  // namespace harpe
