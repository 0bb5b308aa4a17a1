#include "harpe/training/job/profiler.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <utility>
#include <vector>

namespace harpe::training {
namespace {

constexpr int kStages = 2;
constexpr int kMicroBatches = 4;
constexpr double kWaiting = 80;  // W

/// One pipeline whose costs are functions of the clock. Its stages wait for half of the time.
struct Bench {
  explicit Bench(const ProfilingOptions& options, JobShape given = {.data = 1, .stages = kStages})
      : shape(given),
        profiler(
            shape, work,
            std::vector(
                kStages,
                std::vector<Megahertz>{
                    {1400}, {1300}, {1200}, {1100}, {1000}, {900}, {800}, {700}, {600}, {500}}),
            options, {}) {
    profiler.begin(version, 0);
  }

  FinishedIteration iteration() const {
    FinishedIteration done;
    done.iteration = number;
    done.items = work.items();
    done.groups.resize(static_cast<std::size_t>(shape.groups()));
    const std::size_t items = work.items() * static_cast<std::size_t>(shape.data);
    done.item_time.resize(items);
    done.item_energy.resize(items);
    done.item_error.assign(items, 0);
    const std::vector<Megahertz> clocks = profiler.clocks();
    double longest = 0;
    for (int stage = 0; stage < kStages; ++stage)
      longest = std::max(longest, seconds(clocks[stage].value) * 2 * kMicroBatches);
    for (int p = 0; p < shape.data; ++p)
      for (int stage = 0; stage < kStages; ++stage) {
        const int clock = clocks[stage].value;
        const double busy = seconds(clock) * 2 * kMicroBatches;
        GroupIteration& group = done.groups[shape.group(p, stage)];
        group.ranks = shape.tensor;
        group.version = version;
        group.time = Seconds{2 * longest};
        group.energy = Joules{joules(clock) * 2 * kMicroBatches + kWaiting * (2 * longest - busy)};
        for (std::size_t k = 0; k < 2; ++k) {
          const std::size_t at = done.item(p, work.first(stage) + k);
          done.item_time[at] = static_cast<float>(seconds(clock));
          done.item_energy[at] = static_cast<float>(joules(clock));
        }
      }
    return done;
  }
  Profiler::Next step(const std::function<void(FinishedIteration&)>& change = {}) {
    FinishedIteration done = iteration();
    if (change) change(done);
    const Profiler::Next next =
        profiler.add(done, std::vector<bool>(static_cast<std::size_t>(shape.groups())), 2);
    ++number;
    if (next != Profiler::Next::kStay) profiler.begin(++version, number);
    return next;
  }
  int run() {
    for (int i = 0; i < 5000; ++i)
      if (step() == Profiler::Next::kDone) return i + 1;
    return -1;
  }

  std::function<double(int)> seconds = [](int clock) { return 14.0 / clock; };
  std::function<double(int)> joules = [](int clock) { return 0.01 * clock / 5; };
  JobShape shape;
  Schedule schedule = *one_f_one_b({.stages = kStages, .micro_batches = kMicroBatches});
  plan::ScheduleWork work{schedule};
  Profiler profiler;
  std::uint64_t version = 1;
  std::int64_t number = 0;
};

ProfilingOptions generous() {
  ProfilingOptions options;
  options.slowdown_limit = 100;
  return options;
}

TEST(Profiler, MeasuresAtTheClockThatGpusReportWhereItSetsNone) {
  ProfilingOptions options;
  options.as_is = true;
  Bench bench(options);
  bench.seconds = [](int asked) {
    EXPECT_EQ(asked, 0);
    return 0.02;
  };
  bench.joules = [](int) { return 2.5; };
  // The second stage reports a clock in one iteration of three. It is throttled to this clock.
  const auto reported = [&](FinishedIteration& done) {
    done.groups[0].clock = Megahertz{done.iteration % 5 == 0 ? 1100 : 1310};
    done.groups[1].clock = Megahertz{done.iteration % 3 == 0 ? 905 : 0};
    done.groups[1].throttled = true;
  };
  Profiler::Next next = Profiler::Next::kStay;
  for (int i = 0; i < 100 && next != Profiler::Next::kDone; ++i) next = bench.step(reported);
  ASSERT_EQ(next, Profiler::Next::kDone);
  for (int stage = 0; stage < kStages; ++stage) {
    ASSERT_EQ(bench.profiler.measured()[stage].size(), 1U);
    const MeasuredClock at = bench.profiler.measured()[stage].front();
    EXPECT_EQ(at.clock, Megahertz{stage == 0 ? 1300 : 900});
    EXPECT_NEAR(at.time[0].value, 0.02, 1e-6);
    EXPECT_NEAR(at.energy[1].value, 2.5, 1e-6);
    EXPECT_NEAR(bench.profiler.blocking_power()[stage].value, kWaiting, 1);
  }
  EXPECT_EQ(bench.profiler.progress(2).clocks_left, 0);
  EXPECT_DOUBLE_EQ(bench.profiler.progress(2).slowdown, 0);
}

TEST(Profiler, WaitsForAClockThatNoGpuReports) {
  ProfilingOptions options;
  options.as_is = true;
  Bench bench(options);
  bench.seconds = [](int) { return 0.02; };
  for (int i = 0; i < 50; ++i) EXPECT_EQ(bench.step(), Profiler::Next::kStay);
  EXPECT_EQ(bench.profiler.without_energy(), (std::vector<int>{0, 1}));
  EXPECT_TRUE(std::isfinite(bench.profiler.progress(2).time_left.value));
}

/// The times of a straggler count at no clock of its stage, whenever the straggler is found.
TEST(Profiler, MeasuresAStageAnewThatAStragglerWasMeasuredWith) {
  Bench bench(generous(), {.data = 3, .stages = kStages});
  const std::size_t slow = bench.shape.group(2, 1);
  std::vector<bool> left_out(static_cast<std::size_t>(bench.shape.groups()));
  Profiler::Next next = Profiler::Next::kStay;
  for (int i = 0; i < 5000 && next != Profiler::Next::kDone; ++i) {
    FinishedIteration done = bench.iteration();
    for (std::size_t k = 0; k < 2; ++k)
      done.item_time[done.item(2, bench.work.first(1) + k)] *= 1.4F;
    // Found when the stage is at its third clock.
    left_out[slow] = left_out[slow] || bench.profiler.clocks()[1] == Megahertz{1200};
    next = bench.profiler.add(done, left_out, 2);
    ++bench.number;
    if (next != Profiler::Next::kStay) bench.profiler.begin(++bench.version, bench.number);
  }
  ASSERT_EQ(next, Profiler::Next::kDone);
  const Profile profile = bench.profiler.profile();
  const auto points = profile.points(1, 0, InstructionKind::kForward);
  EXPECT_EQ(points.size(), 10U);
  for (const OperatingPoint& point : points)
    EXPECT_NEAR(point.time.value, 14.0 / point.clock.value, 1e-6) << point.clock.value;
}

/// With one pipeline, there is no other pipeline to compare with.
TEST(Profiler, MeasuresAStageAnewThatWasSlowForAWhile) {
  for (const int well_from : {1300, 1100, 500}) {
    SCOPED_TRACE(well_from);
    Bench bench(generous());
    bool is_slow = true;
    int anew = 0;
    Profiler::Next next = Profiler::Next::kStay;
    for (int i = 0; i < 5000 && next != Profiler::Next::kDone; ++i) {
      is_slow = is_slow && bench.profiler.clocks()[1] > Megahertz{well_from};
      next = bench.step([&](FinishedIteration& done) {
        for (std::size_t k = 0; k < 2 && is_slow; ++k)
          done.item_time[done.item(0, bench.work.first(1) + k)] *= 1.4F;
      });
      anew += next == Profiler::Next::kAnew ? 1 : 0;
    }
    ASSERT_EQ(next, Profiler::Next::kDone);
    EXPECT_EQ(anew, 1);
    const Profile profile = bench.profiler.profile();
    const auto points = profile.points(1, 0, InstructionKind::kForward);
    EXPECT_EQ(points.size(), 10U);
    for (const OperatingPoint& point : points)
      EXPECT_NEAR(point.time.value, 14.0 / point.clock.value, 1e-6) << point.clock.value;
  }
}

/// Between slow clocks, all stages run at all-max to earn back slowdown, which shows the change.
TEST(Profiler, MeasuresAStageAnewThatBecomesSlowOrFastInBetween) {
  for (const float factor : {1.08F, 0.92F}) {
    SCOPED_TRACE(factor);
    ProfilingOptions options;
    options.slowdown_limit = 0.05;
    Bench bench(options);
    bool has_changed = false;
    int anew = 0;
    Profiler::Next next = Profiler::Next::kStay;
    for (int i = 0; i < 5000 && next != Profiler::Next::kDone; ++i) {
      has_changed = has_changed || bench.profiler.clocks()[1] < Megahertz{1000};
      next = bench.step([&](FinishedIteration& done) {
        for (std::size_t k = 0; k < 2 && has_changed; ++k)
          done.item_time[done.item(0, bench.work.first(1) + k)] *= factor;
      });
      anew += next == Profiler::Next::kAnew ? 1 : 0;
    }
    ASSERT_EQ(next, Profiler::Next::kDone);
    EXPECT_EQ(anew, 1);
    const Profile profile = bench.profiler.profile();
    const auto points = profile.points(1, 0, InstructionKind::kForward);
    EXPECT_EQ(points.size(), 10U);
    for (const OperatingPoint& point : points)
      EXPECT_NEAR(point.time.value, 14.0 / point.clock.value * factor, 1e-6) << point.clock.value;
  }
}

TEST(Profiler, MeasuresAStageThatIsNeverTheSameNotForEver) {
  Bench bench(generous());
  int anew = 0;
  Profiler::Next next = Profiler::Next::kStay;
  for (int i = 0; i < 5000 && next != Profiler::Next::kDone; ++i) {
    next = bench.step([&](FinishedIteration& done) {
      for (std::size_t k = 0; k < 2; ++k)
        done.item_time[done.item(0, bench.work.first(1) + k)] *= i % 40 < 20 ? 1.5F : 1.0F;
    });
    anew += next == Profiler::Next::kAnew ? 1 : 0;
  }
  EXPECT_EQ(next, Profiler::Next::kDone);
  EXPECT_EQ(anew, 2);
}

TEST(Profiler, WalksDownToTheLastClockWhileEnergyFalls) {
  Bench bench(generous());
  EXPECT_GT(bench.run(), 0);
  const Profile profile = bench.profiler.profile();
  EXPECT_EQ(profile.points(0, 0, InstructionKind::kForward).size(), 10U);
  EXPECT_NEAR(bench.profiler.blocking_power()[0].value, kWaiting, 0.5);
}

/// Raw energy rises below 1000 MHz. Energy minus the energy of waiting still falls there.
TEST(Profiler, StopsOnEffectiveEnergyNotOnRawEnergy) {
  Bench bench(generous());
  bench.joules = [&](int clock) {
    const double slower = (1000.0 - clock) / 1000.0;
    return clock >= 1000 ? clock / 1000.0 : 1 + 0.2 * slower;
  };
  EXPECT_GT(bench.run(), 0);
  EXPECT_EQ(bench.profiler.profile().points(0, 0, InstructionKind::kForward).size(), 10U)
      << "raw energy rises five times in a row, effective energy falls";

  Bench rising(generous());
  rising.joules = [&](int clock) {
    return 1 + kWaiting * rising.seconds(clock) + (clock >= 1200 ? 0.0 : (1200.0 - clock) / 100);
  };
  EXPECT_GT(rising.run(), 0);
  EXPECT_EQ(rising.profiler.profile().points(0, 0, InstructionKind::kForward).size(), 8U)
      << "three clocks to 1200 MHz and five rises";
}

TEST(Profiler, ThrottledIterationsCountForNothing) {
  Bench bench(generous());
  for (int i = 0; i < 10; ++i) {
    ASSERT_EQ(bench.step([](FinishedIteration& done) {
      for (GroupIteration& group : done.groups) group.throttled = true;
    }),
              Profiler::Next::kStay);
  }
  EXPECT_GT(bench.run(), 0);
  EXPECT_EQ(bench.profiler.profile().points(0, 0, InstructionKind::kForward).size(), 10U);
}

TEST(Profiler, ClocksThatGpusAreHeldBackFromAreLeftOut) {
  Bench bench(generous());
  for (int i = 0; i < 5000; ++i) {
    const auto next = bench.step([&](FinishedIteration& done) {
      for (int stage = 0; stage < kStages; ++stage)
        done.groups[stage].throttled = bench.profiler.clocks()[stage] > Megahertz{1200};
    });
    if (next == Profiler::Next::kDone) break;
  }
  ASSERT_TRUE(bench.profiler.done());
  const Profile profile = bench.profiler.profile();
  EXPECT_EQ(profile.points(0, 0, InstructionKind::kForward).back().clock, Megahertz{1200});
}

TEST(Profiler, AnIterationThatSomethingHeldUpDoesNotCountAsAllMax) {
  Bench bench({.warm_up = 2, .iterations_per_clock = 8, .most_iterations_per_clock = 8});
  for (int i = 0; i < 10; ++i) {
    bench.step([&](FinishedIteration& done) {
      if (i != 6) return;
      for (GroupIteration& group : done.groups) group.time = group.time * 3;
    });
  }
  const double usual = 2 * bench.seconds(1400) * 2 * kMicroBatches;
  EXPECT_NEAR(bench.profiler.all_max_time().value, usual, 1e-9);
}

TEST(Profiler, GoesOnAfterTheLastMeasuredClock) {
  Bench bench(generous());
  // The highest two clocks are skipped.
  const auto hot = [&](FinishedIteration& done) {
    for (int stage = 0; stage < kStages; ++stage)
      done.groups[stage].throttled = bench.profiler.clocks()[stage] > Megahertz{1200};
  };
  for (int i = 0; i < 500 && bench.profiler.kept().measured[0].size() < 3; ++i) bench.step(hot);
  const Profiler::Kept kept = bench.profiler.kept();
  ASSERT_EQ(kept.measured[0].back().clock, Megahertz{1000});

  Bench next(generous());
  next.profiler.restore(kept);
  next.profiler.begin(++next.version, next.number);
  EXPECT_EQ(next.profiler.clocks()[0], Megahertz{1400}) << "all-max until it is warm";
  EXPECT_EQ(next.step(), Profiler::Next::kChange);
  EXPECT_EQ(next.profiler.clocks()[0], Megahertz{900});
  EXPECT_GT(next.run(), 0);
  EXPECT_EQ(next.profiler.profile().points(0, 0, InstructionKind::kForward).size(), 8U);
}

TEST(Profiler, StartsOverWhereTheGpusHaveOtherClocks) {
  Bench bench(generous());
  for (int i = 0; i < 500 && bench.profiler.kept().measured[0].size() < 3; ++i) bench.step();
  const Profiler::Kept kept = bench.profiler.kept();
  ASSERT_EQ(kept.measured[0].back().clock, Megahertz{1200});
  Profiler other(bench.shape, bench.work, {{{1410}, {1290}, {1170}}, {{1400}, {1200}, {1000}}},
                 generous(), {});
  other.restore(kept);
  EXPECT_TRUE(other.kept().measured[0].empty());
  EXPECT_EQ(other.kept().measured[1].size(), 3U);
  EXPECT_NEAR(other.progress(2).fraction, 2.0 / 6, 1e-9);
}

TEST(Profiler, IsDoneWhereTheLastClockOfAShorterListIsKnown) {
  Bench bench(generous());
  for (int i = 0; i < 500 && bench.profiler.kept().measured[0].size() < 3; ++i) bench.step();
  Profiler shorter(bench.shape, bench.work, {{{1400}, {1200}}, {{1400}, {1200}}}, generous(), {});
  shorter.restore(bench.profiler.kept());
  EXPECT_TRUE(shorter.done());
}

TEST(Profiler, IterationsByOtherAssignmentsCountForNothing) {
  Bench bench(generous());
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(bench.step([](FinishedIteration& done) {
      done.groups[0].version = 99;
      done.groups[1].same_version = false;
    }),
              Profiler::Next::kStay);
  }
}

TEST(Profiler, NoisyClocksGetMoreIterations) {
  Bench quiet(generous()), noisy(generous());
  const int few = quiet.run();
  int many = 0;
  while (many < 5000) {
    ++many;
    const bool odd = many % 2 == 1;
    const auto next = noisy.step([&](FinishedIteration& done) {
      for (float& energy : done.item_energy) energy *= odd ? 1.05F : 0.95F;
    });
    if (next == Profiler::Next::kDone) break;
  }
  EXPECT_GT(many, few * 2);
  EXPECT_LT(many, 5000);
}

/// Until the counter has stepped often enough after a change, energy is known only from power
/// sensors: computations seem to draw a third less, and the waiting between them accordingly more.
TEST(Profiler, IterationsThatAreKnownPoorlyBiasNeitherEnergyNorBlockingPower) {
  Bench bench(generous(), {.data = 2, .stages = kStages});
  std::int64_t changed = 0;
  Profiler::Next next = Profiler::Next::kStay;
  for (int i = 0; i < 5000 && next != Profiler::Next::kDone; ++i) {
    next = bench.step([&](FinishedIteration& done) {
      const bool is_poor = bench.number < changed + 3;
      for (std::size_t at = 0; at < done.item_energy.size(); ++at) {
        const float truth = done.item_energy[at];
        if (is_poor) done.item_energy[at] *= 0.67F;
        done.item_error[at] = truth * (is_poor ? 0.4F : 0.01F);
      }
    });
    if (next != Profiler::Next::kStay) changed = bench.number;
  }
  ASSERT_EQ(next, Profiler::Next::kDone);
  const Profile profile = bench.profiler.profile();
  for (const OperatingPoint& point : profile.points(1, 0, InstructionKind::kForward)) {
    const double truth = bench.joules(point.clock.value);
    EXPECT_NEAR(point.energy.value, truth, 0.002 * truth) << point.clock.value;
  }
  EXPECT_NEAR(bench.profiler.blocking_power()[0].value, kWaiting, 0.01 * kWaiting);
}

TEST(Profiler, OfPipelinesTheLongestTimeCountsAndStragglersAreLeftOut) {
  Bench bench(generous(), {.data = 3, .stages = kStages});
  const auto uneven = [&](FinishedIteration& done) {
    for (int stage = 0; stage < kStages; ++stage)
      for (std::size_t k = 0; k < 2; ++k) {
        done.item_time[done.item(1, bench.work.first(stage) + k)] *= 1.02F;
        done.item_time[done.item(2, bench.work.first(stage) + k)] *= 2.0F;
      }
  };
  std::vector<bool> left_out(6);
  left_out[4] = left_out[5] = true;
  for (int i = 0; i < 500; ++i) {
    FinishedIteration done = bench.iteration();
    uneven(done);
    const auto next = bench.profiler.add(done, left_out, 2);
    ++bench.number;
    if (next == Profiler::Next::kDone) break;
    if (next == Profiler::Next::kChange) bench.profiler.begin(++bench.version, bench.number);
  }
  const Profile profile = bench.profiler.profile();
  for (const OperatingPoint& point : profile.points(1, 0, InstructionKind::kBackward))
    EXPECT_NEAR(point.time.value, 1.02 * 14.0 / point.clock.value, 1e-5);
}

TEST(Profiler, LongListsAreThinnedWithBothEndsKept) {
  ProfilingOptions options = generous();
  options.most_clocks = 4;
  options.lowest_clock = Megahertz{650};
  Bench bench(options);
  EXPECT_GT(bench.run(), 0);
  const Profile profile = bench.profiler.profile();
  const auto points = profile.points(0, 0, InstructionKind::kForward);
  ASSERT_EQ(points.size(), 4U);
  EXPECT_EQ(points.front().clock, Megahertz{700});
  EXPECT_EQ(points.back().clock, Megahertz{1400});
}

/// Energy falls down to the last clock, so no measurement ends early.
TEST(Profiler, SaysHowMuchIsLeft) {
  for (const double limit : {0.05, 0.1, 0.3, 100.0}) {
    SCOPED_TRACE(limit);
    ProfilingOptions options;
    options.slowdown_limit = limit;
    Bench bench(options);
    double taken = 0;
    const auto step = [&] {
      return bench.step([&](FinishedIteration& done) { taken += done.groups[0].time.value; });
    };
    std::vector<std::pair<ProfilingProgress, double>> said;
    for (int i = 0; i < 5000; ++i) {
      const Profiler::Next next = step();
      if (bench.profiler.all_max_time() > Seconds{0})
        said.emplace_back(bench.profiler.progress(2), taken);
      if (next == Profiler::Next::kDone) break;
    }
    ASSERT_TRUE(bench.profiler.done());
    ASSERT_GT(said.size(), 10U);
    EXPECT_EQ(said.front().first.clocks, 10);
    for (std::size_t i = 0; i < said.size(); ++i) {
      const ProfilingProgress& progress = said[i].first;
      const auto left = static_cast<double>(said.size() - 1 - i);
      EXPECT_GE(progress.iterations_left + 5, left) << i;
      EXPECT_LE(progress.iterations_left, 2 * left + 10) << i;
      EXPECT_GE(progress.time_left.value + 2, 0.9 * (taken - said[i].second)) << i;
    }
    EXPECT_EQ(said.back().first.iterations_left, 0);
    EXPECT_EQ(said.back().first.clocks_left, 0);
    EXPECT_EQ(said.back().first.fraction, 1);
  }
}

}  // namespace
}  // namespace harpe::training
