// Plans of pipelines that are small enough for branch and bound, see branch_and_bound.h.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/branch_and_bound.h"
#include "harpe/plan/frontier/frontier_data.h"

namespace harpe {
namespace {

constexpr int kMostComputations = 18;
// At most about 200 and 10 ms. Random pipelines need 100 steps on average, measured ones up to
// 80,000 by a deadline. Some with a dwell or without a deadline are not complete after a million.
constexpr std::int64_t kSteps = 400'000, kQuickSteps = 20'000;

/// Returns watts per GPU as cost units per picosecond.
double per_picosecond(const plan::Problem& problem, Watts power) {
  return power * Seconds{1e-12} / problem.cost_unit;
}

using Flow = std::vector<double>;

Flow flow_of(const std::vector<std::int64_t>& arcs) {
  return {arcs.begin(), arcs.end()};
}

/// Returns `share` of the first flow plus the rest of the second.
Flow mean(const plan::flow::State& a, const plan::flow::State& b, double share) {
  Flow flow;
  for (std::size_t i = 0; i < a.flow.size(); ++i) {
    flow.push_back(share * static_cast<double>(a.flow[i]) +
                   (1 - share) * static_cast<double>(b.flow[i]));
  }
  return flow;
}

/// Returns flows of relaxed optima at shares of a time, and one for plans of least energy: the mean
/// of the optima on both sides of that time whose value is the blocking power of all GPUs. Only
/// with that value is a bound of cost and waiting independent of the end of the iteration.
std::vector<Flow> flows_for(const Frontier::Data& data, Seconds time,
                            std::initializer_list<double> shares, const PlanOptions& options) {
  std::vector<Flow> flows;
  if (options.switch_latency.longest() > Seconds{0}) {
    const plan::LateCosts costs(data.problem, options.switch_latency);
    if (const auto proof = data.climbed_bound(costs, time).proof())
      flows.push_back(flow_of(proof->flow));
  }
  const double waiting = data.problem.total_blocking_power() / data.problem.flow_unit;
  const std::int64_t least = data.horizon(data.least_energy_time);
  std::vector<std::int64_t> horizons{least, std::max(least - 1, data.curve.shortest)};
  const auto around = data.curve.at(data.problem.network, horizons);
  const auto slow = static_cast<double>(around.front().value);
  const auto fast = static_cast<double>(around.back().value);
  if (fast > slow)
    flows.push_back(mean(around.back(), around.front(),
                         std::clamp((waiting - slow) / (fast - slow), 0.0, 1.0)));
  horizons.clear();
  for (const double share : shares) horizons.push_back(data.horizon(time * share));
  std::ranges::sort(horizons, std::greater());
  horizons.erase(std::unique(horizons.begin(), horizons.end()), horizons.end());
  for (const plan::flow::State& state : data.curve.at(data.problem.network, horizons))
    flows.push_back(flow_of(state.flow));
  return flows;
}

}  // namespace

bool Frontier::Data::is_small() const {
  return std::ranges::count_if(problem.pipeline.nodes(), [](const PipelineNode& node) {
           return node.stage >= 0 && !is_fixed_time(node.instruction.kind);
         }) <= kMostComputations;
}

Result<Plan> Frontier::Data::best_of_small(const PlanSearch& search, plan::BranchTask task,
                                           const PlanOptions& options) const {
  const plan::PointCosts costs(layout, options.switch_latency);
  plan::SwitchingSearch switching(costs, options.min_dwell);
  task.most_steps = options.effort == Effort::kQuick ? kQuickSteps : kSteps;
  const plan::BranchAnswer answer = plan::branch_and_bound(switching, task);
  // After a complete answer, a search adds little, but its error states the best time or power.
  PlanOptions beside = options;
  if (answer.is_complete) beside.effort = Effort::kQuick;
  if (answer.choices.empty()) return search(beside);
  Plan best = plan_of(costs.points(answer.choices), costs.changes(answer.choices));
  if (answer.is_proven) return best;
  Result<Plan> found = search(beside);
  if (!found.ok()) return best;
  const auto rank = [&](const Plan& plan) {
    const bool is_least = task.aim == plan::BranchTask::Aim::kLeast;
    const Seconds time = plan.iteration_time;
    const double cost = effective_energy(plan) / problem.cost_unit;
    return std::pair(is_least ? 0.0 : time.value, cost + task.waiting * time.value * 1e12);
  };
  return rank(*found) < rank(best) ? *std::move(found) : std::move(best);
}

Result<Plan> Frontier::Data::least_of_small(const PlanSearch& search, Seconds deadline, bool waits,
                                            const PlanOptions& options) const {
  const Seconds near = waits ? deadline : std::min(deadline, least_energy_time);
  plan::BranchTask task{.deadline = picoseconds(deadline),
                        .flows = flows_for(*this, near, {1.0, 0.99, 0.97, 0.93}, options)};
  if (!waits) task.waiting = per_picosecond(problem, problem.total_blocking_power());
  return best_of_small(search, std::move(task), options);
}

Result<Plan> Frontier::Data::fastest_of_small(const PlanSearch& search,
                                              std::optional<Watts> most_power, Seconds near,
                                              const PlanOptions& options) const {
  plan::BranchTask task{.aim = plan::BranchTask::Aim::kFastest,
                        .flows = flows_for(*this, near, {1.02, 1.005, 1, 0.99}, options)};
  if (most_power) {
    const Watts left = *most_power / problem.gpus_per_stage - problem.total_blocking_power();
    // Reduced by more than rounding errors, so that the power of the plan is not above the cap.
    task.most_power = per_picosecond(problem, left) * (1 - 1e-13);
  }
  return best_of_small(search, std::move(task), options);
}

}  // namespace harpe
