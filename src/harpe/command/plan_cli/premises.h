#pragma once
/// \file
/// What a plan takes for granted: the work, the machine, and what the plan alone states. `harpe
/// verify` prints it, so that a reader sees what was proven of what, and refuses a plan that is not
/// the one that was asked for.

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

/// "schedule 1f1b: 8 stages, 96 micro-batches, 1 chunk; ...": a few lines, each indented.
/// \param certificate  may be null; then nothing is known of the switch latency
std::string premises_text(const Plan& plan, const Certificate* certificate,
                          const Verification& found);
/// The same as an object: schedule, stages, micro_batches, chunks, gpus_per_stage,
/// blocking_power_w, transfers, load_s, reduce_s, optimizer_s (lists, one a stage),
/// switch_latency_s (null if not known), taken_from_plan.
Json premises_json(const Plan& plan, const Certificate* certificate, const Verification& found);

/// How the plan differs from what it should be, one sentence each.
/// \param keys  of `job` that were given (`JobKey::name`); others are not compared
/// \param schedule  that the plan follows
std::vector<std::string> differences(const Plan& plan, const Certificate* certificate,
                                     const Schedule& schedule, const PlanJob& job,
                                     const std::set<std::string_view>& keys);

}  // namespace harpe::command
