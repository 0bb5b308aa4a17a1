#include "harpe/frontier/find_plan.h"

#include <algorithm>
#include <tuple>

#include "harpe/base/check.h"

namespace harpe {
namespace {

// Milestones that no mixture of two others beats, fastest first.
std::vector<Milestone> lower_hull(std::vector<Milestone> milestones) {
  std::sort(milestones.begin(), milestones.end(), [](const Milestone& a, const Milestone& b) {
    return std::tie(a.time, a.cost, a.choice) < std::tie(b.time, b.cost, b.choice);
  });
  const auto slope = [](const Milestone& a, const Milestone& b) {
    return static_cast<double>(b.cost - a.cost) / static_cast<double>(b.time - a.time);
  };
  std::vector<Milestone> hull;
  for (Milestone& m : milestones) {
    if (!hull.empty() && m.cost >= hull.back().cost) continue;
    while (hull.size() > 1 && slope(hull[hull.size() - 2], hull.back()) >= slope(hull.back(), m))
      hull.pop_back();
    hull.push_back(std::move(m));
  }
  return hull;
}

// The best found. Times are rounded: where the deadline is that of the fastest options, these may
// end picoseconds after it, and nothing can end sooner.
Assignment in_time(PlanSearch& search, std::int64_t deadline) {
  Assignment best = search.best();
  HARPE_CHECK(!best.empty(), "a search finds at least the fastest plan");
  const std::int64_t end = search.makespan(best);
  HARPE_CHECK(end <= deadline || end <= search.makespan(Assignment(best.size(), 0)),
              "a plan ends by its deadline");
  return best;
}

}  // namespace

std::vector<Milestone> find_milestones(const SearchOrder& layout,
                                       std::span<const flow::State> relaxed,
                                       std::span<const Milestone> known) {
  std::vector<Milestone> found(known.begin(), known.end());
  PlanSearch search(layout, 0);
  for (const flow::State& state : relaxed) {
    for (const double share : {0.85, 0.95, 0.75})
      found.push_back(search.decode_freely(state, share));
  }
  return lower_hull(std::move(found));
}

int passes(const SearchOrder& layout, std::int64_t work, std::int64_t least, std::int64_t most) {
  return static_cast<int>(std::clamp(work / layout.problem().network.nodes, least, most));
}

Assignment find_plan(const SearchOrder& layout, const SearchStart& start, Effort effort) {
  PlanSearch search(layout, start.deadline);
  search.decode(start.relaxed, effort == Effort::kQuick ? 6 : passes(layout, 200'000, 20, 2000));
  const std::vector<Milestone> milestones = find_milestones(layout, start.around, start.milestones);
  const auto slower =
      std::partition_point(milestones.begin(), milestones.end(),
                           [&](const Milestone& m) { return m.time <= start.deadline; });
  if (slower != milestones.begin() && slower != milestones.end())
    search.splice(*(slower - 1), *slower);
  if (effort == Effort::kQuick) return in_time(search, start.deadline);
  search.kick(passes(layout, 200'000, 20, 20'000));
  search.jump(passes(layout, 400'000, 10, 1'000));
  return in_time(search, start.deadline);
}

}  // namespace harpe
