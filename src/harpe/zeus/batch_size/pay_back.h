#pragma once
/// \file
/// Harpe's own choice of batch sizes: a size is tried only where what it may save in the
/// recurrences that remain is more than what trying it may cost.
///
/// The cost of a size is epochs to target times cost per epoch. Both are believed to be smooth in
/// the logarithm of the size (surrogate.h): epochs rise with the size (McCandlish et al., 2018: by
/// 1 + B / B_critical), the cost per epoch falls as long as the GPU is not filled, which its power
/// shows. Epochs do not depend on the GPU, so what another GPU has learned of them counts in full.
///
/// A recurrence with a size b, tried n times, is expected to save, per recurrence that remains, how
/// far b's mean may come below that of the best (expected improvement; as knowledge gradient,
/// Frazier et al., 2008, several tries ahead). A trial goes on while some number of further epochs
/// is worth its cost: what it may reach then is a recurrence that need not begin again, and the
/// knowledge of a cheaper size. Costs are relative: the unit is one recurrence with the best size.
///
/// Pure; O(trials + sizes x known sizes^2) a choice.

#include <optional>
#include <span>

#include "harpe/base/result.h"
#include "harpe/zeus/batch_size/batch_size_choice.h"
#include "harpe/zeus/batch_size/recurring_job.h"

namespace harpe::zeus {

/// What is believed before the first trial. Logarithms are natural, slopes per doubling. The
/// figures were chosen on Zeus's traces; docs/zeus.md says how they do on data that they were not
/// chosen on.
struct PayBackPrior {
  // Epochs to target.
  double epochs_slope = 0.139, epochs_slope_deviation = 0.17;
  double epochs_bend = 0.069, epochs_bend_deviation = 0.07;
  double epochs_waviness = 0.10, epochs_scatter = 0.05;
  double run_deviation = 0.10;  ///< of one run from the mean of its size
  /// Additional doubt in a size with one run: one run in five is three times as far off.
  double doubt = 1.6;
  // Cost per epoch.
  double cost_slope_deviation = 0.104;
  double cost_bend = 0.042, cost_bend_deviation = 0.042;
  double cost_waviness = 0.05, cost_scatter = 0.03;
  double failure = 0.03;   ///< chance that a size that was never run does not converge
  double knowledge = 0.5;  ///< share of the savings that a trial under way may count on
};

/// \param trials  all, by number
/// Fails with `kInfeasible` where every size was tried and none converged.
Result<BatchSizeChoice> choose_by_pay_back(const RecurringJob& job, std::span<const Trial> trials,
                                           const PayBackPrior& prior);

/// Whether a trial that has reported and has not reached its target is worth another epoch. Always
/// where no trial has converged yet.
bool is_worth_another_epoch(const RecurringJob& job, std::span<const Trial> trials,
                            const Trial& trial, const PayBackPrior& prior);

/// Epochs that are still to come if all recurrences that remain have this size; at least one each
/// where nothing is known of it.
double epochs_to_come(const RecurringJob& job, std::span<const Trial> trials, int batch_size,
                      const PayBackPrior& prior);

}  // namespace harpe::zeus
