#pragma once
/// \file
/// Choice of the batch size of a job's next recurrence.

#include <optional>
#include <span>
#include <string>

#include "harpe/base/result.h"
#include "harpe/zeus/batch_size/recurring_job.h"
#include "harpe/zeus/batch_size/thompson.h"

namespace harpe::zeus {

struct BatchSizeChoice {
  int batch_size = 0;
  Trial::Kind kind = Trial::Kind::kExploration;
  std::string why;  ///< in a few words, for people
};

/// Returns the converged trial of least cost; null if none has converged.
const Trial* cheapest_trial(const RecurringJob& job, std::span<const Trial> trials);

/// Chooses as Zeus does: by pruning, then by Thompson sampling among the remaining sizes, each by
/// its newest `window` results. While a result that pruning needs is pending, other recurrences get
/// the size of least cost so far. Fails with `kInfeasible` if no size converges. O(trials + sizes x
/// rounds).
/// \param trials  all, by number
/// \param draws   used only for Thompson sampling
Result<BatchSizeChoice> choose_as_zeus(const RecurringJob& job, std::span<const Trial> trials,
                                       Draws& draws);

}  // namespace harpe::zeus
