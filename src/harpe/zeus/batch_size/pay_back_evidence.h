#pragma once
/// \file
/// What the trials of a job, and another GPU's, say of each batch size.

#include <optional>
#include <span>
#include <vector>

#include "harpe/zeus/batch_size/pay_back.h"
#include "harpe/zeus/batch_size/surrogate.h"

namespace harpe {

struct SizeEvidence {
  int batch_size = 0;
  int runs = 0;                         ///< that converged, here
  double epochs = 0;                    ///< mean of all known to have converged
  double known_runs = 0;                ///< that converged, here or elsewhere
  int most_epochs = 0;                  ///< of those that converged here
  int given_up = 0;                     ///< trials here that did not converge
  double given_up_epochs = 0;           ///< mean of those
  int longest = 0;                      ///< epochs without reaching the target
  double epoch_cost = 0;                ///< J; 0: not known
  bool epoch_cost_is_profiled = false;  ///< of a first epoch alone, in which limits are profiled
  bool failed_elsewhere = false;
  double cost_elsewhere = 0;  ///< J, of a training to its target on another GPU; 0: not known
  bool running = false;

  double doublings() const;
  /// Whether trials of this size have converged, here or elsewhere.
  bool is_known() const { return known_runs > 0; }
};

/// Of the sizes of a job and those known from elsewhere, rising. \param now  a trial under way
/// whose cost per epoch counts already; null: none
class Evidence {
 public:
  Evidence(const RecurringJob& job, std::span<const Trial> trials, const PayBackPrior& prior,
           const Trial* now = nullptr);

  const std::vector<SizeEvidence>& sizes() const { return sizes_; }
  const SizeEvidence* find(int batch_size) const;
  int converged() const { return converged_; }  ///< trials
  /// Natural logarithms. Of what a training that converges takes on average, in whole epochs; no
  /// variance of cost where it was measured.
  Estimate epochs(const SizeEvidence& size) const;
  Estimate epoch_cost(const SizeEvidence& size) const;
  /// The epochs that a training needs, of which it takes the next whole number.
  Estimate needed_epochs(const SizeEvidence& size) const;
  /// The epochs that those that converged have taken, as far as they and other sizes tell.
  Estimate taken_epochs(const SizeEvidence& size) const;
  /// Mean of what trainings take if they need so many: a number. What those of a known size have
  /// taken counts as often as they are, what follows from `needed` half as much as one of them.
  double mean_epochs(const SizeEvidence& size, const Estimate& needed) const;
  /// The chance that a trial does not converge. Each size has failures of its own: the prior's
  /// chance counts as one trial.
  double failure(const SizeEvidence& size) const;
  /// Of the product, and of what is paid for trials that fail before one converges where the size
  /// is known.
  double log_cost(const SizeEvidence& size) const;
  /// That has converged, of least cost as it is believed now; null: none has.
  const SizeEvidence* best() const;
  /// Recurrences that are still to come: as many as there were, 50 at least, where the job does not
  /// say.
  int remaining() const;

 private:
  void add(const RecurringJob& job, const Trial& trial);
  void fit(const RecurringJob& job);

  std::vector<SizeEvidence> sizes_;
  int converged_ = 0;
  int expected_ = 0;              ///< recurrences
  std::optional<double> filled_;  ///< share of the GPUs' power that the first trial drew
  PayBackPrior prior_;
  std::optional<Surrogate> epochs_, needed_, cost_;
};

}  // namespace harpe
