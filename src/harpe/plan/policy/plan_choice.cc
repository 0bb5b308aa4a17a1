#include "harpe/plan/policy/plan_choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>

#include "harpe/base/text.h"

namespace harpe::plan {
namespace {

/// Returns `value` rounded up to five digits, so that a user can request it.
std::string rounded_up(double value) {
  const double scale = std::pow(10, 5 - std::ceil(std::log10(value)));
  return shortest(std::ceil(value * scale) / scale);
}

/// Returns the longest time of a pipeline under its objective; nullopt if that does not
/// limit the time.
std::optional<Seconds> pipeline_time(const PlanTable& plans, const Objective& objective) {
  return time_of(objective, {plans.plans().front().time, plans.all_max().time});
}

/// \param objective  of one pipeline
std::size_t objective_plan(const PlanTable& plans, const Objective& objective) {
  if (plans.objective() == objective)
    if (const auto made = plans.for_objective()) return *made;
  if (const auto time = pipeline_time(plans, objective))
    return objective.is_straggler() ? plans.for_waiting_until(*time) : plans.for_deadline(*time);
  switch (objective.kind) {
    case Objective::Kind::kPowerCap:
      return plans.for_power_cap(Watts{objective.value});
    case Objective::Kind::kLeastEnergy:
    case Objective::Kind::kSlowdown:
    case Objective::Kind::kDeadline:
    case Objective::Kind::kStragglerTime:
    case Objective::Kind::kStragglerFactor:
      break;  // objectives of time are handled above
  }
  return plans.of_least_energy();
}

double slowest(const SlowPipeline& slow) {
  return slow.factors.empty() ? 1 : *std::ranges::max_element(slow.factors);
}

/// Returns T_p: the time at all-max, or with the fastest shared plan if that is faster and fits. A
/// declared delay outside the computations is added to the time at all-max.
Seconds least_time(const SlowPipeline& slow, const PlanTable& shared) {
  constexpr double kSame = 1 - 1e-9;
  const Seconds by_plan = shared.plans().front().time * slowest(slow);
  const bool fits = is_uniform(slow) && slow.outside <= Seconds{0};
  return fits && by_plan < slow.fastest * kSame ? by_plan : slow.least_time();
}

/// Returns the plan of least energy that ends by `until`; all-max if none does, or if the pipeline
/// must run at all-max.
PlanRef plan_of(const SlowPipeline& slow, const PlanTable& shared, Seconds until) {
  constexpr double kRounding = 1 + 1e-9;
  const auto in = [&](const PlanTable& table, Seconds time, PlanRef::From from) {
    return PlanRef{from, static_cast<std::uint32_t>(table.for_waiting_until(time * kRounding))};
  };
  const auto has = [&](const PlanTable& table, Seconds time) {
    return table.plans().front().time <= time * kRounding;
  };
  if (!slow.settled || slow.at_all_max) return {.from = PlanRef::From::kAllMax};
  if (slow.own != nullptr && has(*slow.own, until))
    return in(*slow.own, until, PlanRef::From::kOwn);
  if (is_uniform(slow)) {
    const Seconds of_shared = until / slowest(slow);
    if (has(shared, of_shared)) return in(shared, of_shared, PlanRef::From::kShared);
  }
  return {.from = PlanRef::From::kAllMax};
}

}  // namespace

bool is_uniform(const SlowPipeline& slow) {
  return std::ranges::adjacent_find(slow.factors, std::not_equal_to()) == slow.factors.end();
}

Seconds end_of_computations(const SlowPipeline& slow, Seconds wait_until, Seconds overhead) {
  const Seconds seen = wait_until - slow.outside;
  // Rounded up to steps: plans are made for this time, and every measurement moves the
  // overhead a little.
  const Seconds step = slow.fastest * 0.01;
  const double steps = std::ceil(std::clamp(slow.doubted, Seconds{0}, overhead) / step - 1e-6);
  const Seconds hidden = std::min(step * steps, std::max(slow.doubted, Seconds{0}));
  return std::min(seen, std::max(slow.fastest, seen - hidden));
}

Objective of_one_pipeline(Objective objective, Seconds overhead, int pipelines) {
  if (objective.kind == Objective::Kind::kDeadline) objective.value -= overhead.value;
  if (objective.is_cap()) objective.value /= pipelines;
  return objective;
}

PlanChoice choose_plans(const PlanTable& plans, const Objective& objective, Seconds overhead,
                        int pipelines, std::span<const SlowPipeline> slow) {
  const Objective of_pipeline = of_one_pipeline(objective, overhead, pipelines);
  const std::size_t by_objective = objective_plan(plans, of_pipeline);
  const bool capped = objective.is_cap();
  PlanChoice choice;
  choice.objective_time = choice.wait_until = plans.plans()[by_objective].time;
  if (objective.is_straggler())
    choice.wait_until = std::max(choice.wait_until, *pipeline_time(plans, of_pipeline));
  for (const SlowPipeline& one : slow) {
    if (!one.settled && one.outside <= Seconds{0}) continue;
    const Seconds least =
        capped ? choice.objective_time * slowest(one) + one.outside : least_time(one, plans);
    choice.wait_until = std::max(choice.wait_until, least);
  }

  // A profile has the slowest time of each stage. If the costs of all pipelines are known, they may
  // all be faster than it.
  const bool all_known = slow.size() == static_cast<std::size_t>(pipelines) &&
                         std::ranges::all_of(slow, &SlowPipeline::settled);
  if (all_known && objective.kind == Objective::Kind::kSlowdown) {
    Seconds longest{0};
    for (const SlowPipeline& one : slow) longest = std::max(longest, least_time(one, plans));
    const double share = longest / plans.plans().front().time;
    if (share < 1) choice.wait_until = choice.objective_time = choice.objective_time * share;
  }

  const bool waits = choice.wait_until > choice.objective_time;
  const auto healthy =
      static_cast<std::uint32_t>(waits ? plans.for_waiting_until(choice.wait_until) : by_objective);
  choice.plan_of.assign(static_cast<std::size_t>(pipelines), {PlanRef::From::kShared, healthy});
  for (const SlowPipeline& one : slow) {
    const Seconds until = end_of_computations(one, choice.wait_until, overhead);
    PlanRef& chosen = choice.plan_of[static_cast<std::size_t>(one.pipeline)];
    chosen = plan_of(one, plans, until);
    if (!capped) continue;
    const std::size_t own = plans.for_waiting_until(until / slowest(one));
    chosen = {PlanRef::From::kShared, static_cast<std::uint32_t>(std::max(own, by_objective))};
  }
  return choice;
}

Status check_objective(const PlanTable& plans, const Objective& objective, Seconds overhead,
                       int pipelines) {
  const Seconds fastest = plans.plans().front().time;
  switch (objective.kind) {
    case Objective::Kind::kStragglerTime:
    case Objective::Kind::kStragglerFactor: {
      const Seconds straggler = *pipeline_time(plans, objective);
      if (straggler >= fastest) return ok_status();
      return Error::infeasible("a straggler that takes " + shortest(straggler.value) +
                               " s is faster than the fastest plan, which takes " +
                               rounded_up(fastest.value) + " s");
    }
    case Objective::Kind::kDeadline: {
      const Seconds possible = fastest + overhead;
      if (Seconds{objective.value} >= possible) return ok_status();
      return Error::infeasible("no plan ends within " + shortest(objective.value) +
                               " s; the fastest takes " + rounded_up(possible.value) + " s");
    }
    case Objective::Kind::kPowerCap: {
      const TablePlan& slowest = plans.plans().back();
      const Watts possible = slowest.energy / slowest.time * pipelines;
      if (Watts{objective.value} >= possible) return ok_status();
      return Error::infeasible("no plan draws as little as " + shortest(objective.value) +
                               " W; the least is " + rounded_up(possible.value) + " W");
    }
    case Objective::Kind::kSlowdown:
    case Objective::Kind::kLeastEnergy:
      break;  // every table has a plan for them
  }
  return ok_status();
}

}  // namespace harpe::plan
