#pragma once
/// \file
/// A job's options about its cluster and the electricity there.

#include <optional>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/cluster_bill.h"
#include "harpe/carbon/carbon_source/source_specification.h"

namespace harpe::command {

/// Options of `ClusterTerms`; missing ones have its defaults.
struct ClusterOptions {
  std::optional<int> pipelines;
  std::optional<int> gpus_per_node;
  std::optional<Watts> host_power;
  std::optional<double> pue;
  std::optional<Seconds> time;
  std::optional<carbon::EnergyPrice> price;
  std::optional<carbon::SourceSpecification> carbon;

  /// Returns true if any of them is given: the job requests the bill of a cluster.
  bool given() const;
};

/// Reads a number of hours, or a time with a unit, such as "30d". Over 0, at most 10 years.
Result<Seconds> parse_hours(std::string_view text);

/// Returns the terms with the current carbon intensity of the source: reads its file or requests it
/// from its provider. Fails with the source's error.
Result<carbon::ClusterTerms> cluster_terms(const ClusterOptions& options);

}  // namespace harpe::command
