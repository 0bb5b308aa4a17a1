#include "harpe/plan_cli/comparison.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/base/text.h"
#include "harpe/baseline/at_objective.h"
#include "harpe/plan_cli/rivals.h"
#include "harpe/policy/plan_for.h"

namespace harpe {
namespace {

IterationCost cost_of(const Plan& plan) {
  return {plan.iteration_time, plan.iteration_energy};
}

/// The first sentence of an error, and how many more there are.
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

/// Calls `work(i)` for each i below `count` on as many threads as there are processors. The calls
/// report no errors.
template <class Work>
void on_all_processors(std::size_t count, const Work& work) {
  std::atomic<std::size_t> next = 0;
  const auto loop = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  const std::size_t processors = std::max(1U, std::thread::hardware_concurrency());
  std::vector<std::jthread> threads;
  for (std::size_t i = 1; i < std::min(count, processors); ++i) threads.emplace_back(loop);
  loop();
}

/// A schedule on its way through both passes: the second needs the fastest time of the first.
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
  const PlanOptions options = options_of(job);
  row.all_max = cost_of(candidate.frontier->all_max(options));
  row.fastest = cost_of(HARPE_TRY(candidate.frontier->fastest_plan(options)));
  return ok_status();
}

/// The plan that ends by `deadline`; nullopt if there is none.
std::optional<IterationCost> plan_by(const Candidate& candidate, Seconds deadline,
                                     const PlanOptions& options) {
  // Times of two frontiers may differ in their last digits.
  constexpr double kSame = 1e-9;
  const IterationCost& fastest = candidate.row.fastest;
  if (fastest.time >= deadline * (1 - kSame))
    return fastest.time <= deadline * (1 + kSame) ? std::optional(fastest) : std::nullopt;
  const Result<Plan> plan = candidate.frontier->plan(deadline, options);
  if (!plan.ok()) return std::nullopt;
  return cost_of(*plan);
}

std::vector<IterationCost> curve_of(const std::vector<OneSettingPoint>& points) {
  std::vector<IterationCost> curve;
  for (const OneSettingPoint& point : points)
    curve.push_back({point.iteration_time, point.iteration_energy});
  return curve;
}

PolicyRow rival_row(const std::string& policy, const PlanJob& job, const Planned& planned,
                    const ReferenceTimes& reference) {
  PolicyRow row{.policy = policy};
  const auto rival = std::ranges::find(planned.rivals, policy, &NamedRivals::name);
  if (rival == planned.rivals.end()) {
    row.why_not = policy == "one clock"
                      ? "the profile has no clock that was measured for every computation"
                  : job.gpu == nullptr
                      ? "the profile has no rows for power limits: --gpu MODEL compares by a model "
                        "(harpe synth --list)"
                      : "the profile has no clocks as low as a power limit of this GPU asks for";
    return row;
  }
  const auto found = at_objective(rival->curve, job.objective, reference);
  row.source = rival->source;
  row.setting = setting_text(found->point);  // a rival's curve has points
  row.cost = {found->point.iteration_time, found->point.iteration_energy};
  row.meets_objective = found->meets_it;
  row.curve = curve_of(rival->curve);
  return row;
}

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> kNames = {"all-max", "one clock", "one power limit",
                                                  "harpe"};
  return kNames;
}

ScheduleComparison compare_schedules(const PlanJob& job, const Profile& profile, Seconds own_time,
                                     const std::vector<std::string>& names,
                                     const Progress& progress) {
  const PlanOptions options = options_of(job);
  std::vector<Candidate> candidates;
  for (const std::string& name : names)
    candidates.push_back({.row = {.name = name}, .frontier = {}});
  Mutex lock;
  std::size_t done = 0;
  const auto report = [&] {
    const MutexLock guard(lock);
    progress(static_cast<double>(++done) / static_cast<double>(2 * names.size()));
  };
  on_all_processors(names.size(), [&](std::size_t i) {
    const Status status = plan_fastest(job, profile, candidates[i]);
    if (!status.ok()) candidates[i].row.why_not = why(status.error());
    report();
  });

  ScheduleComparison comparison{.own_time = own_time};
  Joules fastest_energy{0};
  for (const Candidate& candidate : candidates) {
    if (!candidate.row.is_priced()) continue;
    const IterationCost& cost = candidate.row.fastest;
    if (!comparison.fastest.empty()) {
      // Times that differ by rounding alone are the same: then the one of less energy counts.
      constexpr double kSame = 1e-9;
      const bool is_slower = cost.time > comparison.fastest_time * (1 + kSame);
      const bool is_as_fast = cost.time >= comparison.fastest_time * (1 - kSame);
      if (is_slower || (is_as_fast && cost.energy >= fastest_energy)) continue;
    }
    comparison.fastest = candidate.row.name;
    comparison.fastest_time = cost.time;
    fastest_energy = cost.energy;
  }
  on_all_processors(names.size(), [&](std::size_t i) {
    Candidate& candidate = candidates[i];
    if (candidate.row.is_priced()) {
      candidate.row.at_fastest = plan_by(candidate, comparison.fastest_time, options);
      candidate.row.at_own = plan_by(candidate, comparison.own_time, options);
    }
    candidate.frontier.reset();
    report();
  });
  for (Candidate& candidate : candidates) comparison.rows.push_back(std::move(candidate.row));
  return comparison;
}

std::vector<PolicyRow> compare_policies(const Frontier& frontier, const PlanJob& job,
                                        const Planned& planned,
                                        const std::vector<std::string>& policies) {
  // Not `planned.all_max`, which may wait for a straggler already.
  const PlanOptions options = options_of(job);
  const ReferenceTimes reference =
      reference_times(frontier, planned.fastest, frontier.all_max(options), options);
  std::vector<PolicyRow> rows;
  for (const std::string& policy : policies) {
    if (policy == "all-max") {
      rows.push_back({.policy = policy,
                      .source = "profile",
                      .cost = cost_of(planned.all_max),
                      .curve = {cost_of(planned.all_max)}});
    } else if (policy == "harpe") {
      PolicyRow row{.policy = policy, .source = "profile", .cost = cost_of(planned.chosen)};
      for (const Plan& plan : planned.along) row.curve.push_back(cost_of(plan));
      rows.push_back(std::move(row));
    } else {
      rows.push_back(rival_row(policy, job, planned, reference));
    }
  }
  return rows;
}

}  // namespace harpe
