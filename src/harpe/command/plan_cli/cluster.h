#pragma once
/// \file
/// The bill of a cluster under a plan, and the plan's saving there, in words and as JSON.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/carbon/carbon/cluster_bill.h"
#include "harpe/command/command/json_output.h"

namespace harpe::command {

struct Planned;

/// A plan of one pipeline, and the alternatives that it is compared with.
struct ClusterCosts {
  std::int64_t gpus_per_pipeline = 1;
  carbon::IterationCost plan;
  carbon::IterationCost all_max;
  /// One clock for all GPUs.
  struct OneClock {
    carbon::IterationCost cost;
    Megahertz clock;
    std::string name = "the best one clock for all GPUs that is no slower";  ///< how it was chosen
  };
  std::optional<OneClock> one_clock = {};
};

/// Returns the chosen plan and its rivals.
ClusterCosts cluster_costs(const Planned& planned);

/// Returns sentences, one per line: the power and energy of the cluster, the saving of the plan
/// against all-max and one clock, and the terms.
std::string cluster_text(const carbon::ClusterTerms& terms, const ClusterCosts& costs);

/// Returns the facts as rows for a table: a name and its value.
std::vector<std::pair<std::string, std::string>> cluster_facts(const carbon::ClusterTerms& terms,
                                                               const ClusterCosts& costs);

/// Returns {"gpus", "kw", "kwh", "co2_t", "money", "currency", "saved", ...}. Null if unknown.
Json cluster_json(const carbon::ClusterTerms& terms, const ClusterCosts& costs);

/// Returns energy, CO2 and money in words, if known: "12 345 kWh, 4.70 t of CO2 and 1 235 EUR".
std::string amounts_text(const carbon::ClusterTerms& terms, Joules energy,
                         const std::optional<Grams>& co2, const std::optional<double>& money);

}  // namespace harpe::command
