// Plans with late clocks, run with clocks that come into force at random times.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/point_costs.h"
#include "harpe/plan/frontier/random_pipelines_testing.h"

namespace harpe::plan {
namespace {

/// Replays iterations of a plan in which each change comes into force after a random delay.
class LandingReplay {
 public:
  /// \param draw  returns a share of the latency
  LandingReplay(const Plan& plan, const Pipeline& pipeline, const Profile& profile,
                LatencyByClock latency, std::function<double()> draw)
      : plan_(plan),
        pipeline_(pipeline),
        profile_(profile),
        latency_(std::move(latency)),
        draw_(std::move(draw)),
        stages_(plan.stages) {
    for (int s = 0; s < plan.stages; ++s) {
      for (const PlannedInstruction& i : plan.instructions[s]) {
        if (i.clock > Megahertz{0}) stages_[s].in_force = stages_[s].asked = i.clock;
      }
    }
  }

  struct Outcome {
    double time = 0, effective = 0;
  };
  Outcome iterate() {
    const auto nodes = pipeline_.nodes();
    std::vector<double> end(nodes.size(), begin_);
    std::vector<std::size_t> place(stages_.size(), 0);
    Outcome outcome;
    for (const int node : pipeline_.order()) {
      double start = begin_;
      for (const Dependency& d : pipeline_.dependencies())
        if (d.to == node) start = std::max(start, end[d.from] + d.lag.value);
      const int stage = nodes[node].stage;
      end[node] = start + nodes[node].transfer_time.value;
      if (stage >= 0) {
        const auto& list = plan_.instructions[stage];
        while (list[place[stage]].kind == InstructionKind::kSwitch) ++place[stage];
        end[node] = start + run(stages_[stage], list[place[stage]++], stage, start, outcome);
      }
      outcome.time = std::max(outcome.time, end[node] - begin_);
    }
    begin_ += outcome.time;
    return outcome;
  }

 private:
  struct Stage {
    Megahertz in_force, asked;
    std::vector<std::pair<double, Megahertz>> landings = {};  // in order of the requests
  };

  double run(Stage& stage, const PlannedInstruction& i, int s, double start, Outcome& outcome) {
    if (i.clock != stage.asked) {
      stage.landings.emplace_back(start + draw_() * latency_.to(i.clock).value, i.clock);
      stage.asked = i.clock;
    }
    const auto points = profile_.points(s, i.chunk, i.kind);
    double done = 0, now = start;
    while (true) {
      double next = std::numeric_limits<double>::infinity();
      for (std::size_t k = 0; k < stage.landings.size(); ++k) {
        if (stage.landings[k].first > now) continue;
        stage.in_force = stage.landings[k].second;
        stage.landings.erase(stage.landings.begin(), stage.landings.begin() + k + 1);
        k = static_cast<std::size_t>(-1);
      }
      for (const auto& [at, clock] : stage.landings) next = std::min(next, at);
      const auto at = at_setting(points, {.clock = stage.in_force});
      const double rest = (1 - done) * at->time.value;
      const double until = std::min(now + rest, next);
      const double share = until == now + rest ? 1 - done : (until - now) / at->time.value;
      outcome.effective += share * effective_energy(*at, plan_.blocking_power[s]).value;
      done += share;
      now = until;
      if (until < next || done >= 1) return now - start;
    }
  }

  const Plan& plan_;
  const Pipeline& pipeline_;
  const Profile& profile_;
  LatencyByClock latency_;
  std::function<double()> draw_;
  std::vector<Stage> stages_;
  double begin_ = 0;
};

TEST(LateLandings, NoDrawOfDelaysBreaksThePlansTimeOrEnergy) {
  constexpr int kIterations = 12;
  for (unsigned seed = 0; seed < seeds(40); ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Random random(seed + 6100);
    const Case& c = kCases[seed % std::size(kCases)];
    const Profile profile = random_profile(random, c.stages, c.chunks, 6, c.split);
    const Pipeline pipeline = random_pipeline(random, c);
    const Frontier frontier = characterize(pipeline, profile, {.blocking_power = 40_W}).value();
    // Latencies of up to ten times the shortest computation.
    const PlanOptions options{
        .effort = Effort::kQuick,
        .switch_latency = LatencyByClock({{900_MHz, Seconds{random.between(0.001, 0.05)}},
                                          {960_MHz, Seconds{random.between(0.001, 0.05)}}})};
    const Plan least = frontier.least_energy_plan(options).value();
    const Plan fastest = frontier.fastest_plan(options).value();
    for (const Plan& plan : {fastest, least, frontier.all_max(options)}) {
      EXPECT_EQ(diagnostics_of(verify_plan(plan, profile, nullptr)), "");
      const double kind = random.below(3);
      LandingReplay replay(plan, pipeline, frontier.profile(), options.switch_latency,
                           [&] { return kind < 1 ? 1.0 : random.between(0, 1); });
      double planned = plan.iteration_energy.value / plan.gpus_per_stage;
      for (const Watts power : plan.blocking_power) planned -= (power * plan.iteration_time).value;
      for (int i = 0; i < kIterations; ++i) {
        const LandingReplay::Outcome real = replay.iterate();
        EXPECT_LE(real.time, plan.iteration_time.value * (1 + 1e-9));
        EXPECT_LE(real.effective, planned + 1e-9 * std::abs(planned));
      }
    }
  }
}

TEST(LateSettings, AreOldUntilTheLatencyOfWhatWasAskedForHasPassed) {
  LateSettings state(1);
  EXPECT_TRUE(state.old().empty());
  state.ask(2, 0.03_s);
  EXPECT_EQ(state.setting(), 2);
  state.pass(0.02_s);
  ASSERT_EQ(state.old().size(), 1U);
  EXPECT_EQ(state.old()[0].setting, 1);
  EXPECT_NEAR(state.old()[0].left, 0.01, 1e-12);
  state.ask(2, 0.03_s);  // is already requested
  EXPECT_NEAR(state.old()[0].left, 0.01, 1e-12);
  state.pass(0.02_s);
  EXPECT_TRUE(state.old().empty());
}

TEST(LateSettings, EndAsSoonAsALaterSettingMustBeInForce) {
  LateSettings state(1);
  state.ask(2, 0.05_s);
  state.ask(3, 0.01_s);
  ASSERT_EQ(state.old().size(), 2U);
  for (const LateSettings::Old& old : state.old()) EXPECT_NEAR(old.left, 0.01, 1e-12);
  state.ask(1, 0.02_s);  // an old setting
  ASSERT_EQ(state.old().size(), 2U);
  EXPECT_EQ(state.old()[0].setting, 2);
  EXPECT_NEAR(state.old()[0].left, 0.01, 1e-12);
  EXPECT_EQ(state.old()[1].setting, 3);
  EXPECT_NEAR(state.old()[1].left, 0.02, 1e-12);
  state.ask(4, 0_s);  // in force at once
  EXPECT_TRUE(state.old().empty());
}

TEST(LateSettings, TheCostliestOldSettingCountsAtEachMoment) {
  // 0.1 s of 0.2 s at an extra cost of 5, then 0.1 s of 0.4 s at an extra cost of 6.
  std::vector<AtOldSetting> old{{0.2, 0.4, 6}, {0.1, 0.2, 5}};
  EXPECT_NEAR(most_more(old), 2.5 + 1.5, 1e-12);
  // At most the extra cost of the whole instruction at one of the settings.
  old = {{5, 0.4, 6}, {0.1, 0.2, 5}};
  EXPECT_NEAR(most_more(old), 6, 1e-12);
  old = {{0.1, 0.2, -5}};
  EXPECT_EQ(most_more(old), 0);
  EXPECT_NEAR(most_more(AtOldSetting{0.1, 0.4, 6}), 1.5, 1e-12);
}

}  // namespace
}  // namespace harpe::plan
