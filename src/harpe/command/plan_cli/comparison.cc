#include "harpe/command/plan_cli/comparison.h"

#include <algorithm>
#include <utility>

#include "harpe/command/command/on_all_processors.h"

namespace harpe::command {
namespace {

/// Returns the first sentence of an error, and the number of others.
std::string why(const Error& error) {
  if (error.diagnostics.empty()) return "unknown";
  std::string text = error.diagnostics.front().message;
  const std::size_t more = error.diagnostics.size() - 1;
  if (more > 0) text += " (and " + std::to_string(more) + " more)";
  return text;
}

Result<PlanJob> with_schedule(PlanJob job, const std::string& name) {
  const auto key = std::ranges::find(job_keys(), "schedule", &JobKey::name);
  const std::vector<std::string> value = {name};
  HARPE_TRY(key->set(job, value));
  return job;
}

/// A schedule between the two passes: the second needs the fastest time of the first.
struct Candidate {
  ScheduleRow row;
  std::optional<Frontier> frontier;
};

Result<Frontier> price(const PlanJob& job, const Profile& profile, ScheduleRow& row) {
  const PlanJob mine = HARPE_TRY(with_schedule(job, row.name));
  const PlanInputs inputs = HARPE_TRY(inputs_of(mine, profile));
  row.premises = inputs.premises;
  const std::vector<int> peaks = inputs.pipeline.peak_activations();
  row.peak_activations = peaks.empty() ? 0 : std::ranges::max(peaks);
  const Schedule& schedule = inputs.pipeline.schedule();
  row.recomputes = std::ranges::any_of(schedule.lists, [](const auto& list) {
    return std::ranges::any_of(list, [](const Instruction& instruction) {
      return instruction.kind == InstructionKind::kRecompute ||
             instruction.kind == InstructionKind::kRecomputeBackward;
    });
  });
  row.chunks = std::max(1, schedule.chunks() / std::max(1, schedule.copies));
  return characterize(inputs.pipeline, inputs.profile,
                      {.blocking_power = inputs.blocking_power,
                       .gpus_per_stage = job.gpus_per_stage,
                       .job = job.name});
}

Status plan_fastest(const PlanJob& job, const Profile& profile, Candidate& candidate) {
  ScheduleRow& row = candidate.row;
  candidate.frontier = HARPE_TRY(price(job, profile, row));
  const PlanOptions options = options_of(job, candidate.frontier->profile());
  row.all_max = cost_of(candidate.frontier->all_max(options));
  row.fastest = cost_of(HARPE_TRY(candidate.frontier->fastest_plan(options)));
  return ok_status();
}

/// Relative difference between the times of two frontiers that is only rounding.
constexpr double kSameTime = 1e-9;

/// Returns the priced schedule with the least time, and among equally fast ones with the least
/// energy; null if none is priced.
const Candidate* fastest_of(const std::vector<Candidate>& candidates) {
  const Candidate* fastest = nullptr;
  for (const Candidate& candidate : candidates) {
    if (!candidate.row.is_priced()) continue;
    const carbon::IterationCost& cost = candidate.row.fastest;
    if (fastest != nullptr) {
      const carbon::IterationCost& best = fastest->row.fastest;
      const bool is_slower = cost.time > best.time * (1 + kSameTime);
      const bool is_as_fast = cost.time >= best.time * (1 - kSameTime);
      if (is_slower || (is_as_fast && cost.energy >= best.energy)) continue;
    }
    fastest = &candidate;
  }
  return fastest;
}

/// Returns the cost of the plan that ends by `deadline`; nullopt if there is none.
std::optional<carbon::IterationCost> plan_by(const Candidate& candidate, Seconds deadline,
                                             const PlanOptions& options) {
  const carbon::IterationCost& fastest = candidate.row.fastest;
  if (fastest.time >= deadline * (1 - kSameTime))
    return fastest.time <= deadline * (1 + kSameTime) ? std::optional(fastest) : std::nullopt;
  const Result<Plan> plan = candidate.frontier->plan(deadline, options);
  if (!plan.ok()) return std::nullopt;
  return cost_of(*plan);
}

}  // namespace

Seconds seconds_since(std::chrono::steady_clock::time_point start) {
  return {std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()};
}

carbon::IterationCost cost_of(const Plan& plan) {
  return {plan.iteration_time, plan.iteration_energy};
}

ScheduleComparison compare_schedules(const PlanJob& job, const Profile& profile, Seconds own_time,
                                     const std::vector<std::string>& names,
                                     const Progress& progress) {
  std::vector<Candidate> candidates;
  for (const std::string& name : names)
    candidates.push_back({.row = {.name = name}, .frontier = {}});
  on_all_processors(
      names.size(),
      [&](std::size_t i) {
        const Status status = plan_fastest(job, profile, candidates[i]);
        if (!status.ok()) candidates[i].row.why_not = why(status.error());
      },
      [&](double share) { progress(share / 2); });

  ScheduleComparison comparison{.own_time = own_time};
  if (const Candidate* fastest = fastest_of(candidates)) {
    comparison.fastest = fastest->row.name;
    comparison.fastest_time = fastest->row.fastest.time;
  }
  on_all_processors(
      names.size(),
      [&](std::size_t i) {
        Candidate& candidate = candidates[i];
        if (candidate.row.is_priced()) {
          const PlanOptions options = options_of(job, candidate.frontier->profile());
          candidate.row.at_fastest = plan_by(candidate, comparison.fastest_time, options);
          candidate.row.at_own = plan_by(candidate, comparison.own_time, options);
        }
        candidate.frontier.reset();
      },
      [&](double share) { progress(0.5 + share / 2); });
  for (Candidate& candidate : candidates) comparison.rows.push_back(std::move(candidate.row));
  return comparison;
}

}  // namespace harpe::command
