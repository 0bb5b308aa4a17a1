#include "harpe/plan/frontier/find_plan.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <tuple>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/plan/flow/network.h"
#include "harpe/plan/frontier/event_beam.h"
#include "harpe/plan/frontier/search_order.h"
#include "harpe/plan/frontier/window_search.h"

namespace harpe::plan {
namespace {

/// A beam search that gives every event a time near its relaxed time, from the first to the last.
/// The losses of a partial answer do not show that it is late and that the rest has to be faster.
/// This cost is estimated from the curvature of the relaxed cost, as if all events were as late.
class PipelineBeam {
 public:
  struct Options {
    std::size_t width = 1;  ///< partial answers kept
    /// Largest delay of an event after its relaxed time, in average steps from one option of an
    /// instruction to the next.
    double reach = 2;
    double drift = 1;  ///< weight of the estimate
  };

  /// \param relaxed    the optimum at or a little before the deadline
  /// \param deadline   picoseconds
  /// \param curvature  half the second derivative of the relaxed cost with respect to the deadline,
  /// divided by the first; per picosecond
  PipelineBeam(const ArcPrices& prices, const flow::State& relaxed, std::int64_t deadline,
               double curvature);

  /// Returns an assignment that ends by the deadline; empty if no partial answer could be
  /// completed. O(events x width x options).
  Assignment plan(const Options& options);

 private:
  const SearchOrder& layout_;
  std::int64_t deadline_;
  double curvature_;
  EventBeam beam_;
  SearchRandom random_;
  EventTimes expected_;               // the relaxed times
  std::vector<std::int32_t> events_;  // in the order of relaxed times
  double step_ = 0;                   // average, picoseconds
};

constexpr std::int64_t kPicoseconds = 1000;  // per nanosecond of the network

PipelineBeam::PipelineBeam(const ArcPrices& prices, const flow::State& relaxed,
                           std::int64_t deadline, double curvature)
    : layout_(prices.layout()), deadline_(deadline), curvature_(curvature), beam_(prices) {
  const Problem& problem = layout_.problem();
  for (const std::int64_t potential : relaxed.potential)
    expected_.push_back(kPicoseconds * potential);
  for (const std::int32_t event : layout_.order()) {
    if (event != problem.network.source && event != problem.network.sink) events_.push_back(event);
  }
  std::ranges::sort(events_, {}, [&](std::int32_t event) {
    return std::pair(expected_[event], layout_.place(event));
  });
  double steps = 0;
  for (std::size_t t = 0; t < problem.tables.size(); ++t) {
    const auto times = layout_.times(static_cast<std::int32_t>(t));
    step_ += static_cast<double>(times.back() - times.front());
    steps += static_cast<double>(times.size() - 1);
  }
  if (steps > 0) step_ /= steps;
}

Assignment PipelineBeam::plan(const Options& options) {
  const Problem& problem = layout_.problem();
  EventTimes latest = expected_;
  for (std::int64_t& time : latest) time += static_cast<std::int64_t>(options.reach * step_);
  EventTimes time(expected_.size(), 0);
  time[problem.network.sink] = deadline_;
  const EventBeam::Options search{.width = options.width,
                                  .most = std::numeric_limits<double>::infinity(),
                                  .latest = &latest,
                                  .drift = options.drift * curvature_,
                                  .expected = &expected_};
  if (!beam_.retime(events_, time, search, random_)) return {};
  Assignment choice(problem.table.size());
  layout_.fit(time, choice);
  return choice;
}

// Returns the milestones that no mixture of two others beats, fastest first.
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

// Joins the milestones before and after a deadline. Returns the one before it; null if none.
const Milestone* splice_neighbours(PlanSearch& search, std::int64_t deadline,
                                   std::span<const Milestone> milestones) {
  const auto slower = std::partition_point(milestones.begin(), milestones.end(),
                                           [&](const Milestone& m) { return m.time <= deadline; });
  if (slower == milestones.begin()) return nullptr;
  if (slower != milestones.end()) search.splice(*(slower - 1), *slower);
  return &*(slower - 1);
}

// Checks that a plan ends by its deadline, and returns the plan. Times are rounded: if the deadline
// is the time of the fastest options, they may end picoseconds after it, and no plan ends earlier.
Assignment in_time(PlanSearch& search, Assignment found, std::int64_t deadline) {
  HARPE_CHECK(!found.empty(), "a search finds at least the fastest plan");
  const std::int64_t end = search.makespan(found);
  HARPE_CHECK(end <= deadline || end <= search.makespan(Assignment(found.size(), 0)),
              "a plan ends by its deadline");
  return found;
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
  if (effort == Effort::kQuick) return in_time(search, search.best(), start.deadline);
  search.kick(passes(layout, 200'000, 20, 20'000));
  const ArcPrices prices(layout, start.close);
  PipelineBeam beam(prices, start.relaxed.front(), start.deadline, start.curvature);
  // The beam is wider in small pipelines, where it takes no longer.
  const auto width = static_cast<std::size_t>(
      std::max(passes(layout, 350'000, 10, 300), passes(layout, 115'000, 0, 4'000)));
  for (const double drift : {2.0, 8.0}) {
    const Assignment found = beam.plan({.width = width, .reach = 2, .drift = drift});
    if (!found.empty()) search.offer(found);
    if (start.curvature == 0) break;  // drift has no effect
  }
  // About 20 ms for a pipeline of any size.
  constexpr std::int64_t kWindows = 600;
  WindowSearch windows(prices, start.deadline, in_time(search, search.best(), start.deadline));
  windows.begin(kWindows);
  for (std::int64_t i = 0; i < kWindows; ++i) windows.step();
  return in_time(search, windows.best(), start.deadline);
}

Assignment search_on(const SearchOrder& layout, const SearchStart& start, Assignment found,
                     const LongSearch& search) {
  // A long round tolerates large losses at its beginning, so it can leave optima that a shorter one
  // cannot. Most rounds are short, so that little is lost if the search ends in the middle of one.
  constexpr std::int64_t kFirstRound = 1'000, kLongestRound = 16'000, kTold = 50;
  // Beams over the whole pipeline before each round, with random options: none is always best.
  constexpr int kBeams = 4;
  constexpr double kReach[] = {0.5, 1, 2, 4}, kDrift[] = {2, 4, 8, 16};
  const std::size_t widest = static_cast<std::size_t>(passes(layout, 1'600'000, 10, 400));
  const ArcPrices prices(layout, start.close);
  PipelineBeam beam(prices, start.relaxed.front(), start.deadline, start.curvature);
  PlanSearch repair(layout, start.deadline);
  WindowSearch windows(prices, start.deadline, std::move(found));
  SearchRandom random;
  std::int64_t tried = 0;
  const auto go_on = [&] {
    return tried < search.windows && (!search.go_on || search.go_on(tried, windows.best_cost()));
  };
  for (std::int64_t round = kFirstRound;; round = std::min(2 * round, kLongestRound)) {
    for (int i = 0; i < kBeams; ++i) {
      if (!go_on()) return in_time(repair, windows.best(), start.deadline);
      const Assignment again =
          beam.plan({.width = std::max<std::size_t>(10, widest >> random.below(4)),
                     .reach = kReach[random.below(std::size(kReach))],
                     .drift = kDrift[random.below(std::size(kDrift))]});
      ++tried;
      if (again.empty()) continue;
      repair.offer(again);
      windows.offer(repair.best());
    }
    windows.begin(round);
    for (std::int64_t i = 0; i < round; ++i) {
      if ((i % kTold == 0 || tried == search.windows) && !go_on())
        return in_time(repair, windows.best(), start.deadline);
      windows.step();
      ++tried;
    }
  }
}

void PlansAlong::search(std::int64_t deadline, const flow::State& relaxed) {
  PlanSearch nearby(layout_, deadline);
  shares_ = nearby.decode({&relaxed, 1}, passes(layout_, 30'000, 6, 400), shares_);
  nearby.kick(passes(layout_, 25'000, 0, 400));
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
  return in_time(nearby, nearby.best(), deadline);
}

}  // namespace harpe::plan
