// Plans with late settings or a minimum dwell.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/base/text.h"
#include "harpe/plan/frontier/find_plan.h"
#include "harpe/plan/frontier/frontier_data.h"
#include "harpe/plan/frontier/late_frontier.h"
#include "harpe/plan/frontier/switching.h"

namespace harpe {

struct Frontier::Data::Late {
  Late(const Data& data, const PlanOptions& options)
      : latency(options.switch_latency), effort(options.effort), plans(data, latency, effort) {}
  LatencyByClock latency;
  Effort effort;
  plan::LateFrontier plans;
  std::shared_ptr<const Late> next;
};

Frontier::Data::Data(plan::Problem p) : problem(std::move(p)), layout(problem) {}
Frontier::Data::~Data() = default;

// Concurrent calls may find the same plans twice. The first to finish adds its plans to the list,
// the others discard theirs.
const plan::LateFrontier& Frontier::Data::late(const PlanOptions& options) const {
  const auto known = [&](const std::shared_ptr<const Late>& first) {
    const Late* one = first.get();
    while (one != nullptr &&
           (one->latency != options.switch_latency || one->effort != options.effort))
      one = one->next.get();
    return one;
  };
  std::shared_ptr<const Late> first = late_frontiers.load();
  if (const Late* const found = known(first)) return found->plans;
  const auto made = std::make_shared<Late>(*this, options);
  do {
    if (const Late* const found = known(first)) return found->plans;
    made->next = first;
  } while (!late_frontiers.compare_exchange_strong(first, made));
  return made->plans;
}

/// \param fastest  the shortest time found, picoseconds; negative: none
Error Frontier::Data::no_plan_by(std::optional<Seconds> deadline, const PlanOptions& options,
                                 std::int64_t fastest) const {
  std::string text = "no plan found";
  if (deadline) text += " that ends within " + shortest(deadline->value) + " s";
  text += " when clocks are up to " + shortest(options.switch_latency.longest().value) + " s late";
  if (options.min_dwell > 0_s) text += " and stay for " + shortest(options.min_dwell.value) + " s";
  if (fastest >= 0)
    text += "; the fastest found takes " + rounded_up(plan::seconds_of(fastest)) + " s";
  return Error::infeasible(std::move(text));
}

namespace {

/// Returns the effort that the options set for a search for one deadline.
plan::LateFrontier::Search search_of(const Frontier::Data& data, const plan::LateFrontier& late,
                                     Seconds deadline, const PlanOptions& options) {
  plan::LateFrontier::Search search =
      options.effort == Effort::kQuick ? late.glance() : late.full();
  search.moves_on = options.search_windows;
  if (!options.go_on) return search;
  const double gpus = data.problem.gpus_per_stage;
  const Joules waiting = data.problem.total_blocking_power() * deadline;
  const Joules bound = (late.bound(data.picoseconds(deadline)) + waiting) * gpus;
  search.go_on = [=, &data](std::int64_t moves, std::int64_t cost) {
    const Joules effective = static_cast<double>(cost) * data.problem.cost_unit;
    return options.go_on({moves, (effective + waiting) * gpus, bound});
  };
  return search;
}

}  // namespace

Result<Plan> Frontier::Data::late_plan(Seconds deadline, const PlanOptions& options,
                                       const FindLate& find) const {
  const plan::LateFrontier& plans = late(options);
  const std::int64_t end = picoseconds(deadline);
  plan::TimedChoices found;
  if (end >= plans.fastest()) {
    found = find(plans, end);
  } else {
    // A search from the fastest plan of the set may find one that ends earlier.
    const Seconds fastest = plan::seconds_of(plans.fastest());
    found = plans.cheapest_by(plans.fastest(), search_of(*this, plans, fastest, options));
    if (found.end > end) return no_plan_by(deadline, options, found.end);
  }
  return plan_of(plans.point_costs().points(found.choices),
                 plans.point_costs().changes(found.choices));
}

// Returns the fastest plan found if there is no deadline.
Result<Plan> Frontier::Data::search_switching(std::optional<Seconds> deadline,
                                              const PlanOptions& options) const {
  if (options.min_dwell > 0_s) return search_dwelling(deadline, options);
  const Seconds end = deadline.value_or(plan::seconds_of(late(options).fastest()));
  return late_plan(end, options, [&](const plan::LateFrontier& plans, std::int64_t latest) {
    return plans.cheapest_by(deadline ? latest : plans.fastest(),
                             search_of(*this, plans, end, options));
  });
}

Result<Plan> Frontier::Data::search_dwelling(std::optional<Seconds> deadline,
                                             const PlanOptions& options) const {
  const plan::PointCosts costs(layout, options.switch_latency);
  plan::SwitchingSearch search(costs, options.min_dwell);
  const plan::SwitchingTask task{
      .deadline = deadline ? std::optional(picoseconds(*deadline)) : std::nullopt,
      .moves =
          plan::passes(layout, options.effort == Effort::kQuick ? 600'000 : 6'000'000, 200, 20'000),
      .thorough = options.effort == Effort::kFull,
      .min_time = picoseconds(min_time),
      .free_plan =
          [&](std::int64_t end) {
            return search_freely(plan::seconds_of(end), {.effort = options.effort}).back();
          },
      .price =
          [&](std::int64_t end) {
            return static_cast<double>(relaxed(plan::seconds_of(end)).value) *
                   (problem.flow_unit * Seconds{1e-12} / problem.cost_unit);
          }};
  const plan::SwitchingAnswer answer = plan::find_choices(search, task);
  if (answer.choices.empty()) return no_plan_by(deadline, options, answer.fastest);
  if (task.deadline) {
    const std::int64_t end = search.makespan(answer.choices);
    HARPE_CHECK(end >= 0 && end <= *task.deadline,
                "a plan keeps the dwell and ends by its deadline, however late its clocks");
  }
  return plan_of(costs.points(answer.choices), costs.changes(answer.choices));
}

Result<Plan> Frontier::Data::glance(Seconds deadline, const PlanOptions& options) const {
  PlanOptions at_once = options;
  at_once.search_windows = 0;
  if (!options.switching() || options.min_dwell > 0_s) return search(deadline, at_once);
  return late_plan(deadline, options, [](const plan::LateFrontier& plans, std::int64_t end) {
    return plans.cheapest_by(end, plans.glance());
  });
}

Result<std::vector<Plan>> Frontier::switching_plans_along(std::span<const Seconds> deadlines,
                                                          const Progress& progress,
                                                          const PlanOptions& options) const {
  PlanOptions quick = options;
  quick.effort = Effort::kQuick;
  const auto find = [](const plan::LateFrontier& late, std::int64_t end) {
    return late.least_energy_by(end, late.glance());
  };
  std::vector<Plan> plans;
  for (const Seconds deadline : deadlines) {
    plans.push_back(HARPE_TRY(data_->is_small() || options.min_dwell > 0_s
                                  ? plan(deadline, quick)
                                  : data_->late_plan(deadline, options, find)));
    if (progress)
      progress(static_cast<double>(plans.size()) / static_cast<double>(deadlines.size()));
  }
  return plans;
}

// With late clocks, the time of least energy may be infeasible, or a slower plan may need less.
Result<Plan> Frontier::Data::least_switching_by(Seconds deadline,
                                                const PlanOptions& options) const {
  if (options.min_dwell <= 0_s) {
    return late_plan(deadline, options, [&](const plan::LateFrontier& plans, std::int64_t end) {
      return plans.least_energy_by(end, search_of(*this, plans, deadline, options));
    });
  }
  std::vector<Seconds> times{std::min(deadline, least_energy_time)};
  if (times.front() < deadline) times.push_back(deadline);
  // A plan with one setting never changes it: the time of the cheapest one is searched, too.
  const plan::PointCosts costs(layout, options.switch_latency);
  std::optional<Plan> steady;
  for (const plan::PointChoices& choices : costs.at_one_setting()) {
    Plan plan = plan_of(costs.points(choices));
    if (plan.iteration_time > deadline) continue;
    if (!steady || plan.iteration_energy < steady->iteration_energy) steady = std::move(plan);
  }
  if (steady) times.push_back(steady->iteration_time);
  Result<Plan> best = search_dwelling(times.front(), options);
  for (const Seconds time : std::span(times).subspan(1)) {
    Result<Plan> plan = search_dwelling(time, options);
    const bool is_better =
        plan.ok() && (!best.ok() || plan->iteration_energy < best->iteration_energy);
    if (is_better) best = std::move(plan);
  }
  return best;
}

std::vector<Joules> Frontier::tight_bounds_along(std::span<const Seconds> deadlines,
                                                 const PlanOptions& options) const {
  const bool is_late = options.switch_latency.longest() > Seconds{0};
  std::vector<Joules> bounds;
  for (const Seconds deadline : deadlines) {
    bounds.push_back(lower_bound(deadline));
    if (!is_late) continue;
    const Joules effective = data_->late(options).bound(data_->picoseconds(deadline));
    // The sums of doubles have rounding errors, but the bound must not be too high.
    const Joules late = (effective + data_->problem.total_blocking_power() * deadline) *
                        (data_->problem.gpus_per_stage * (1 - 1e-9));
    bounds.back() = std::max(bounds.back(), late);
  }
  return bounds;
}

}  // namespace harpe
