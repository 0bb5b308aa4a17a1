#pragma once
/// \file
/// Ways in which an energy may have come about, of which readings do not tell which it was.

#include <vector>

namespace harpe::device {

/// One way: a normal distribution.
struct Explanation {
  double weight = 0;    ///< probability
  double energy = 0;    ///< J
  double variance = 0;  ///< J^2
  /// By which energy up to an instant falls where all steps came later than thought, W.
  double power = 0;
};

/// Puts explanations that are much alike together, and leaves out those that are unlikely.
std::vector<Explanation> simplified(std::vector<Explanation> explanations);

/// Mean, and the half-width of the interval around it that holds that share of the probability.
struct MeanAndError {
  double mean = 0, error = 0;
};
MeanAndError summary_of(const std::vector<Explanation>& explanations, double share_held);

}  // namespace harpe::device
