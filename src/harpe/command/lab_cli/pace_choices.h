#pragma once
/// \file
/// The speeds that a job can choose from, and the files that contain them.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/pacing/pace_curve.h"

namespace harpe::command {

struct PaceChoices {
  std::vector<carbon::PieceCost> pieces{};     ///< of an iteration, or of a step
  std::optional<carbon::PieceCost> all_max{};  ///< nullopt if the file does not contain it
  /// Choices for the same work with one setting for all computations; empty if the file has none.
  std::vector<carbon::PieceCost> one_setting{};
  std::string what{};  ///< "frontier", "plan table", "profile of power limits"
};

/// Reads a frontier (harpe.frontier/1), a table of plans (harpe.plan_table/1 or /2) or a profile of
/// power limits (Zeus's JSON). Fails if the file is none of them, or has an error.
Result<PaceChoices> parse_pace_choices(std::string_view text, const std::string& file);

}  // namespace harpe::command
