#pragma once
/// \file
/// Harpe's choice of batch sizes: a size is tried only if its possible saving in the remaining
/// recurrences exceeds the cost of trying it.
///
/// The cost of a size is its epochs to target times its cost per epoch. Both are assumed to be
/// smooth in the logarithm of the size (surrogate.h): epochs rise with the size (McCandlish et al.,
/// 2018: by 1 + B / B_critical), and the cost per epoch falls until the GPU is filled, which its
/// power shows. Epochs do not depend on the GPU, so epochs learned on another GPU count in full.
///
/// The expected saving of trying a size b n times is, per remaining recurrence, the expected amount
/// by which the mean of b is below that of the best size (expected improvement; a knowledge
/// gradient, Frazier et al., 2008, over several tries). A trial continues while some number of
/// further epochs is worth its cost: if it then reaches the target, no other recurrence has to
/// start, and a cheaper size may be known. Costs are relative to one recurrence with the best size.
///
/// Pure; O(trials + sizes x known sizes^2) per choice.

#include <optional>
#include <span>

#include "harpe/base/result.h"
#include "harpe/zeus/batch_size/batch_size_choice.h"
#include "harpe/zeus/batch_size/recurring_job.h"

namespace harpe::zeus {

/// The prior before the first trial. Logarithms are natural, slopes per doubling. The numbers were
/// chosen on Zeus's traces; docs/zeus.md shows the results on data that they were not chosen on.
struct PayBackPrior {
  // Epochs to target.
  double epochs_slope = 0.139, epochs_slope_deviation = 0.17;
  double epochs_bend = 0.069, epochs_bend_deviation = 0.07;
  double epochs_waviness = 0.10, epochs_scatter = 0.05;
  double run_deviation = 0.10;  ///< of one run from the mean of its size
  /// Additional uncertainty of a size with one run: one run in five is three times as far off.
  double doubt = 1.6;
  // Cost per epoch.
  double cost_slope_deviation = 0.104;
  double cost_bend = 0.042, cost_bend_deviation = 0.042;
  double cost_waviness = 0.05, cost_scatter = 0.03;
  double failure = 0.03;   ///< probability that a size without a run does not converge
  double knowledge = 0.5;  ///< share of the savings that a running trial may count on
};

/// Returns the batch size of the next recurrence. Fails with `kInfeasible` if every size was tried
/// and none converged.
/// \param trials  all, by number
Result<BatchSizeChoice> choose_by_pay_back(const RecurringJob& job, std::span<const Trial> trials,
                                           const PayBackPrior& prior);

/// Returns true if a trial that has reported and not reached its target is worth another epoch.
/// Always true if no trial has converged yet.
bool is_worth_another_epoch(const RecurringJob& job, std::span<const Trial> trials,
                            const Trial& trial, const PayBackPrior& prior);

/// Returns the number of remaining epochs if all remaining recurrences use this size; at least one
/// per recurrence if nothing is known of the size.
double epochs_to_come(const RecurringJob& job, std::span<const Trial> trials, int batch_size,
                      const PayBackPrior& prior);

}  // namespace harpe::zeus
