// Searches with windows: their guarantees, and the comparison of partial solutions by cost.

#include "harpe/plan/frontier/window_search.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "harpe/plan/frontier/event_beam.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/frontier_data.h"
#include "harpe/plan/frontier/verify.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

Frontier frontier_of(int stages, int micro_batches, std::uint64_t seed = 3) {
  return characterize(one_f_one_b({.stages = stages, .micro_batches = micro_batches}),
                      synthesize({.gpu = "a40", .stages = stages, .seed = seed}).value(),
                      {.blocking_power = 70_W})
      .value();
}

Seconds deadline_of(const Frontier& frontier, double share) {
  return frontier.min_time() + (frontier.least_energy_time() - frontier.min_time()) * share;
}

/// The problem of a frontier, laid out for searches, with the prices at a deadline.
struct Searched {
  explicit Searched(Frontier from, double share)
      : frontier(std::move(from)),
        deadline(deadline_of(frontier, share)),
        problem(make_problem(frontier.pipeline(), frontier.profile(), {.blocking_power = 70_W})
                    .value()),
        layout(problem),
        curve(flow::sweep(problem.network)),
        relaxed(curve.at(problem.network, static_cast<std::int64_t>(deadline.value * 1e9))),
        prices(layout, {&relaxed, 1}) {}

  std::int64_t picoseconds() const { return std::llround(deadline.value * 1e12) / 4 * 4; }
  std::int64_t cost(const Assignment& choice) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < choice.size(); ++i)
      sum += layout.costs(problem.table[i])[choice[i]];
    return sum;
  }
  std::int64_t makespan(const Assignment& choice) const {
    EventTimes time(problem.network.nodes);
    layout.set_earliest(choice, time);
    return time[problem.network.sink];
  }

  Frontier frontier;
  Seconds deadline;
  Problem problem;
  SearchOrder layout;
  flow::CostCurve curve;
  flow::State relaxed;
  ArcPrices prices;
};

TEST(EventBeam, LosesWhatAnAnswerCosts) {
  const Searched s(frontier_of(3, 5), 0.3);
  EventTimes time(s.problem.network.nodes), latest = time;
  const Assignment fastest(s.problem.table.size(), 0);
  SearchRandom random;
  s.layout.set_latest(fastest, s.picoseconds(), latest);
  s.layout.scatter(fastest, latest, random, time);
  EventBeam beam(s.prices);
  int improved = 0;
  const auto order = s.layout.order();
  for (std::size_t first = 1; first + 9 < order.size(); first += 3) {
    std::vector<std::int32_t> events(order.begin() + static_cast<std::ptrdiff_t>(first),
                                     order.begin() + static_cast<std::ptrdiff_t>(first) + 8);
    std::erase(events, s.problem.network.sink);
    std::ranges::sort(events, {},
                      [&](std::int32_t v) { return std::pair(time[v], s.layout.place(v)); });
    Assignment before(fastest), after(fastest);
    const std::int64_t cost_before = s.layout.fit(time, before);
    const double loss_before = beam.loss(events, time);
    ASSERT_TRUE(beam.retime(events, time, {.width = 20, .most = 2 * loss_before}, random));
    const std::int64_t cost_after = s.layout.fit(time, after);
    const double less = loss_before - beam.loss(events, time);
    EXPECT_NEAR(less, static_cast<double>(cost_before - cost_after),
                1e-9 * static_cast<double>(cost_before));
    improved += less > 0 ? 1 : 0;
    EXPECT_LE(s.makespan(after), s.picoseconds());
  }
  EXPECT_GE(improved, 5);
}

/// Returns the frontier of one stage with three clocks and times in whole milliseconds.
Frontier chain_of(int micro_batches) {
  const Profile profile = parse_profile(R"(stage,instruction,frequency,time,energy
0,forward,1400,0.010,4.0
0,forward,1000,0.013,2.9
0,forward,800,0.017,2.65
0,backward,1400,0.020,8.0
0,backward,1000,0.026,5.8
0,backward,800,0.034,5.3
)",
                                        "profile.csv")
                              .value();
  return characterize(one_f_one_b({.stages = 1, .micro_batches = micro_batches}), profile,
                      {.blocking_power = 70_W})
      .value();
}

// In a chain, partial solutions with the same end have the same future. A beam of 30 with different
// ends finds the best of 3^10 solutions; a beam of any 60 does not.
TEST(EventBeam, FollowsNoTwoAnswersWithTheSameFuture) {
  for (const double share : {0.1, 0.3, 0.5, 0.7, 0.9}) {
    SCOPED_TRACE(share);
    const Searched s(chain_of(5), share);
    const std::size_t nodes = s.problem.table.size();
    ASSERT_EQ(nodes, 10U);
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (int code = 0; code < 59049; ++code) {
      Assignment choice(nodes);
      std::int64_t time = 0;
      for (std::size_t i = 0, rest = code; i < nodes; ++i, rest /= 3) {
        choice[i] = static_cast<int>(rest % 3);
        time += s.layout.times(s.problem.table[i])[choice[i]];
      }
      if (time <= s.picoseconds()) least = std::min(least, s.cost(choice));
    }
    EventTimes time(s.problem.network.nodes);
    Assignment choice(nodes, 0);
    s.layout.set_earliest(choice, time);
    time[s.problem.network.sink] = s.picoseconds();
    std::vector<std::int32_t> events;
    for (const std::int32_t event : s.layout.order()) {
      if (event != s.problem.network.source && event != s.problem.network.sink)
        events.push_back(event);
    }
    EventBeam beam(s.prices);
    SearchRandom random;
    const double most = 2 * beam.loss(events, time);
    ASSERT_TRUE(beam.retime(events, time, {.width = 30, .most = most}, random));
    EXPECT_EQ(s.layout.fit(time, choice), least);
  }
}

TEST(WindowSearch, EndsByTheDeadlineAndIsNeverWorse) {
  for (const double share : {0.0, 0.1, 0.6}) {
    const Searched s(frontier_of(4, 6), share);
    const Assignment start(s.problem.table.size(), 0);
    WindowSearch search(s.prices, s.picoseconds(), start);
    search.begin(1000);
    std::int64_t least = s.cost(start);
    for (int i = 0; i < 1000; ++i) {
      search.step();
      ASSERT_LE(search.best_cost(), least);
      least = search.best_cost();
    }
    EXPECT_EQ(s.cost(search.best()), least);
    EXPECT_LT(least, s.cost(start));
    EXPECT_LE(s.makespan(search.best()), s.picoseconds() + 4);
  }
}

TEST(LongSearch, FindsMoreTheLongerItGoesOnAndTheSameEachTime) {
  const Frontier frontier = frontier_of(3, 6);
  const Seconds deadline = deadline_of(frontier, 0.1);
  Joules before = frontier.plan(deadline).value().iteration_energy;
  for (const std::int64_t windows : {1, 300, 1500}) {
    const Plan plan = frontier.plan(deadline, {.search_windows = windows}).value();
    EXPECT_LE(plan.iteration_energy, before * (1 + 1e-12)) << windows;
    before = plan.iteration_energy;
    EXPECT_TRUE(verify_plan(plan, frontier.profile(), nullptr).diagnostics.empty());
    EXPECT_EQ(plan_json(plan),
              plan_json(frontier.plan(deadline, {.search_windows = windows}).value()));
  }
}

TEST(LongSearch, TellsHowItComesOnAndEndsWhenTold) {
  const Frontier frontier = frontier_of(3, 6);
  const Seconds deadline = deadline_of(frontier, 0.2);
  std::vector<SearchProgress> told;
  const PlanOptions options{.search_windows = 1'000'000,
                            .go_on = [&](const SearchProgress& progress) {
                              told.push_back(progress);
                              return told.size() < 40;
                            }};
  const Plan plan = frontier.plan(deadline, options).value();
  ASSERT_EQ(told.size(), 40U);
  for (std::size_t i = 1; i < told.size(); ++i) {
    EXPECT_GE(told[i].windows, told[i - 1].windows);
    EXPECT_LE(told[i].energy, told[i - 1].energy);
    EXPECT_GE(told[i].gap(), 0);
  }
  // The same number of windows gives the plan of the search that was ended.
  const Plan again = frontier.plan(deadline, {.search_windows = told.back().windows}).value();
  EXPECT_EQ(plan_json(plan), plan_json(again));
  EXPECT_LE(plan.iteration_energy, told.back().energy * (1 + 1e-12));
}

TEST(LongSearch, KeepsThePowerCap) {
  const Frontier frontier = frontier_of(3, 6);
  const Plan fastest = frontier.fastest_plan().value();
  const Watts cap = 0.95 * (fastest.iteration_energy / fastest.iteration_time);
  const Plan plan = frontier.plan_for_power_cap(cap).value();
  const Plan searched = frontier.plan_for_power_cap(cap, {.search_windows = 500}).value();
  EXPECT_LE(searched.iteration_energy / searched.iteration_time, cap);
  EXPECT_LE(searched.iteration_energy, plan.iteration_energy);
}

}  // namespace
}  // namespace harpe::plan
