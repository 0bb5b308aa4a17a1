#pragma once
/// \file
/// Whole numbers of epochs. A training ends with an epoch: if it needs 1.2 epochs, it takes two.
/// The number that it needs is smooth in the batch size; the number that it takes is not. The
/// difference is small for some hundred epochs, and up to a factor of two for one epoch.

#include "harpe/zeus/batch_size/surrogate.h"

namespace harpe::zeus {

/// Returns the mean number of epochs that trainings take if they need exp(x) epochs, x normal.
/// \param log_needed  mean and variance of x
double expected_whole_epochs(const Estimate& log_needed);

/// Returns the logarithm of the number of epochs that trainings needed if they took `taken` whole
/// epochs on average: the middle of the last epoch, with the variance of a uniform distribution
/// over it. \param taken  at least 1
Estimate needed_for(double taken);

}  // namespace harpe::zeus
