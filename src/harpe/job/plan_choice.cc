#include "harpe/job/plan_choice.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "harpe/base/text.h"

namespace harpe {
namespace {

/// With five digits, which can be asked for.
std::string rounded_up(double value) {
  const double scale = std::pow(10, 5 - std::ceil(std::log10(value)));
  return shortest(std::ceil(value * scale) / scale);
}

std::size_t wished_plan(const PlanTable& plans, const Wish& wish, Seconds overhead, int pipelines) {
  switch (wish.kind) {
    case Wish::Kind::kSlowdown:
      return plans.for_deadline(plans.all_max().time * (1 + wish.value));
    case Wish::Kind::kDeadline:
      return plans.for_deadline(Seconds{wish.value} - overhead);
    case Wish::Kind::kPowerCap:
      return plans.for_power_cap(Watts{wish.value} / pipelines);
    case Wish::Kind::kLeastEnergy:
      break;
  }
  return plans.of_least_energy();
}

}  // namespace

PlanChoice choose_plans(const PlanTable& plans, const Wish& wish, Seconds overhead, int pipelines,
                        std::span<const Straggler> stragglers) {
  const std::size_t wished = wished_plan(plans, wish, overhead, pipelines);
  PlanChoice choice;
  choice.wished = choice.wait_until = plans.plans()[wished].time;
  const Seconds fastest = plans.plans().front().time;
  for (const Straggler& straggler : stragglers)
    choice.wait_until = std::max(choice.wait_until, fastest * straggler.factor);

  const bool waits = choice.wait_until > choice.wished;
  const std::size_t healthy = waits ? plans.for_waiting_until(choice.wait_until) : wished;
  choice.plan_of.assign(static_cast<std::size_t>(pipelines), static_cast<std::uint32_t>(healthy));
  for (const Straggler& straggler : stragglers) {
    std::size_t plan = plans.for_waiting_until(choice.wait_until / straggler.factor);
    // A cap on power holds for stragglers too.
    if (wish.kind == Wish::Kind::kPowerCap) plan = std::max(plan, wished);
    choice.plan_of[straggler.pipeline] = static_cast<std::uint32_t>(plan);
  }
  return choice;
}

Status check_wish(const PlanTable& plans, const Wish& wish, Seconds overhead, int pipelines) {
  if (wish.kind == Wish::Kind::kDeadline) {
    const Seconds possible = plans.plans().front().time + overhead;
    if (Seconds{wish.value} >= possible) return ok_status();
    return Error::infeasible("no plan ends within " + shortest(wish.value) +
                             " s; the fastest takes " + rounded_up(possible.value) + " s");
  }
  if (wish.kind == Wish::Kind::kPowerCap) {
    const TablePlan& slowest = plans.plans().back();
    const Watts possible = slowest.energy / slowest.time * pipelines;
    if (Watts{wish.value} >= possible) return ok_status();
    return Error::infeasible("no plan draws as little as " + shortest(wish.value) +
                             " W; the least is " + rounded_up(possible.value) + " W");
  }
  return ok_status();
}

}  // namespace harpe
