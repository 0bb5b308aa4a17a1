#pragma once
/// \file
/// The measurements of a job in its snapshot. Only for `.cc` files.

#include <cstddef>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/base/json.h"
#include "harpe/base/json_text.h"
#include "harpe/plan/schedule/schedule_work.h"
#include "harpe/training/job/all_max_baseline.h"
#include "harpe/training/job/observation.h"
#include "harpe/training/job/profiler.h"
#include "harpe/training/job/savings.h"

namespace harpe::training {

nlohmann::ordered_json measured_json(const std::vector<std::vector<MeasuredClock>>& measured);
std::vector<std::vector<MeasuredClock>> read_measured(const JsonValue* value,
                                                      Diagnostics& diagnostics,
                                                      const plan::ScheduleWork& work);

/// The state of profiling that will be continued later.
nlohmann::ordered_json kept_json(const Profiler::Kept& kept);
Profiler::Kept read_kept(const JsonValue& object, Diagnostics& diagnostics,
                         const plan::ScheduleWork& work);

nlohmann::ordered_json baseline_json(const AllMaxBaseline& baseline);
/// Reads a baseline. Values that an older version did not write are measured again.
void read_baseline(const JsonValue& object, Diagnostics& diagnostics, std::size_t stages,
                   AllMaxBaseline& baseline);

nlohmann::ordered_json savings_json(const Savings& savings);
/// Reads savings, also those that an older version wrote, which had no level.
void read_savings(Fields& fields, Diagnostics& diagnostics, Savings& savings);

/// The observation of a job and the estimate made from it.
nlohmann::ordered_json observation_json(const Observation& observation,
                                        const EstimatedSaving& estimate);
void read_observation(const JsonValue& object, Diagnostics& diagnostics, Observation& observation,
                      EstimatedSaving& estimate);

}  // namespace harpe::training
