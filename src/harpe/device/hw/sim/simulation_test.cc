#include "harpe/device/hw/sim/simulation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace harpe::device {
namespace {

using testing::HasSubstr;

std::shared_ptr<Simulation> simulation(const std::string& toml, Clock& clock) {
  auto made = Simulation::make(toml, "sim.toml", clock);
  EXPECT_TRUE(made.ok()) << made.error().text();
  return *made;
}

const std::string kQuiet = "noise = 0\ngain = 1\n";

/// Seconds and joules of one `SimulatedWork`.
struct Cost {
  double seconds, joules;
};
Cost cost(Simulation& sim, int gpu, const SimulatedWork& work) {
  const double before = sim.truth(gpu).energy.value;
  const auto span = sim.run(gpu, work);
  EXPECT_TRUE(span.ok()) << span.error().text();
  return {(span->end - span->begin).value, sim.truth(gpu).energy.value - before};
}

TEST(Simulation, FollowsThePowerLimitSweepOfAnA40) {
  // ResNet-50 training, 40 steps at each limit, as published with Zeus: W, s, J.
  constexpr double kSweep[][3] = {{300, 24.01, 6225}, {275, 24.06, 6122}, {250, 24.16, 5916},
                                  {225, 24.55, 5500}, {200, 25.19, 5018}, {175, 27.94, 4867},
                                  {150, 36.85, 5512}, {125, 56.48, 7072}, {100, 69.36, 8034}};
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"a40\"\n" + kQuiet, clock);
  auto gpu = sim->gpu(0);
  // An eighth of the training at each limit, on a GPU that has been busy for a while.
  const SimulatedWork training = sim->model_work(0, 23.947_s / 8, 0.155);
  for (const auto& [limit, seconds, joules] : kSweep) {
    ASSERT_TRUE(gpu->set_power_limit({limit}).ok());
    ASSERT_TRUE(sim->set_load(0, 1).ok());
    clock.advance(100_s);
    ASSERT_TRUE(sim->set_load(0, 0).ok());
    const Cost found = cost(*sim, 0, training);
    EXPECT_NEAR(found.seconds * 8 / seconds, 1, 0.03) << limit;
    EXPECT_NEAR(found.joules * 8 / joules, 1, 0.03) << limit;
  }
}

TEST(Simulation, RunsWorkAtTheClockInForce) {
  ManualClock clock;
  auto sim = simulation(
      "[[gpu]]\nmodel = \"a100-sxm\"\nleakage = 0\nswitch_ms = 1\nslow_pair_share = 0\n" + kQuiet,
      clock);
  auto gpu = sim->gpu(0);
  const SimulatedWork work{{{900_MHz, 2.0_s, 200_W}, {1200_MHz, 1.0_s, 300_W}}};
  for (const auto& [mhz, seconds, watts] :
       {std::tuple{900, 2.0, 200.0}, {1200, 1.0, 300.0}, {1050, 1.5, 250.0}, {450, 4.0, 200.0}}) {
    ASSERT_TRUE(gpu->set_locked_clocks(ClockDomain::kGraphics, {{mhz}, {mhz}}).ok());
    clock.advance(1_s);
    const Cost found = cost(*sim, 0, work);
    EXPECT_NEAR(found.seconds, seconds, 1e-6) << mhz;
    EXPECT_NEAR(found.joules, seconds * watts, 1e-3) << mhz;
  }
}

/// A clock that counts sleeps until a time in the past. Each of these sleeps takes 1 ms.
class CountingClock final : public Clock {
 public:
  explicit CountingClock(Instant start) : now_(start) {}
  Instant now() const override { return now_; }
  void sleep_until(Instant until) override {
    if (until <= now_) ++late_;
    now_ = until > now_ ? until : now_ + 0.001_s;
  }
  void advance(Seconds by) { now_ = now_ + by; }
  int late() const { return late_; }

 private:
  Instant now_;
  int late_ = 0;
};

TEST(Simulation, SleepsWhileItWorksHoweverOldItIs) {
  for (const Seconds age : {1_s, 7200_s, 1e6_s}) {
    CountingClock clock({});
    auto sim = simulation("[[gpu]]\nmodel = \"a100-sxm\"\n" + kQuiet, clock);
    clock.advance(age);
    EXPECT_NEAR(cost(*sim, 0, {{{1410_MHz, 1.0_s, 300_W}}}).seconds, 1, 0.01) << age.value;
    EXPECT_EQ(clock.late(), 0) << age.value;
  }
}

TEST(Simulation, NamesGpusApartAndTheSameEveryTime) {
  ManualClock clock;
  const std::string toml = "[[gpu]]\nmodel = \"h100-sxm\"\ncount = 3\n[[gpu]]\nmodel = \"A40\"\n";
  auto a = simulation(toml, clock), b = simulation(toml, clock);
  ASSERT_EQ(a->gpus(), 4);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(a->gpu(i)->identity().uuid, b->gpu(i)->identity().uuid);
    EXPECT_EQ(a->gpu(i)->identity().index, i);
    for (int j = 0; j < i; ++j) {
      EXPECT_NE(a->gpu(i)->identity().uuid, a->gpu(j)->identity().uuid);
      EXPECT_LT(a->gpu(j)->identity().pci, a->gpu(i)->identity().pci);
    }
  }
  EXPECT_EQ(a->gpu(3)->identity().name, "NVIDIA A40");
  EXPECT_GT(a->gpu(0)->identity().speed, a->gpu(3)->identity().speed);
}

TEST(SimulatedGpu, RoundsClocksDownToSupportedOnes) {
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"a100-sxm\"\n", clock);
  auto gpu = sim->gpu(0);
  ASSERT_TRUE(gpu->set_locked_clocks(ClockDomain::kGraphics, {100_MHz, 1004_MHz}).ok());
  EXPECT_EQ(**gpu->locked_clocks(ClockDomain::kGraphics), (ClockRange{210_MHz, 990_MHz}));
  ASSERT_TRUE(sim->set_load(0, 0.5).ok());
  clock.advance(2_s);
  EXPECT_EQ(*gpu->clock(ClockDomain::kGraphics), 990_MHz);
  ASSERT_TRUE(gpu->reset_locked_clocks(ClockDomain::kGraphics).ok());
  EXPECT_FALSE(*gpu->locked_clocks(ClockDomain::kGraphics));
  clock.advance(2_s);
  EXPECT_EQ(*gpu->clock(ClockDomain::kGraphics), 1410_MHz);
  EXPECT_FALSE(gpu->set_locked_clocks(ClockDomain::kGraphics, {900_MHz, 800_MHz}).ok());
}

TEST(SimulatedGpu, RefusesALimitOutOfRangeAndNamesTheRange) {
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"a40\"\nother_power_limit_w = 250\n", clock);
  auto gpu = sim->gpu(0);
  EXPECT_THAT(gpu->set_power_limit(301_W).error().text(), HasSubstr("100 to 300 W"));
  EXPECT_EQ(gpu->set_power_limit({std::nan("")}).error().code, ErrorCode::kInvalidInput);
  ASSERT_TRUE(gpu->set_power_limit(280_W).ok());
  EXPECT_EQ(gpu->power_limit()->value, 280);
  EXPECT_EQ(gpu->enforced_power_limit()->value, 250);
  EXPECT_EQ(gpu->power_limit_range()->factory, 300_W);
}

TEST(SimulatedGpu, ACallThatLocksTakesItsTime) {
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"a40\"\ncall_ms = 12\n", clock);
  const Instant before = clock.now();
  ASSERT_TRUE(sim->gpu(0)->set_locked_clocks(ClockDomain::kGraphics, {900_MHz, 900_MHz}).ok());
  EXPECT_NEAR((clock.now() - before).value, 0.012, 1e-9);
}

TEST(SimulatedGpu, MigRefusesControlAndSaysWhy) {
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"a100-sxm\"\nmig = true\n", clock);
  auto gpu = sim->gpu(0);
  EXPECT_TRUE(gpu->identity().is_mig);
  const Status refused = gpu->set_power_limit(300_W);
  EXPECT_EQ(refused.error().code, ErrorCode::kNotSupported);
  EXPECT_THAT(refused.error().text(), HasSubstr("MIG"));
  EXPECT_TRUE(gpu->total_energy().ok());
}

TEST(SimulatedGpu, Gh200MetersTheWholeModule) {
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"gh200\"\nmodule_power_w = 100\n" + kQuiet, clock);
  auto gpu = sim->gpu(0);
  EXPECT_EQ(gpu->power_scope(), PowerScope::kModule);
  clock.advance(100_s);
  EXPECT_NEAR(gpu->average_power()->value, sim->truth(0).power.value, 0.01);
  EXPECT_GT(gpu->average_power()->value, 150);
  EXPECT_NEAR(gpu->total_energy()->value, 100 * sim->truth(0).power.value, 20);
}

TEST(SimulatedGpu, SensorsAreOffByTheirGainAndNoise) {
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"a100-sxm\"\ngain = 1.05\nnoise = 0.01\n", clock);
  auto gpu = sim->gpu(0);
  ASSERT_TRUE(sim->set_load(0, 0.5).ok());
  clock.advance(600_s);
  double sum = 0, squares = 0;
  constexpr int kReadings = 2000;
  const double truth = sim->truth(0).power.value;
  for (int i = 0; i < kReadings; ++i) {
    clock.advance(0.1_s);
    const double off = gpu->instant_power()->value / truth - 1;
    sum += off;
    squares += off * off;
  }
  const double mean = sum / kReadings;
  EXPECT_NEAR(mean, 0.05, 0.001);
  EXPECT_NEAR(std::sqrt(squares / kReadings - mean * mean), 0.0105, 0.001);
  EXPECT_NEAR(gpu->total_energy()->value / sim->truth(0).energy.value, 1.05, 0.001);
}

TEST(Simulation, WorksAtTheSameTimeShareTheGpu) {
  // Two streams on one GPU, from one thread: the second starts while the first still runs.
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"a100-sxm\"\n", clock);
  const SimulatedWork work{{{1410_MHz, 1.0_s, 300_W}}};
  EXPECT_NEAR(cost(*sim, 0, work).seconds, 1, 1e-6);
  EXPECT_EQ(sim->run(0, {}).error().code, ErrorCode::kInvalidInput);
  EXPECT_EQ(sim->run(0, {{{900_MHz, 1.0_s, 1_W}, {900_MHz, 1.0_s, 1_W}}}).error().code,
            ErrorCode::kInvalidInput);
  EXPECT_EQ(sim->run(1, work).error().code, ErrorCode::kNotFound);
}

TEST(Diagnostics, OfPermissionAndLossComeAndGo) {
  ManualClock clock;
  auto sim = simulation(
      "[[gpu]]\nmodel = \"a40\"\ncount = 2\n"
      "[[fault]]\nkind = \"no_permission\"\ngpu = 0\nat_s = 5\nfor_s = 5\n"
      "[[fault]]\nkind = \"gpu_lost\"\ngpu = 1\nafter_calls = 3\nfor_calls = 2\n",
      clock);
  auto first = sim->gpu(0), second = sim->gpu(1);
  EXPECT_TRUE(first->set_power_limit(200_W).ok());
  clock.sleep_until(sim->began() + 6_s);
  EXPECT_EQ(first->set_power_limit(200_W).error().code, ErrorCode::kNoPermission);
  EXPECT_TRUE(first->power_limit().ok());
  clock.sleep_until(sim->began() + 10_s);
  EXPECT_TRUE(first->set_power_limit(200_W).ok());
  for (int call = 1; call <= 3; ++call) EXPECT_TRUE(second->power_limit().ok()) << call;
  for (int call = 4; call <= 5; ++call) {
    EXPECT_EQ(second->power_limit().error().code, ErrorCode::kUnavailable) << call;
  }
  EXPECT_TRUE(second->power_limit().ok());
}

TEST(Diagnostics, OfLimitsCountersAndCalls) {
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"a40\"\ncount = 4\n" + kQuiet +
                            "[[fault]]\nkind = \"limit_rounded\"\ngpu = 0\nto_multiple_of_w = 25\n"
                            "[[fault]]\nkind = \"counter_wrap\"\ngpu = 1\nevery_j = 1000\n"
                            "[[fault]]\nkind = \"counter_reset\"\ngpu = 2\nat_s = 60\n"
                            "[[fault]]\nkind = \"slow_call\"\ngpu = 3\ncalls = \"sets\"\n",
                        clock);
  ASSERT_TRUE(sim->gpu(0)->set_power_limit(263_W).ok());
  EXPECT_EQ(sim->gpu(0)->power_limit()->value, 250);
  double highest = 0;
  for (int i = 0; i < 100; ++i) {
    clock.advance(1_s);
    highest = std::max(highest, sim->gpu(1)->total_energy()->value);
  }
  EXPECT_LT(highest, 1000);
  EXPECT_GT(highest, 900);
  EXPECT_GT(sim->truth(1).energy.value, 2000);
  EXPECT_NEAR(sim->gpu(2)->total_energy()->value, 40 * sim->truth(2).power.value, 5);
  const Instant before = clock.now();
  ASSERT_TRUE(sim->gpu(3)->power_limit().ok());
  EXPECT_EQ(clock.now(), before);
  ASSERT_TRUE(sim->gpu(3)->set_power_limit(200_W).ok());
  EXPECT_GE((clock.now() - before).value, 0.5);
}

TEST(Diagnostics, OfThrottlingHoldTheClockAndGiveTheReason) {
  ManualClock clock;
  auto sim = simulation(
      "[[gpu]]\nmodel = \"a100-sxm\"\n"
      "[[fault]]\nkind = \"throttling\"\nreason = \"power_brake\"\nclock_share = 0.5\nat_s = "
      "2\nfor_s = 3\n",
      clock);
  auto gpu = sim->gpu(0);
  ASSERT_TRUE(sim->set_load(0, 0.3).ok());
  clock.advance(1_s);
  EXPECT_FALSE(gpu->event_reasons()->throttled());
  clock.advance(2_s);
  EXPECT_EQ(*gpu->clock(ClockDomain::kGraphics), 705_MHz);
  EXPECT_EQ(gpu->event_reasons()->text(), "hardware slowdown, power brake");
  clock.advance(3_s);
  EXPECT_EQ(*gpu->clock(ClockDomain::kGraphics), 1410_MHz);
  EXPECT_FALSE(gpu->event_reasons()->throttled());
}

TEST(SimulatedCpus, CountEnergy) {
  ManualClock clock;
  auto sim = simulation("[[gpu]]\nmodel = \"a40\"\n[[cpu]]\ncount = 2\npower_w = 80\ndram_w = 10\n",
                        clock);
  auto cpus = sim->cpus();
  ASSERT_EQ(cpus.size(), 2u);
  clock.advance(10_s);
  EXPECT_NEAR(cpus[1]->total_energy()->package.value, 800, 1e-6);
  EXPECT_NEAR(cpus[1]->total_energy()->dram->value, 100, 1e-6);
  EXPECT_EQ(cpus[1]->name(), "package-1");
}

}  // namespace
}  // namespace harpe::device
