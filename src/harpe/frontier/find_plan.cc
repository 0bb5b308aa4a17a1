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

// Joins the milestones before and after a deadline. Returns the one before it, if there is one.
const Milestone* splice_neighbours(PlanSearch& search, std::int64_t deadline,
                                   std::span<const Milestone> milestones) {
  const auto slower = std::partition_point(milestones.begin(), milestones.end(),
                                           [&](const Milestone& m) { return m.time <= deadline; });
  if (slower == milestones.begin()) return nullptr;
  if (slower != milestones.end()) search.splice(*(slower - 1), *slower);
  return &*(slower - 1);
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
                                       std::vector<Milestone> known) {
  std::vector<Milestone> found = std::move(known);
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
  splice_neighbours(
      search, start.deadline,
      find_milestones(layout, start.around, {start.milestones.begin(), start.milestones.end()}));
  if (effort == Effort::kQuick) return in_time(search, start.deadline);
  search.kick(passes(layout, 200'000, 20, 20'000));
  // A jump takes longer than a pass: in a large pipeline the few there is time for find nothing.
  const int jumps = passes(layout, 400'000, 0, 1'000);
  if (jumps >= 10) search.jump(jumps);
  return in_time(search, start.deadline);
}

void PlansAlong::search(std::int64_t deadline, const flow::State& relaxed) {
  PlanSearch nearby(layout_, deadline);
  shares_ = nearby.decode({&relaxed, 1}, passes(layout_, 50'000, 6, 400), shares_);
  nearby.kick(passes(layout_, 100'000, 0, 400));
  milestones_.push_back(nearby.best_milestone());
  milestones_ = find_milestones(layout_, {&relaxed, 1}, std::move(milestones_));
  found_[deadline] = nearby.best();
}

Assignment PlansAlong::at(std::int64_t deadline) const {
  PlanSearch nearby(layout_, deadline);
  const auto found = found_.find(deadline);
  if (found != found_.end()) nearby.offer(found->second);
  const Milestone* faster = splice_neighbours(nearby, deadline, milestones_);
  if (faster != nullptr) {
    nearby.offer(faster->choice);
  } else {
    nearby.offer(Assignment(layout_.problem().table.size(), 0));
  }
  return in_time(nearby, deadline);
}

}  // namespace harpe
