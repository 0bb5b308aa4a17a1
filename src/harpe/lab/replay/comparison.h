#pragma once
/// \file
/// One traced job under each way to choose its batch size, over many seeds.

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/lab/replay/recurrences.h"

namespace harpe::lab {

/// Of one seed. Shares are of the default's figures with the same seed.
struct WayFigures {
  double cost_over_oracle = 0;
  double last_energy = 0, last_time = 0;  ///< shares, of the last five recurrences
  int batch_size = 0, power_limit = 0;    ///< most often in the last five
  std::vector<double> regret = {};        ///< `regret_of`
};
struct SeedFigures {
  double by_default = 0, by_grid = 0;   ///< cost over oracle
  std::optional<WayFigures> zeus = {};  ///< none: Zeus's chooser left no batch size
  WayFigures harpe = {};
  std::vector<double> default_regret = {};
};

/// After each recurrence, what was paid beyond that many of the oracle, in costs of one of those.
std::vector<double> regret_of(const TracedJob& job, const Recurrences& recurrences);

/// \param known  of epochs to target, from another GPU, for Harpe alone
Result<SeedFigures> compare_seed(const TracedJob& job, std::uint64_t seed,
                                 const zeus::PayBackPrior& prior,
                                 const std::vector<zeus::KnownEpochs>& known = {});

struct Spread {
  double mean = 0, deviation = 0, highest = 0;
};
Spread spread_of(std::span<const double> values);

}  // namespace harpe::lab
