#pragma once
/// \file
/// Comparison of the ways to choose the batch size of one traced job, over many seeds.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/lab/replay/recurrences.h"

namespace harpe::lab {

/// Figures of one way with one seed. Shares are of the default's figures with the same seed.
struct WayFigures {
  double cost_over_oracle = 0;
  double last_energy = 0, last_time = 0;  ///< shares, of the last five recurrences
  int batch_size = 0, power_limit = 0;    ///< most frequent in the last five
  std::vector<double> regret = {};        ///< see `regret_of`
};
struct SeedFigures {
  double by_default = 0, by_grid = 0;   ///< cost over oracle
  std::optional<WayFigures> zeus = {};  ///< nullopt if Zeus's chooser left no batch size
  WayFigures harpe = {};
  std::vector<double> default_regret = {};
};

/// Returns, for each recurrence, the cost so far beyond the oracle's, in units of one recurrence of
/// the oracle.
std::vector<double> regret_of(const TracedJob& job, const Recurrences& recurrences);

/// \param known  epochs to target from another GPU, for Harpe only
Result<SeedFigures> compare_seed(const TracedJob& job, std::uint64_t seed,
                                 const zeus::PayBackPrior& prior,
                                 const std::vector<zeus::KnownEpochs>& known = {});

struct Spread {
  double mean = 0, deviation = 0, highest = 0;
};
Spread spread_of(std::span<const double> values);

}  // namespace harpe::lab
