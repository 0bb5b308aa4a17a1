#include <algorithm>
#include <chrono>
#include <utility>

#include "harpe/command/plan_cli/comparison.h"
#include "harpe/command/plan_cli/rivals.h"
#include "harpe/plan/baseline/at_objective.h"
#include "harpe/plan/baseline/balanced_stages.h"
#include "harpe/plan/baseline/envpipe.h"
#include "harpe/plan/baseline/perseus_frontier.h"

namespace harpe::command {
namespace {

std::vector<carbon::IterationCost> curve_of(const std::vector<OneSettingPoint>& points) {
  std::vector<carbon::IterationCost> curve;
  for (const OneSettingPoint& point : points)
    curve.push_back({point.iteration_time, point.iteration_energy});
  return curve;
}

PolicyRow rival_row(const std::string& policy, const PlanJob& job, const Planned& planned) {
  PolicyRow row{.policy = policy};
  const auto rival = std::ranges::find(planned.rivals, policy, &NamedRivals::name);
  if (rival == planned.rivals.end()) {
    row.why_not = policy == "one clock"
                      ? "the profile has no clock that was measured for every computation"
                  : job.gpu == nullptr
                      ? "the profile has no rows for power limits: --gpu MODEL estimates them with "
                        "a model (harpe synth --list)"
                      : "the profile has no clocks as low as the power limits of this GPU require";
    return row;
  }
  const auto found = plan::at_objective(rival->curve, job.objective, planned.reference);
  row.source = rival->source;
  row.setting = setting_text(found->point);  // has a value: a rival's curve has points
  row.cost = {found->point.iteration_time, found->point.iteration_energy};
  row.meets_objective = found->meets_it;
  row.curve = curve_of(rival->curve);
  return row;
}

// --- Published policies -------------------------------------------------------------------------

/// The inputs for pricing the plans of a policy that chooses clocks.
struct Pricing {
  const PlanJob& job;
  const Frontier& frontier;
  const Planned& planned;
  PlanOptions options;
  Seconds harpe_time;
};

/// Returns the plans that no other plan beats, fastest first, with the wait for a straggler.
std::vector<OneSettingPoint> curve_of(const std::vector<Plan>& plans, const Pricing& pricing) {
  std::vector<OneSettingPoint> points;
  for (const Plan& plan : plans)
    points.push_back({.setting = {},
                      .iteration_time = plan.iteration_time,
                      .iteration_energy = plan.iteration_energy});
  return plan::best_points(std::move(points), wait_of(pricing.planned));
}

/// Returns plans evenly along the published frontier, and the plan for the job's deadline.
Result<std::vector<Plan>> perseus_plans(const Pricing& pricing, PolicyRow& row) {
  constexpr std::size_t kPlans = 25;
  const plan::PerseusFrontier published = HARPE_TRY(plan::PerseusFrontier::find(pricing.frontier));
  const std::size_t last = published.points().size() - 1;
  std::vector<Plan> plans;
  for (std::size_t i = 0; i < kPlans; ++i)
    plans.push_back(HARPE_TRY(published.plan(i * last / (kPlans - 1), pricing.options)));
  const plan::PerseusFrontier::Point& fastest = published.points().back();
  row.planned = {fastest.planned_time, fastest.planned_energy};
  row.planned_cost = cost_of(plans.back());
  const auto deadline = pricing.job.objective.is_straggler()
                            ? std::optional(pricing.planned.waits_until)
                            : time_of(pricing.job.objective, pricing.planned.reference);
  if (deadline) plans.push_back(HARPE_TRY(published.plan_by(*deadline, pricing.options)));
  return plans;
}

Result<std::vector<Plan>> plans_of(const Pricing& pricing, PolicyRow& row) {
  if (row.policy == "one clock per stage")
    return plan::balanced_stages(pricing.frontier, pricing.options);
  if (row.policy == "perseus") return perseus_plans(pricing, row);
  std::vector<Plan> plans;
  plans.push_back(HARPE_TRY(plan::envpipe_plan(
      pricing.frontier,
      row.policy == "envpipe" ? plan::EnvPipeForm::kPublished : plan::EnvPipeForm::kEmulated,
      pricing.options)));
  return plans;
}

PolicyRow published_row(const std::string& policy, const Pricing& pricing) {
  PolicyRow row{.policy = policy, .source = "profile"};
  const auto start = std::chrono::steady_clock::now();
  const Result<std::vector<Plan>> plans = plans_of(pricing, row);
  row.computing_time = seconds_since(start);
  if (!plans.ok()) {
    row.why_not = plans.error().diagnostics.front().message;
    return row;
  }
  const std::vector<OneSettingPoint> curve = curve_of(*plans, pricing);
  const auto found = plan::at_objective(curve, pricing.job.objective, pricing.planned.reference);
  row.cost = {found->point.iteration_time, found->point.iteration_energy};  // there are plans
  row.meets_objective = found->meets_it;
  row.curve = curve_of(curve);
  return row;
}

PolicyRow row_of(const std::string& policy, const Pricing& pricing) {
  const Planned& planned = pricing.planned;
  if (policy == "all-max")
    return {.policy = policy,
            .source = "profile",
            .cost = cost_of(planned.all_max),
            .curve = {cost_of(planned.all_max)}};
  if (policy == "harpe") {
    PolicyRow row{.policy = policy, .source = "profile", .cost = cost_of(planned.chosen)};
    row.computing_time = pricing.harpe_time;
    for (const Plan& plan : planned.along) row.curve.push_back(cost_of(plan));
    return row;
  }
  if (policy == "one clock" || policy == "one power limit")
    return rival_row(policy, pricing.job, planned);
  return published_row(policy, pricing);
}

}  // namespace

const std::vector<std::string>& policy_names() {
  static const std::vector<std::string> kNames = {
      "all-max", "one clock",        "one power limit", "one clock per stage",
      "envpipe", "envpipe emulated", "perseus",         "harpe"};
  return kNames;
}

std::vector<PolicyRow> compare_policies(const PlanJob& job, const Frontier& frontier,
                                        const Planned& planned,
                                        const std::vector<std::string>& policies,
                                        Seconds harpe_time) {
  const Pricing pricing{.job = job,
                        .frontier = frontier,
                        .planned = planned,
                        .options = options_of(job, frontier.profile()),
                        .harpe_time = harpe_time};
  std::vector<PolicyRow> rows;
  for (const std::string& policy : policies) {
    PolicyRow row = row_of(policy, pricing);
    if (row.why_not.empty() && row.cost.time >= frontier.min_time())
      row.lower_bound = frontier.lower_bound(row.cost.time);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<std::string> add_published_rivals(const PlanJob& job, const Frontier& frontier,
                                              Planned& planned) {
  std::vector<std::string> missing;
  const std::vector<PolicyRow> rows = compare_policies(
      job, frontier, planned, {"one clock per stage", "envpipe", "perseus"}, Seconds{0});
  for (const PolicyRow& row : rows) {
    const std::string name = row.policy == "envpipe"   ? "EnvPipe"
                             : row.policy == "perseus" ? "Perseus"
                                                       : row.policy;
    if (!row.why_not.empty()) {
      missing.push_back(name + ": " + row.why_not);
      continue;
    }
    NamedRivals rival{.name = name, .source = row.source, .curve = {}, .rivals = {}};
    for (const carbon::IterationCost& cost : row.curve)
      rival.curve.push_back(
          {.setting = {}, .iteration_time = cost.time, .iteration_energy = cost.energy});
    rival.rivals =
        plan::rivals_of(rival.curve, planned.chosen.iteration_time, planned.chosen.iteration_energy,
                        planned.all_max.iteration_energy);
    planned.rivals.push_back(std::move(rival));
  }
  return missing;
}

}  // namespace harpe::command
