// The optimizers on recorded runs: set calls and choices of Zeus, and bounds on Harpe's choices.

#include "harpe/lab/replay/limit_replay.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>

#include "harpe/lab/replay/recorded_runs_testing.h"

namespace harpe::lab {
namespace {

using Kind = zeus::Selector::Kind;
constexpr std::array<double, 7> kEtas = {0, 0.1, 0.25, 0.5, 0.75, 0.9, 1};
constexpr std::array<double, 7> kSlowdowns = {1, 1.05, 1.1, 1.2, 1.5, 2, 3};

#define HARPE_NEEDS(runs) \
  if ((runs).empty()) GTEST_SKIP() << "needs the measured data sets (HARPE_SHARED)"

std::vector<std::pair<std::int64_t, double>> watts(const RecordedRun& run,
                                                   const ProfilingReplay& replay) {
  std::vector<std::pair<std::int64_t, double>> calls;
  for (const SetCall& call : replay.set_calls) {
    calls.emplace_back(call.step, run.knob[call.setting]);
  }
  return calls;
}

ProfilingReplay zeus(const RecordedRun& run, const zeus::Selector& selector, int steps_per_epoch) {
  return replay_zeus(run, {.selector = selector}, steps_per_epoch).take();
}

double choice_of(const RecordedRun& run, const zeus::Selector& selector) {
  return run.knob[*zeus(run, selector, 460).choice];
}

using Calls = std::vector<std::pair<std::int64_t, double>>;

TEST(ZeusReplay, GivesTheSetCallsOfZeusWhateverTheLengthOfEpochs) {
  const auto runs = recorded_runs();
  HARPE_NEEDS(runs);
  const RecordedRun& run = runs.at("A40+resnet50+gpu0");
  const Calls uninterrupted = {{0, 300},   {52, 275},  {102, 250}, {152, 225}, {202, 200},
                               {252, 175}, {302, 150}, {352, 125}, {402, 100}, {452, 200}};
  EXPECT_EQ(watts(run, zeus(run, {}, 460)), uninterrupted);
  EXPECT_EQ(watts(run, zeus(run, {}, 0)), uninterrupted);
  EXPECT_EQ(watts(run, zeus(run, {}, 205)), (Calls{{0, 300},
                                                   {52, 275},
                                                   {102, 250},
                                                   {152, 225},
                                                   {202, 200},
                                                   {205, 300},
                                                   {206, 200},
                                                   {256, 175},
                                                   {306, 150},
                                                   {356, 125},
                                                   {406, 100},
                                                   {410, 300},
                                                   {411, 100},
                                                   {461, 200}}));
  EXPECT_EQ(watts(run, zeus(run, {}, 165)), (Calls{{0, 300},
                                                   {52, 275},
                                                   {102, 250},
                                                   {152, 225},
                                                   {165, 300},
                                                   {166, 225},
                                                   {216, 200},
                                                   {266, 175},
                                                   {316, 150},
                                                   {330, 300},
                                                   {331, 150},
                                                   {381, 125},
                                                   {431, 100},
                                                   {481, 200}}));
  const Calls hundred = watts(run, zeus(run, {}, 100));
  const Calls begins = {{0, 300},   {52, 275},  {100, 300}, {101, 275},
                        {151, 250}, {200, 300}, {201, 250}};
  ASSERT_GT(hundred.size(), begins.size());
  EXPECT_EQ(Calls(hundred.begin(), hundred.begin() + 7), begins);
  EXPECT_EQ(hundred.back(), (std::pair<std::int64_t, double>(851, 200)));
}

TEST(ZeusReplay, ChoosesWhatZeusChooses) {
  const auto runs = recorded_runs();
  HARPE_NEEDS(runs);
  struct Expected {
    double energy, time;
    std::vector<double> cost;
    double cost_of_one_gpu;
    std::vector<double> slowdown;
  };
  const std::map<std::string, Expected> expected = {
      {"A40+bert-base-uncased+gpu0",
       {200, 275, {275, 275, 275, 275, 200, 200, 200}, 275, {275, 275, 250, 200, 175, 150, 125}}},
      {"A40+resnet18+gpu0",
       {175, 175, {175, 175, 175, 175, 175, 175, 175}, 175, {175, 175, 175, 150, 150, 125, 100}}},
      {"A40+resnet18+gpu0,1,2,3",
       {100, 275, {275, 275, 275, 300, 300, 100, 100}, 100, {275, 275, 125, 100, 100, 100, 100}}},
      {"A40+resnet50+gpu0",
       {175, 300, {300, 300, 225, 200, 200, 175, 175}, 200, {300, 200, 200, 175, 175, 150, 100}}},
      {"A40+resnet50+gpu0,1,2,3",
       {100, 150, {150, 150, 150, 150, 100, 100, 100}, 100, {125, 100, 100, 100, 100, 100, 100}}},
      {"A40+shufflenetv2+gpu0",
       {150, 300, {300, 300, 300, 150, 150, 150, 150}, 150, {300, 200, 150, 150, 125, 125, 100}}}};
  ASSERT_EQ(runs.size(), expected.size());
  for (const auto& [name, run] : runs) {
    const Expected& wanted = expected.at(name);
    EXPECT_EQ(choice_of(run, {.kind = Kind::kEnergy}), wanted.energy) << name;
    EXPECT_EQ(choice_of(run, {.kind = Kind::kTime}), wanted.time) << name;
    EXPECT_EQ(choice_of(run, {.gpus = 1}), wanted.cost_of_one_gpu) << name;
    for (std::size_t i = 0; i < kEtas.size(); ++i) {
      EXPECT_EQ(choice_of(run, {.eta = kEtas[i], .gpus = run.gpus}), wanted.cost[i])
          << name << ", eta " << kEtas[i];
      EXPECT_EQ(choice_of(run, {.kind = Kind::kMaxSlowdown, .slowdown = kSlowdowns[i]}),
                wanted.slowdown[i])
          << name << ", slowdown " << kSlowdowns[i];
    }
  }
}

TEST(ZeusReplay, FinishesWithEpochsShorterThanALimit) {
  const auto runs = recorded_runs();
  HARPE_NEEDS(runs);
  for (const auto& [name, run] : runs) {
    const double wanted = choice_of(run, {.gpus = run.gpus});
    for (const int epoch : {1, 2, 7, 10, 11, 30, 49, 50, 51, 52}) {
      const ProfilingReplay replay = zeus(run, {.gpus = run.gpus}, epoch);
      ASSERT_TRUE(replay.choice.has_value()) << name << ", " << epoch;
      EXPECT_EQ(run.knob[*replay.choice], wanted) << name << ", " << epoch;
    }
  }
}

/// Returns the extra cost of a choice relative to the cheapest setting of the run, as a fraction.
double loss(const RecordedRun& run, const zeus::Selector& selector, std::size_t choice) {
  const zeus::ScoreWeights weights = weights_of(selector, run.knob[0]);
  const auto score = [&](std::size_t i) {
    return weights.of(run.measurements[i].time, run.measurements[i].energy);
  };
  return score(choice) / score(choose(run.measurements, selector).value()) - 1;
}

/// The quality of the choices over all runs and etas.
struct Quality {
  int cases = 0, within_one_percent = 0, within_three_percent = 0, steps = 0;
  double worst = 0;
};
Quality quality(const std::map<std::string, RecordedRun>& runs, int window_steps,
                int steps_per_epoch = 0) {
  Quality found;
  for (const auto& [name, run] : runs) {
    for (const double eta : kEtas) {
      const zeus::Selector selector{.eta = eta, .gpus = run.gpus};
      const auto replay =
          replay_profiler(run, {.selector = selector}, window_steps, steps_per_epoch).take();
      const double lost = loss(run, selector, *replay.choice);
      ++found.cases;
      found.within_one_percent += lost <= 0.01 ? 1 : 0;
      found.within_three_percent += lost <= 0.03 ? 1 : 0;
      found.worst = std::max(found.worst, lost);
      const auto of_zeus = zeus(run, selector, 0).done_step;
      EXPECT_LE(2 * replay.done_step, of_zeus) << name << ", eta " << eta;
      found.steps = std::max(found.steps, static_cast<int>(replay.done_step));
    }
  }
  std::printf(
      "windows of %d steps: %d of %d within 1 %%, %d within 3 %%, worst %.2f %%, at most "
      "%d steps\n",
      window_steps, found.within_one_percent, found.cases, found.within_three_percent,
      100 * found.worst, found.steps);
  return found;
}

TEST(ProfilerReplay, TakesHalfOfZeusStepsAndLosesAtMostThreePercent) {
  const auto runs = recorded_runs();
  HARPE_NEEDS(runs);
  for (const int steps_per_epoch : {0, 30}) {
    const Quality found = quality(runs, 22, steps_per_epoch);
    EXPECT_EQ(found.cases, 42);
    EXPECT_GE(30 * found.within_one_percent, 24 * found.cases);
    EXPECT_EQ(found.within_three_percent, found.cases);
  }
}

TEST(ProfilerReplay, IsGoodWithWindowsAsLongAsThoseOfZeus) {
  const auto runs = recorded_runs();
  HARPE_NEEDS(runs);
  for (const int steps : {27, 34, 40}) {
    const Quality found = quality(runs, steps);
    EXPECT_GE(30 * found.within_one_percent, 24 * found.cases) << steps;
  }
}

TEST(ProfilerReplay, KeepsAMaximumSlowdown) {
  const auto runs = recorded_runs();
  HARPE_NEEDS(runs);
  for (const auto& [name, run] : runs) {
    for (const double slowdown : kSlowdowns) {
      const zeus::Selector selector{
          .kind = Kind::kMaxSlowdown, .slowdown = slowdown, .gpus = run.gpus};
      const auto replay = replay_profiler(run, {.selector = selector}, 22, 0).take();
      EXPECT_LE(run.measurements[*replay.choice].time,
                run.measurements[0].time * slowdown * (1 + 1e-12))
          << name;
    }
  }
}

TEST(ProfilerReplay, ThePowerOfTheHostRaisesTheChoice) {
  const auto runs = recorded_runs();
  HARPE_NEEDS(runs);
  for (const auto& [name, run] : runs) {
    const zeus::Selector alone{.kind = Kind::kEnergy, .gpus = run.gpus};
    zeus::Selector with_host = alone;
    with_host.host_power = {400};
    const std::size_t low = choose(run.measurements, alone).value();
    const std::size_t high = choose(run.measurements, with_host).value();
    EXPECT_LE(high, low) << name;
    EXPECT_GE(loss(run, with_host, low), 0) << name;
  }
}

/// Time and energy of some steps of a run.
struct RunTotals {
  Seconds time{};
  Joules energy{};

  void add(const RecordedRun& run, std::size_t setting, std::int64_t steps) {
    const double windows = static_cast<double>(steps) / kRecordedSteps;
    time += run.measurements[setting].time * windows;
    energy += run.measurements[setting].energy * windows;
  }
};

/// Returns the totals of `steps` steps with these set calls. The last one stays in force.
RunTotals totals_of(const RecordedRun& run, const std::vector<SetCall>& set_calls,
                    std::int64_t steps) {
  RunTotals totals;
  for (std::size_t i = 0; i < set_calls.size(); ++i) {
    const std::int64_t first = std::max<std::int64_t>(set_calls[i].step, 1);
    const std::int64_t next =
        i + 1 < set_calls.size() ? std::max<std::int64_t>(set_calls[i + 1].step, 1) : steps + 1;
    const std::int64_t count = std::min(next, steps + 1) - first;
    if (count > 0) totals.add(run, set_calls[i].setting, count);
  }
  return totals;
}

TEST(ProfilerReplay, IsCheapOverAWholeRun) {
  const auto runs = recorded_runs();
  HARPE_NEEDS(runs);
  constexpr std::int64_t kSteps = 20'000;
  for (const auto& [name, run] : runs) {
    for (const double eta : {0.25, 0.5, 1.0}) {
      const zeus::Selector selector{.eta = eta, .gpus = run.gpus};
      const zeus::ScoreWeights weights = weights_of(selector, run.knob[0]);
      const auto cost = [&](const std::vector<SetCall>& set_calls) {
        const RunTotals totals = totals_of(run, set_calls, kSteps);
        return weights.of(totals.time, totals.energy);
      };
      const double oracle = cost({{0, choose(run.measurements, selector).value()}});
      const double of_zeus = cost(replay_zeus(run, {.selector = selector}, 0).take().set_calls);
      const double own = cost(replay_profiler(run, {.selector = selector}, 22, 0).take().set_calls);
      std::printf("%-26s eta %.2f, over the cheapest: highest %5.2f %%, Zeus %5.2f, Harpe %5.2f\n",
                  name.c_str(), eta, 100 * (cost({{0, 0}}) / oracle - 1),
                  100 * (of_zeus / oracle - 1), 100 * (own / oracle - 1));
      EXPECT_LE(own, of_zeus) << name << ", eta " << eta;
      EXPECT_LE(own, 1.005 * oracle) << name << ", eta " << eta;
    }
  }
}

}  // namespace
}  // namespace harpe::lab
