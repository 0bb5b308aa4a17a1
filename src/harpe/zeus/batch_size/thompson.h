#pragma once
/// \file
/// Gaussian Thompson sampling over batch sizes (Zeus, NSDI'23, section 4.4, algorithm 1): a belief
/// about each size's mean reward, and a choice by one draw from each belief.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace harpe::zeus {

/// Random numbers of one job. Their state is a count, so that they continue after a job was stored
/// and read again.
struct Draws {
  std::int64_t seed = 0;
  std::int64_t count = 0;  ///< drawn so far

  std::uint64_t bits();
  /// Returns a number uniform in [0, 1).
  double uniform();
  /// Returns a standard normal number.
  double normal();
  /// Returns a random order of 0 .. size - 1; all orders are equally likely.
  std::vector<std::size_t> permutation(std::size_t size);

  friend bool operator==(const Draws&, const Draws&) = default;
};

/// A normal distribution.
struct Belief {
  double mean = 0;
  double precision = 0;  ///< 1 / variance; infinite if all results were equal
  int observations = 0;
};

/// Returns the posterior of the mean reward. The error of each reward is normal, with the variance
/// of the rewards. As in Zeus, if that variance is 0 (also for a single result), the mean counts as
/// certain.
Belief posterior(std::span<const double> rewards, double prior_mean, double prior_precision);

/// Returns the first size, in random order, that was observed less than `explorations` times or
/// whose belief has precision 0; if there is none, the size with the largest draw.
/// \param beliefs  at least one
std::size_t thompson_choice(std::span<const Belief> beliefs, int explorations, Draws& draws);

}  // namespace harpe::zeus
