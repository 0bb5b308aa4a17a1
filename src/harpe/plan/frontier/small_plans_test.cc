// Plans of small pipelines, compared with all assignments of profiled clocks.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <span>

#include "harpe/plan/frontier/planned_work_testing.h"
#include "harpe/plan/frontier/random_pipelines_testing.h"

namespace harpe::plan {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

constexpr Case kSmall[] = {
    {"1f1b", 1, 2, 1, false},  {"1f1b", 2, 2, 1, false}, {"1f1b", 2, 3, 1, false},
    {"gpipe", 3, 2, 1, false}, {"zb-h1", 2, 2, 1, true}, {"interleaved-1f1b", 2, 2, 2, false},
    {"1f1b", 3, 3, 1, false},  {"zb-v", 2, 1, 2, true},
};

/// Time and energy of an assignment.
struct Outcome {
  double makespan;  ///< s
  double energy;    ///< J, of an iteration that does not wait after its end
};

/// All assignments of a pipeline, with the cost of late clocks and without assignments that change
/// a clock too soon. Shares no code with the searches.
class AllAssignments {
 public:
  AllAssignments(const Pipeline& pipeline, const Profile& profile, Watts power,
                 const PlanOptions& options)
      : pipeline_(pipeline), power_(power), options_(options) {
    std::vector<int> last(pipeline.schedule().stages, -1);
    for (const PipelineNode& node : pipeline.nodes()) {
      const bool computes = node.stage >= 0 && !is_fixed_time(node.instruction.kind);
      const int i = static_cast<int>(points_.size());
      points_.push_back(computes ? profile.points(node.stage, node.chunk, node.instruction.kind)
                                 : std::span<const OperatingPoint>());
      before_.push_back(-1);
      if (!computes) continue;
      before_.back() = last[node.stage];
      last[node.stage] = i;
    }
    for (std::size_t i = 0; i < points_.size(); ++i) {
      if (!points_[i].empty() && before_[i] < 0) before_[i] = last[pipeline.nodes()[i].stage];
    }
    choice_.assign(points_.size(), 0);
    durations_.resize(points_.size());
    do add();
    while (step());
  }

  const std::vector<Outcome>& all() const { return all_; }

 private:
  bool step() {
    for (std::size_t i = 0; i < choice_.size(); ++i) {
      if (points_[i].empty()) continue;
      if (++choice_[i] < points_[i].size()) return true;
      choice_[i] = 0;
    }
    return false;
  }

  void add() {
    double cost = 0;
    const auto stages = static_cast<std::size_t>(pipeline_.schedule().stages);
    std::vector<std::vector<int>> changes(stages), computations(stages);  // nodes
    std::vector<std::vector<LateRun>> runs(stages);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      durations_[i] = pipeline_.nodes()[i].transfer_time;
      if (points_[i].empty()) continue;
      const OperatingPoint& now = points_[i][choice_[i]];
      const auto b = static_cast<std::size_t>(before_[i]);
      const int stage = pipeline_.nodes()[i].stage;
      durations_[i] = now.time;
      cost += effective_energy(now, power_).value;
      if (points_[b][choice_[b]].clock != now.clock) changes[stage].push_back(static_cast<int>(i));
      computations[stage].push_back(static_cast<int>(i));
      runs[stage].push_back({points_[i], now});
    }
    for (std::size_t stage = 0; stage < stages; ++stage) {
      const std::vector<LateCost> late = late_costs(runs[stage], power_, options_.switch_latency);
      for (std::size_t k = 0; k < late.size(); ++k) {
        Seconds& duration = durations_[computations[stage][k]];
        duration = duration + Seconds{static_cast<double>(late[k].time)};
        cost += static_cast<double>(late[k].energy);
      }
    }
    const Timeline timeline = pipeline_.earliest(durations_);
    for (const std::vector<int>& on_stage : changes)
      if (!keeps_dwell(on_stage, timeline)) return;
    const double waiting = power_.value * pipeline_.schedule().stages;
    all_.push_back({timeline.makespan.value, cost + waiting * timeline.makespan.value});
  }

  bool keeps_dwell(const std::vector<int>& changes, const Timeline& timeline) const {
    for (std::size_t n = 0; changes.size() > 1 && n < changes.size(); ++n) {
      const bool wraps = n + 1 == changes.size();
      const Seconds next =
          timeline.start[changes[wraps ? 0 : n + 1]] + (wraps ? timeline.makespan : Seconds{0});
      if (next - timeline.start[changes[n]] < options_.min_dwell) return false;
    }
    return true;
  }

  const Pipeline& pipeline_;
  Watts power_;
  const PlanOptions& options_;
  std::vector<std::span<const OperatingPoint>> points_;  // of each node
  std::vector<int> before_;                              // previous one on its stage, cyclic
  std::vector<std::size_t> choice_;
  std::vector<Seconds> durations_;
  std::vector<Outcome> all_;
};

/// A random small pipeline, its frontier and all of its assignments.
struct Small {
  Small(unsigned seed, bool is_late, bool dwells) : random(seed) {
    const Case& c = kSmall[seed % std::size(kSmall)];
    const double computations = (c.split ? 3.0 : 2.0) * c.stages * c.chunks * c.micro_batches;
    // Every tenth case has as many assignments as a test can try.
    const double bits = seed % 10 == 0 ? 16 : 11;
    const int clocks = static_cast<int>(std::exp2(bits / computations));
    const Profile profile =
        random_profile(random, c.stages, c.chunks, std::max(2, clocks), c.split);
    const Pipeline pipeline = random_pipeline(random, c);
    const Watts power{random.below(3) == 0 ? 0.0 : random.between(5, 90)};
    // Computations take 5 ms or longer: the longer latencies outlast several.
    if (is_late) options.switch_latency = Seconds{random.between(0.001, 0.03)};
    if (dwells) options.min_dwell = Seconds{random.between(0.02, 0.2)};
    frontier = characterize(pipeline, profile, {.blocking_power = power}).value();
    all = AllAssignments(pipeline, profile, power, options).all();
    waiting = power.value * c.stages;
    for (const Outcome& outcome : all) {
      fastest = std::min(fastest, outcome.makespan);
      slowest = std::max(slowest, outcome.makespan);
    }
  }

  /// Returns the least energy of assignments that end by a deadline and wait until `until`.
  double least(double deadline, double until) const {
    double best = kNever;
    for (const Outcome& outcome : all) {
      if (outcome.makespan > deadline) continue;
      const double waited = waiting * std::max(0.0, until - outcome.makespan);
      best = std::min(best, outcome.energy + waited);
    }
    return best;
  }

  Random random;
  PlanOptions options;
  std::optional<Frontier> frontier;
  std::vector<Outcome> all;
  double waiting = 0;
  double fastest = kNever, slowest = 0;
};

constexpr double kEqual = 1e-9;  // relative: plans are rounded to picoseconds

void expect_least(const Small& small, double deadline) {
  const Result<Plan> plan = small.frontier->plan(Seconds{deadline}, small.options);
  const double least = small.least(deadline, 0);
  if (least == kNever) {
    EXPECT_FALSE(plan.ok());
    return;
  }
  ASSERT_TRUE(plan.ok()) << plan.error().text() << " least " << least;
  EXPECT_NEAR(plan->iteration_energy.value, least, kEqual * least);
  EXPECT_LE(plan->iteration_time.value, deadline * (1 + kEqual));
  const Result<Plan> waits = small.frontier->plan_for_straggler(Seconds{deadline}, small.options);
  const double waited = small.least(deadline, deadline);
  ASSERT_TRUE(waits.ok()) << waits.error().text();
  EXPECT_NEAR(waits->iteration_energy.value, waited, kEqual * waited);
}

void expect_fastest_within(const Small& small, double cap) {
  double fastest = kNever;
  for (const Outcome& outcome : small.all)
    if (outcome.energy <= cap * outcome.makespan) fastest = std::min(fastest, outcome.makespan);
  const Result<Plan> plan = small.frontier->plan_for_power_cap(Watts{cap}, small.options);
  if (fastest == kNever) {
    EXPECT_FALSE(plan.ok());
    return;
  }
  ASSERT_TRUE(plan.ok()) << plan.error().text() << " fastest " << fastest;
  EXPECT_NEAR(plan->iteration_time.value, fastest, kEqual * fastest);
  EXPECT_LE(plan->iteration_energy / plan->iteration_time, Watts{cap});
}

/// Checks every objective of one random pipeline.
void expect_exact(Small& small) {
  if (small.all.empty()) {
    EXPECT_FALSE(small.frontier->fastest_plan(small.options).ok());
    return;
  }
  const Result<Plan> fastest = small.frontier->fastest_plan(small.options);
  ASSERT_TRUE(fastest.ok()) << fastest.error().text();
  EXPECT_NEAR(fastest->iteration_time.value, small.fastest, kEqual * small.fastest);
  const double room = small.slowest * 1.05 - small.fastest;
  for (const double share : {0.1, 0.5})
    expect_least(small, small.fastest + share * small.random.between(0.1, 1) * room);
  expect_least(small, small.slowest * 1.01);
  const Outcome& any = small.all[small.random.below(static_cast<int>(small.all.size()))];
  const double power = any.energy / any.makespan;
  expect_fastest_within(small, power * small.random.between(0.8, 1.1));
}

void expect_all_exact(bool is_late, bool dwells, unsigned first_seed, unsigned count = 500) {
  for (unsigned seed = 0; seed < seeds(count); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << first_seed + seed);
    Small small(first_seed + seed, is_late, dwells);
    expect_exact(small);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(SmallPlans, AreTheBestWithFreeClocks) {
  expect_all_exact(false, false, 10'000);
}

TEST(SmallPlans, AreTheBestWithLateClocks) {
  expect_all_exact(true, false, 20'000, 250);  // each case takes longer, as proofs do
}

TEST(SmallPlans, AreTheBestWithADwell) {
  expect_all_exact(false, true, 30'000);
}

TEST(SmallPlans, AreTheBestWithLateClocksAndADwell) {
  expect_all_exact(true, true, 40'000, 100);
}

}  // namespace
}  // namespace harpe::plan
