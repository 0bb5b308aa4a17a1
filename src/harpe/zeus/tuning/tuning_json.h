#pragma once
/// \file
/// The result of tuning as JSON: the member "optimize" of `harpe run`'s report, and the report of
/// Python's optimizer. Include only in `.cc` files.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "harpe/zeus/tuning/job_tuning.h"

namespace harpe::zeus {

nlohmann::ordered_json tuning_json(const TuningReport& report);

/// Returns "energy", "time" or "cost".
std::string selector_name(Selector::Kind kind);
/// Returns true if a step was measured under the setting.
bool is_measured(const TuningResult& result, std::size_t setting);
/// Returns the slowdown of a step under the chosen setting against the highest, as a fraction;
/// nullopt if one of the two was not measured.
std::optional<double> slowdown_of(const TuningResult& result);

}  // namespace harpe::zeus
