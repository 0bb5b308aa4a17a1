#pragma once
/// \file
/// The speeds that a job can choose among, out of the files that hold them.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/pacing/pace_curve.h"

namespace harpe::command {

struct PaceChoices {
  std::vector<carbon::PieceCost> pieces{};     ///< of an iteration, or of a step
  std::optional<carbon::PieceCost> all_max{};  ///< where the file says it
  /// Of the same work with one setting for all its computations; empty where the file has none.
  std::vector<carbon::PieceCost> one_setting{};
  std::string what{};  ///< "frontier", "plan table", "profile of power limits"
};

/// Of a frontier (harpe.frontier/1), a table of plans (harpe.plan_table/1 or /2) or a profile of
/// power limits (Zeus's JSON). Diagnostics where it is none of them, or has something wrong.
Result<PaceChoices> parse_pace_choices(std::string_view text, const std::string& file);

}  // namespace harpe::command
