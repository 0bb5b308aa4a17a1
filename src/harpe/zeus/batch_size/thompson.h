#pragma once
/// \file
/// Gaussian Thompson sampling over batch sizes (Zeus, NSDI'23, section 4.4, algorithm 1): what is
/// believed of each size's mean reward, and a choice by one draw from each belief.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace harpe::zeus {

/// Random numbers of one job: the same after it was stored and read again, for it is a count.
struct Draws {
  std::int64_t seed = 0;
  std::int64_t count = 0;  ///< drawn so far

  std::uint64_t bits();
  /// Uniform in [0, 1).
  double uniform();
  /// Standard normal.
  double normal();
  /// Each order of 0 .. size - 1 is equally likely.
  std::vector<std::size_t> permutation(std::size_t size);

  friend bool operator==(const Draws&, const Draws&) = default;
};

/// A normal distribution.
struct Belief {
  double mean = 0;
  double precision = 0;  ///< 1 / variance; infinite where all results were the same
  int observations = 0;
};

/// What `rewards` leave of a prior, where each has a normal error of the variance that they have
/// among each other. As Zeus has it: where that is 0 (one result alone, too), nothing is in doubt.
Belief posterior(std::span<const double> rewards, double prior_mean, double prior_precision);

/// The first of those seen less than `explorations` times, in a random order; where there are none,
/// the one whose draw is largest. \param beliefs  at least one
std::size_t thompson_choice(std::span<const Belief> beliefs, int explorations, Draws& draws);

}  // namespace harpe::zeus
