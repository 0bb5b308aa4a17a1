#include "harpe/job/plan_choice.h"

#include <algorithm>
#include <cmath>
#include <functional>
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

double slowest(const SlowPipeline& slow) {
  return slow.factors.empty() ? 1 : *std::ranges::max_element(slow.factors);
}

/// Of least energy among those that are through by `until`.
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

PlanChoice choose_plans(const PlanTable& plans, const Wish& wish, Seconds overhead, int pipelines,
                        std::span<const SlowPipeline> slow) {
  const std::size_t wished = wished_plan(plans, wish, overhead, pipelines);
  const bool capped = wish.kind == Wish::Kind::kPowerCap;
  PlanChoice choice;
  choice.wished = choice.wait_until = plans.plans()[wished].time;
  for (const SlowPipeline& one : slow) {
    if (!one.settled && one.outside <= Seconds{0}) continue;
    const Seconds least = capped ? choice.wished * slowest(one) + one.outside : one.least_time();
    choice.wait_until = std::max(choice.wait_until, least);
  }

  const bool waits = choice.wait_until > choice.wished;
  const auto healthy =
      static_cast<std::uint32_t>(waits ? plans.for_waiting_until(choice.wait_until) : wished);
  choice.plan_of.assign(static_cast<std::size_t>(pipelines), {PlanRef::From::kShared, healthy});
  for (const SlowPipeline& one : slow) {
    const Seconds until = choice.wait_until - one.outside;
    PlanRef& chosen = choice.plan_of[static_cast<std::size_t>(one.pipeline)];
    chosen = plan_of(one, plans, until);
    if (!capped) continue;
    const std::size_t own = plans.for_waiting_until(until / slowest(one));
    chosen = {PlanRef::From::kShared, static_cast<std::uint32_t>(std::max(own, wished))};
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
