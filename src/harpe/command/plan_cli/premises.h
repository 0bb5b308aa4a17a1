#pragma once
/// \file
/// The premises of a plan: the work, the machine, and the facts that only the plan states. `harpe
/// verify` prints them, so that a reader sees what was proven of which inputs, and refuses a plan
/// that is not the requested one.

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/command/command/json_output.h"
#include "harpe/command/plan_cli/plan_job.h"
#include "harpe/plan/frontier/verify.h"

namespace harpe::command {

/// Returns the latency as JSON: seconds, or by clock a list of `frequency_mhz` and `latency_s`.
Json latency_json(const LatencyByClock& latency);
/// Returns the path of the table that a latency was read from; null if there is none.
Json latency_table_json(const GivenLatency& given);

/// Returns "schedule 1f1b: 8 stages, 96 micro-batches, 1 chunk; ...": a few lines, each indented.
/// \param certificate  may be null; then the switch latency is unknown
std::string premises_text(const Plan& plan, const Certificate* certificate,
                          const Verification& found);
/// Returns the premises as an object: schedule, stages, micro_batches, chunks, gpus_per_stage,
/// blocking_power_w, transfers, load_s, reduce_s, optimizer_s (lists, one value per stage),
/// switch_latency_s (null if unknown), taken_from_plan.
Json premises_json(const Plan& plan, const Certificate* certificate, const Verification& found);

/// Returns the differences between the plan and the request, one sentence each.
/// \param schedule  that the plan follows
/// \param keys      of `job` that were given (`JobKey::name`); others are not compared
std::vector<std::string> differences(const Plan& plan, const Certificate* certificate,
                                     const Schedule& schedule, const PlanJob& job,
                                     const std::set<std::string_view>& keys);

}  // namespace harpe::command
