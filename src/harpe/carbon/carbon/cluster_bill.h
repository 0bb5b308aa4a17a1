#pragma once
/// \file
/// Power, energy, CO2 and cost of a training cluster. Pure.
///
///     GPUs   = pipelines x GPUs of a pipeline
///     nodes  = GPUs / GPUs of a node, rounded up
///     site   = PUE x (iterations x pipelines x energy of an iteration + nodes x host power x time)
///     CO2    = site x intensity; money = site x price
///
/// Bills are compared at equal work: the iterations that the plan does in the hours of the terms.
/// The bill of a faster alternative covers only the shorter time it needs; a slower alternative
/// takes longer, and its hosts run longer, too.
///
///   using namespace harpe::carbon;
///   const auto work = iterations_in(terms, plan.time);
///   const auto bill = cluster_bill(terms, 64, plan, work);
///   const auto saved = saving(bill, cluster_bill(terms, 64, all_max, work));

#include <cstdint>
#include <optional>

#include "harpe/base/units.h"
#include "harpe/carbon/carbon/energy_price.h"
#include "harpe/carbon/carbon/intensity.h"

namespace harpe::carbon {

inline constexpr Joules kKilowattHour{3.6e6};
inline constexpr Seconds kMonth{720 * 3600.0};

/// A cluster of equal pipelines that train one model, and the site around it.
struct ClusterTerms {
  int pipelines = 1;      ///< at least 1
  int gpus_per_node = 8;  ///< at least 1
  Watts host_power{0};    ///< of a node without its GPUs, while it trains
  double pue = 1;         ///< energy of the site over that of its nodes: at least 1
  Seconds time = kMonth;  ///< training time of the plan: positive
  std::optional<EnergyPrice> price = {};
  std::optional<CarbonIntensity> intensity = {};
};

/// Time and energy of one pipeline for an iteration, waiting included.
struct IterationCost {
  Seconds time;
  Joules energy;
};

struct ClusterBill {
  std::int64_t gpus = 0;
  std::int64_t nodes = 0;
  double iterations = 0;
  Seconds time{0};   ///< duration of the iterations
  Watts power{0};    ///< mean of the site over `time`
  Joules energy{0};  ///< of the site
  std::optional<Grams> co2 = {};
  std::optional<double> money = {};  ///< in the currency of the price
};

/// Returns the iterations that the cluster does in the time of the terms. They need not be whole.
double iterations_in(const ClusterTerms& terms, Seconds iteration_time);

/// Returns the bill for that number of iterations. \pre `iteration.time` is above 0
ClusterBill cluster_bill(const ClusterTerms& terms, std::int64_t gpus_per_pipeline,
                         const IterationCost& iteration, double iterations);

/// The difference of two bills for the same work. Negative if the plan needs more.
struct ClusterSaving {
  Joules energy{0};
  std::optional<Grams> co2 = {};
  std::optional<double> money = {};
};
ClusterSaving saving(const ClusterBill& bill, const ClusterBill& instead);

}  // namespace harpe::carbon
