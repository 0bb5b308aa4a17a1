#pragma once
/// \file
/// Which batch size the next recurrence of a job is given.

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

/// The converged trial of least cost; null: none has converged.
const Trial* cheapest_trial(const RecurringJob& job, std::span<const Trial> trials);

/// As Zeus chooses: by pruning, then by Thompson sampling among what is left, each size by its
/// newest `window` results. While a result that pruning needs is under way, others are given the
/// size of least cost so far.
/// \param trials  all, by number
/// \param draws   used for Thompson sampling alone
/// Fails with `kInfeasible` where no size converges. O(trials + sizes x rounds).
Result<BatchSizeChoice> choose_as_zeus(const RecurringJob& job, std::span<const Trial> trials,
                                       Draws& draws);

}  // namespace harpe::zeus
