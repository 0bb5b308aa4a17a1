#pragma once
/// \file
/// What tuning did, as JSON: the member "optimize" of `harpe run`'s report, and what Python's
/// optimizer gives. Only for `.cc` files.

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "harpe/zeus/tuning/job_tuning.h"

namespace harpe::zeus {

nlohmann::ordered_json tuning_json(const TuningReport& report);

/// "energy", "time", "cost".
std::string selector_name(Selector::Kind kind);
/// Whether a step was measured under it.
bool is_measured(const TuningResult& result, std::size_t setting);
/// Of a step under the setting chosen against the highest, a fraction; none where either was not
/// measured.
std::optional<double> slowdown_of(const TuningResult& result);

}  // namespace harpe::zeus
