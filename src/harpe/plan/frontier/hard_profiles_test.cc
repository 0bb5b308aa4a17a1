// Plans of profiles at the edge of what is measured: few clocks, equal times, equal energies,
// stages and instructions of very different length. All guarantees for plans hold for these, too.
// For the smallest profiles, every assignment of clocks is tried.

#include <gmock/gmock.h>

#include <limits>
#include <random>
#include <string>
#include <vector>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/plan_testing.h"
#include "harpe/plan/frontier/verify.h"
#include "harpe/plan/schedule/replay.h"

namespace harpe::plan {
namespace {

using testing::IsEmpty;

constexpr Watts kBlockingPower{80};

/// The points of an instruction, to be changed.
struct Curve {
  int stage;
  InstructionKind kind;
  std::vector<OperatingPoint>& points;  ///< by rising clock
};

struct HardProfile {
  const char* name;
  /// Changes the points of an instruction to make the profile hard.
  void (*change)(const Curve& curve);
  int clocks = 4;
};

// NOLINTNEXTLINE(readability-identifier-naming): GoogleTest looks for it by that name.
void PrintTo(const HardProfile& profile, std::ostream* out) {
  *out << profile.name;
}

constexpr HardProfile kHardProfiles[] = {
    {"two_clocks", [](const Curve&) {}, 2},
    {"whole_milliseconds",
     [](const Curve& curve) {
       for (OperatingPoint& p : curve.points)
         p.time = Seconds{std::round(p.time.value * 1e3) / 1e3};
     }},
    {"equal_times",
     [](const Curve& curve) {
       for (std::size_t k = 1; k < curve.points.size(); k += 2)
         curve.points[k].time = curve.points[k - 1].time;
     }},
    {"equal_energies",
     [](const Curve& curve) {
       for (std::size_t k = 1; k < curve.points.size(); k += 2)
         curve.points[k].energy = curve.points[k - 1].energy;
     }},
    {"equal_points",
     [](const Curve& curve) {
       for (OperatingPoint& p : curve.points) {
         p.time = curve.points.front().time;
         p.energy = curve.points.front().energy;
       }
     }},
    {"dominated_highest_clock",
     [](const Curve& curve) {
       OperatingPoint& highest = curve.points.back();
       highest.time = curve.points[curve.points.size() - 2].time * 1.01;
       highest.energy = highest.energy * 1.05;
     }},
    {"one_slow_stage",
     [](const Curve& curve) {
       if (curve.stage != 1) return;
       for (OperatingPoint& p : curve.points) {
         p.time = p.time * 2;
         p.energy = p.energy * 2;
       }
     }},
    {"one_clock_on_one_stage",
     [](const Curve& curve) {
       if (curve.stage == 0) curve.points = {curve.points.back()};
     }},
    {"energies_nearly_equal",
     [](const Curve& curve) {
       double nearly = 1;
       for (OperatingPoint& p : curve.points) p.energy = Joules{10 * (nearly += 1e-7)};
     }},
    // Then a choice of clocks changes the energy almost only through the iteration time.
    {"effective_energies_nearly_equal",
     [](const Curve& curve) {
       double nearly = 1;
       for (OperatingPoint& p : curve.points)
         p.energy = kBlockingPower * p.time + Joules{nearly += 1e-7};
     }},
    {"microseconds_beside_seconds",
     [](const Curve& curve) {
       const double length = curve.kind == InstructionKind::kForward ? 1e-5 : 20;
       for (OperatingPoint& p : curve.points) {
         p.time = p.time * length;
         p.energy = p.energy * length;
       }
     }},
};

/// Returns a profile: times fall and powers rise with the clock. Noise makes all curves differ.
Profile profile_of(const HardProfile& hard, int stages, int clocks, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const auto noise = [&] { return 1 + 0.02 * static_cast<double>(random() % 1000) / 1000; };
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < stages; ++stage) {
    for (const auto kind : {InstructionKind::kForward, InstructionKind::kBackward}) {
      InstructionProfile& entry = entries.emplace_back();
      entry.stage = stage;
      entry.kind = kind;
      const double size = kind == InstructionKind::kForward ? 0.05 : 0.1;
      for (int k = 0; k < clocks; ++k) {
        const int clock = 1410 - 150 * (clocks - 1 - k);
        const double seconds = size * noise() * (0.2 + 0.8 * 1410 / clock);
        const double watts = noise() * (110 + 250 * std::pow(clock / 1410.0, 3));
        entry.points.push_back({{clock}, {seconds}, {watts * seconds}});
      }
      hard.change({.stage = stage, .kind = kind, .points = entry.points});
    }
  }
  return Profile(std::move(entries));
}

struct Planned {
  Schedule schedule;
  Frontier frontier;
};

Planned planned_of(const HardProfile& hard, int stages, int micro_batches, int clocks,
                   std::uint64_t seed = 1) {
  Schedule schedule = must(one_f_one_b({.stages = stages, .micro_batches = micro_batches}));
  Frontier frontier =
      must(characterize(must(Pipeline::build(schedule)), profile_of(hard, stages, clocks, seed),
                        {.blocking_power = kBlockingPower}));
  return {std::move(schedule), std::move(frontier)};
}

/// Returns deadlines from the fastest iteration to beyond the iteration of least energy.
std::vector<Seconds> deadlines_of(const Frontier& frontier) {
  const Seconds span = frontier.least_energy_time() - frontier.min_time();
  std::vector<Seconds> deadlines = {frontier.min_time()};
  for (const double share : {0.01, 0.4, 1.0}) deadlines.push_back(deadlines[0] + span * share);
  deadlines.push_back(frontier.max_time() * 1.1);
  return deadlines;
}

// Enough micro-batches that stages wait, but few under the slow sanitizers.
constexpr int kMicroBatches = HARPE_UNDER_SANITIZERS ? 3 : 6;
constexpr double kRounding = 1e-9;  // of seconds to nanoseconds, and of sums of doubles
constexpr double kSearched = 1e-3;  // gap that a search may leave if clocks are few

void expect_holds(const Plan& plan, Seconds deadline, const Planned& planned) {
  EXPECT_LE(plan.iteration_time.value, deadline.value * (1 + kRounding));
  EXPECT_GE(plan.gap(), 0);
  EXPECT_LE(planned.frontier.tight_lower_bound(plan.iteration_time).value,
            plan.iteration_energy.value * (1 + 1e-12));
  const Certificate certificate = must(planned.frontier.certificate(plan.iteration_time));
  const Verification found =
      verify_plan(plan, planned.schedule, planned.frontier.profile(), &certificate);
  EXPECT_THAT(found.diagnostics, IsEmpty());
  ASSERT_TRUE(found.proven_bound);
  EXPECT_LE(found.proven_bound->value, plan.iteration_energy.value * (1 + 1e-12));
}

class HardProfiles : public testing::TestWithParam<HardProfile> {};

TEST_P(HardProfiles, GetPlansThatHoldAndAreNoWorseForMoreWork) {
  const Planned planned = planned_of(GetParam(), 3, kMicroBatches, GetParam().clocks);
  const Frontier& frontier = planned.frontier;
  const Plan all_max = frontier.all_max();
  for (const Seconds deadline : deadlines_of(frontier)) {
    SCOPED_TRACE(testing::Message() << "deadline " << deadline.value);
    Joules least{std::numeric_limits<double>::infinity()};
    for (const PlanOptions& options : {PlanOptions{.effort = Effort::kQuick}, PlanOptions{},
                                       PlanOptions{.search_windows = 300}}) {
      const Plan plan = must(frontier.plan(deadline, options));
      expect_holds(plan, deadline, planned);
      EXPECT_LE(plan.iteration_energy.value, least.value * (1 + 1e-12));
      least = plan.iteration_energy;
    }
    if (all_max.iteration_time <= deadline) {
      EXPECT_LE(least, all_max.iteration_energy);
    }
    for (const OneSettingPoint& one : frontier.one_setting()) {
      if (one.iteration_time <= deadline) {
        EXPECT_LE(least.value, one.iteration_energy.value * (1 + kSearched));
      }
    }
  }
}

TEST_P(HardProfiles, GetPlansAlongTheFrontierThatHold) {
  const Planned planned = planned_of(GetParam(), 3, kMicroBatches, GetParam().clocks);
  const std::vector<Seconds> deadlines = deadlines_of(planned.frontier);
  const std::vector<Plan> plans = must(planned.frontier.plans_along(deadlines));
  ASSERT_EQ(plans.size(), deadlines.size());
  for (std::size_t i = 0; i < plans.size(); ++i) expect_holds(plans[i], deadlines[i], planned);
}

/// Energy of the best of all assignments that end by a deadline.
struct Optimum {
  Joules energy{std::numeric_limits<double>::infinity()};
  Joules energy_until_deadline = energy;  ///< if the GPUs wait until then
};

std::vector<Optimum> optima(const Planned& planned, const std::vector<Seconds>& deadlines) {
  const Profile& profile = planned.frontier.profile();
  std::vector<std::vector<Seconds>> times;
  std::vector<std::pair<std::size_t, std::size_t>> places;
  std::vector<std::span<const OperatingPoint>> points;
  for (const auto& list : planned.schedule.lists) {
    for (std::size_t i = 0; i < list.size(); ++i) {
      places.emplace_back(times.size(), i);
      points.push_back(profile.points(static_cast<int>(times.size()), 0, list[i].kind));
    }
    times.emplace_back(list.size());
  }
  std::vector<Optimum> least(deadlines.size());
  std::vector<std::size_t> choice(points.size(), 0);
  for (bool more = true; more;) {
    Joules effective{0};
    for (std::size_t i = 0; i < points.size(); ++i) {
      const OperatingPoint& point = points[i][choice[i]];
      times[places[i].first][places[i].second] = point.time;
      effective += point.energy - kBlockingPower * point.time;
    }
    const Seconds end = must(replay(planned.schedule, {}, times)).makespan;
    const Watts waiting = kBlockingPower * planned.schedule.stages;
    for (std::size_t d = 0; d < deadlines.size(); ++d) {
      if (end.value > deadlines[d].value * (1 + 1e-12)) continue;
      least[d].energy = std::min(least[d].energy, effective + waiting * end);
      least[d].energy_until_deadline =
          std::min(least[d].energy_until_deadline, effective + waiting * deadlines[d]);
    }
    std::size_t i = 0;
    while (i < choice.size() && ++choice[i] == points[i].size()) choice[i++] = 0;
    more = i < choice.size();
  }
  return least;
}

TEST_P(HardProfiles, GetTheBestPlanOfAllWhereAllCanBeTried) {
  const Planned planned = planned_of(GetParam(), 2, 2, 3, 2);
  const std::vector<Seconds> deadlines = deadlines_of(planned.frontier);
  const std::vector<Optimum> least = optima(planned, deadlines);
  for (std::size_t d = 0; d < deadlines.size(); ++d) {
    SCOPED_TRACE(testing::Message() << "deadline " << deadlines[d].value);
    const Plan plan = must(planned.frontier.plan(deadlines[d]));
    EXPECT_GE(plan.iteration_energy / least[d].energy, 1 - kRounding);
    EXPECT_LE(plan.iteration_energy / least[d].energy, 1 + kSearched);
    const Joules waiting = least[d].energy_until_deadline * (1 + 1e-12);
    EXPECT_LE(planned.frontier.lower_bound(deadlines[d]), waiting);
    EXPECT_LE(planned.frontier.tight_lower_bound(deadlines[d]), waiting);
  }
}

INSTANTIATE_TEST_SUITE_P(Each, HardProfiles, testing::ValuesIn(kHardProfiles),
                         [](const auto& param) { return std::string(param.param.name); });

}  // namespace
}  // namespace harpe::plan
