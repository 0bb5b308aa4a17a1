#pragma once
/// \file
/// Trainings end with an epoch: one that would need 1.2 epochs takes two. What is smooth in the
/// batch size is the real number of epochs that a training needs; what it takes is the next whole
/// number. With some hundred epochs that is no matter, with one or two it is a factor of two.

#include "harpe/batch_size/surrogate.h"

namespace harpe {

/// Mean of the whole numbers of epochs that trainings take which need exp(x) epochs, x normal.
/// \param log_needed  of x
double expected_whole_epochs(const Estimate& log_needed);

/// What trainings that took `taken` whole epochs on average needed: the logarithm of the middle of
/// the last epoch, with the error of not knowing where in that epoch. \param taken  at least 1
Estimate needed_for(double taken);

}  // namespace harpe
