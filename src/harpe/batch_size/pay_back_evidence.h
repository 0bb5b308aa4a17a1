#pragma once
/// \file
/// What the trials of a job, and another GPU's, say of each batch size.

#include <optional>
#include <span>
#include <vector>

#include "harpe/batch_size/pay_back.h"
#include "harpe/batch_size/surrogate.h"

namespace harpe {

struct SizeEvidence {
  int batch_size = 0;
  int runs = 0;                         ///< that converged, here
  double epochs = 0;                    ///< mean of all known to have converged
  double known_runs = 0;                ///< that converged, here or elsewhere
  int most_epochs = 0;                  ///< of those that converged here
  int given_up = 0;                     ///< trials that did not converge
  int longest = 0;                      ///< epochs without reaching the target
  double epoch_cost = 0;                ///< J; 0: not known
  bool epoch_cost_is_profiled = false;  ///< of a first epoch alone, in which limits are profiled
  bool failed_elsewhere = false;
  double cost_elsewhere = 0;  ///< J, of a training to its target on another GPU; 0: not known
  bool running = false;

  double doublings() const;
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
  /// Natural logarithms; no variance of cost where it was measured.
  Estimate epochs(const SizeEvidence& size) const;
  Estimate epoch_cost(const SizeEvidence& size) const;
  /// Of the product.
  double log_cost(const SizeEvidence& size) const;
  /// That has converged, of least cost as it is believed now; null: none has.
  const SizeEvidence* best() const;
  /// Recurrences that are still to come: as many as there were, 50 at least, where the job does not
  /// say.
  int remaining() const;

 private:
  void add(const RecurringJob& job, const Trial& trial);
  void fit(const RecurringJob& job, const PayBackPrior& prior);

  std::vector<SizeEvidence> sizes_;
  int converged_ = 0;
  int expected_ = 0;              ///< recurrences
  std::optional<double> filled_;  ///< share of the GPUs' power that the first trial drew
  std::optional<Surrogate> epochs_, cost_;
};

}  // namespace harpe
