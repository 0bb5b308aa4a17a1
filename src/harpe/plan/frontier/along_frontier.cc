// Plans along a frontier, and a curve of few points, for pictures and files.

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "harpe/plan/flow/sweep.h"
#include "harpe/plan/frontier/find_plan.h"
#include "harpe/plan/frontier/frontier_data.h"

namespace harpe {

Result<std::vector<Plan>> Frontier::plans_along(std::span<const Seconds> deadlines,
                                                const Progress& progress,
                                                const PlanOptions& options) const {
  if (options.switching()) return switching_plans_along(deadlines, progress, options);
  std::vector<Seconds> times;
  for (const Seconds deadline : deadlines) {
    if (!(deadline >= min_time())) return plan(deadline).error();
    times.push_back(std::min(deadline, least_energy_time()));
  }
  const double steps = 2.0 * static_cast<double>(times.size());
  int done = 0;
  const auto report = [&] {
    if (progress) progress(++done / steps);
  };
  plan::PlansAlong along(data_->layout, data_->milestones);
  if (!data_->is_large()) {
    std::vector<std::int64_t> horizons;
    for (std::size_t i = times.size(); i-- > 0;) horizons.push_back(data_->horizon(times[i]));
    std::size_t next = times.size();
    data_->curve.visit(data_->problem.network, horizons, [&](const plan::flow::State& relaxed) {
      along.search(data_->picoseconds(times[--next]), relaxed);
      report();
    });
  }
  const PlanOptions quick{.effort = Effort::kQuick};
  std::vector<Plan> plans;
  for (const Seconds time : times) {
    const auto search = [&](const PlanOptions&) -> Result<Plan> {
      return data_->plan_of(along.at(data_->picoseconds(time)));
    };
    plans.push_back(HARPE_TRY(data_->is_small() ? data_->least_of_small(search, time, false, quick)
                                                : search(quick)));
    report();
  }
  return plans;
}

// Keeps the point farthest below a straight line until none is too far (Douglas and Peucker 1973).
std::vector<FrontierPoint> Frontier::points(double tolerance) const {
  const std::vector<FrontierPoint> all = points();
  std::vector<FrontierPoint> kept{all.front()};
  const auto least = static_cast<std::size_t>(
      std::ranges::min_element(all, {}, &FrontierPoint::lower_bound) - all.begin());
  std::vector<std::pair<std::size_t, std::size_t>> open;
  if (least + 1 < all.size()) open.emplace_back(least, all.size() - 1);
  if (least > 0) open.emplace_back(0, least);
  while (!open.empty()) {
    const auto [first, last] = open.back();
    open.pop_back();
    const auto above = [&](std::size_t i) {
      const double share = (all[i].time - all[first].time) / (all[last].time - all[first].time);
      const Joules line =
          all[first].lower_bound + share * (all[last].lower_bound - all[first].lower_bound);
      return line - all[i].lower_bound;
    };
    // The curve is convex: the distance rises, then falls.
    std::size_t low = first, high = last;
    while (high - low > 1) {
      const std::size_t middle = low + (high - low) / 2;
      (above(middle) < above(middle + 1) ? low : high) = middle;
    }
    if (last - first > 1 && high < last && above(high) > tolerance * all[high].lower_bound) {
      open.emplace_back(high, last);
      open.emplace_back(first, high);
    } else {
      kept.push_back(all[last]);
    }
  }
  return kept;
}

}  // namespace harpe
