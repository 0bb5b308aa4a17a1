// Costs of short operations against the truth, on simulated GPUs and on a GPU known exactly.

#include "harpe/measure/short_operation.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "harpe/base/statistics.h"
#include "harpe/hw/sim/simulation.h"

namespace harpe {
namespace {

using ::testing::HasSubstr;

/// A GPU whose power follows what runs on it exactly; only its sensors are imperfect.
class BenchGpu final : public Gpu {
 public:
  BenchGpu(ManualClock& clock, std::uint64_t seed) : clock_(&clock), random_(seed) {
    phase_ = 0.1 * std::uniform_real_distribution<double>(0, 1)(random_);
  }

  const GpuIdentity& identity() const override { return identity_; }
  Result<Joules> total_energy() override {
    settle();
    return Joules{counted_};
  }
  Result<Watts> instant_power() override {
    settle();
    return Watts{power_ * 0.93 * std::normal_distribution<double>(1, 0.02)(random_)};
  }
  Result<Megahertz> clock(ClockDomain) override { return Megahertz{clock_mhz_}; }
  Result<std::optional<ClockRange>> locked_clocks(ClockDomain) override { return lock_; }
  Result<EventReasons> event_reasons() override {
    EventReasons reasons;
    if (throttled_above > 0 && clock_mhz_ > throttled_above) {
      reasons.bits = EventReasons::kPowerCap;
    }
    return reasons;
  }
  Status set_locked_clocks(ClockDomain, ClockRange range) override {
    if (refuses) return Error::of(ErrorCode::kNoPermission, "only root may lock clocks");
    lock_ = range;
    clock_mhz_ = range.highest.value;
    return ok_status();
  }
  Status reset_locked_clocks(ClockDomain) override {
    lock_.reset();
    clock_mhz_ = 1410;
    return ok_status();
  }

  static double time(double mhz) { return 0.001 + 0.004 * 1410 / mhz; }
  static double power(double mhz) { return 90 + 250 * std::pow(mhz / 1410, 2.5); }

  /// Runs the operation; each run takes and draws a little more or less.
  OperationSpan run(int count) {
    OperationSpan span{.begin = clock_->now(), .end = {}};
    for (int i = 0; i < count; ++i) {
      const double more = std::normal_distribution<double>(1, 0.02)(random_);
      use(time(clock_mhz_) * more, power(clock_mhz_));
    }
    span.end = clock_->now();
    return span;
  }

  bool refuses = false;
  int throttled_above = 0;
  const std::optional<ClockRange>& lock() const { return lock_; }
  void set_lock(std::optional<ClockRange> lock) { lock_ = lock; }

 private:
  double now() const { return (clock_->now() - Instant{}).value; }
  void settle() {
    if (now() - at_ < 1e-6) return;
    spend(now() - at_, 60);
    power_ = 60;
  }
  /// Advances by `duration` at that power; time that passed otherwise was idle.
  void use(double duration, double watts) {
    settle();
    power_ = watts;
    spend(duration, watts);
    clock_->advance({duration});
    at_ = now();
  }
  void spend(double duration, double watts) {
    while (duration > 0) {
      const double next = (std::floor((at_ - phase_) / 0.1) + 1) * 0.1 + phase_;
      const double part = std::min(duration, std::max(next - at_, 1e-9));
      energy_ += part * watts;
      at_ += part;
      duration -= part;
      if (at_ >= next - 1e-9) counted_ = energy_;
    }
  }

  ManualClock* clock_;
  std::mt19937_64 random_;
  GpuIdentity identity_{.uuid = "GPU-bench", .pci = {}, .name = "Bench", .backend = "test"};
  std::optional<ClockRange> lock_;
  int clock_mhz_ = 1410;
  double phase_ = 0, at_ = 0, energy_ = 0, counted_ = 0, power_ = 60;
};

RunOperation on(BenchGpu& gpu) {
  return [&gpu](int count) -> Result<OperationSpan> { return gpu.run(count); };
}

TEST(ShortOperation, IntervalsHoldTheTruth) {
  int intervals = 0, energies = 0, times = 0;
  double width = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    ManualClock clock;
    BenchGpu gpu(clock, seed);
    ShortOperationOptions options;
    options.clocks = {{900}, {1110}, {1410}};
    options.target = 0.005;
    options.seed = seed;
    const auto result = measure_short_operation(gpu, on(gpu), options, clock);
    ASSERT_TRUE(result.ok()) << result.error().text();
    for (const OperationCost& cost : result->costs) {
      const double time = BenchGpu::time(cost.clock.value);
      const double energy = time * BenchGpu::power(cost.clock.value);
      intervals += 1;
      energies += std::abs(cost.energy.value - energy) <= cost.energy_error.value ? 1 : 0;
      times += std::abs(cost.time.value - time) <= cost.time_error.value ? 1 : 0;
      width += cost.energy_error / cost.energy;
      EXPECT_TRUE(cost.done);
    }
  }
  RecordProperty("energy_coverage", std::to_string(static_cast<double>(energies) / intervals));
  RecordProperty("mean_half_width", std::to_string(width / intervals));
  // 300 intervals: 0.95 +- 0.025 is two standard errors.
  EXPECT_GE(static_cast<double>(energies) / intervals, 0.92) << "width " << width / intervals;
  EXPECT_GE(static_cast<double>(times) / intervals, 0.92);
  EXPECT_LT(width / intervals, 0.005);
}

TEST(ShortOperation, CostsOnASimulatedGpuAreTrue) {
  ManualClock clock(Instant{1'000'000'000});
  const auto simulation = Simulation::make(
      "[[gpu]]\nmodel = \"a100-sxm\"\ngain = 1.0\nleakage = 0.0\ncall_ms = 1\n", "test", clock);
  ASSERT_TRUE(simulation.ok()) << simulation.error().text();
  const auto gpu = (*simulation)->gpu(0);
  const SimulatedWork work{.points = {{{900}, {0.0066}, {180}}, {{1410}, {0.0050}, {330}}}};
  const RunOperation operation = [&](int count) -> Result<OperationSpan> {
    OperationSpan span{.begin = clock.now(), .end = {}};
    for (int i = 0; i < count; ++i) {
      const auto ran = HARPE_TRY((*simulation)->run(0, work));
      span.end = ran.end;
    }
    return span;
  };
  ShortOperationOptions options;
  options.clocks = {{900}, {1410}};
  const auto result = measure_short_operation(*gpu, operation, options, clock);
  ASSERT_TRUE(result.ok()) << result.error().text();
  for (std::size_t i = 0; i < 2; ++i) {
    const OperationCost& cost = result->costs[i];
    const double energy = work.points[i].time.value * work.points[i].power.value;
    EXPECT_TRUE(cost.remark.empty()) << cost.remark;
    EXPECT_NEAR(cost.energy.value, energy, 0.01 * energy + cost.energy_error.value);
    EXPECT_NEAR(cost.time.value, work.points[i].time.value, 1e-3 * cost.time.value);
    EXPECT_GE(cost.batches, options.least_batches);
  }
}

TEST(ShortOperation, ShortBatchesAreRefusedUnlessForced) {
  ManualClock clock;
  BenchGpu gpu(clock, 1);
  ShortOperationOptions options;
  options.batch = {0.5};
  const auto refused = measure_short_operation(gpu, on(gpu), options, clock);
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(), HasSubstr("5 counter steps; at least 10"));
  options.force = true;
  EXPECT_TRUE(measure_short_operation(gpu, on(gpu), options, clock).ok());
}

TEST(ShortOperation, ThrottledBatchesAreDiscardedAndTheClockGivenUp) {
  ManualClock clock;
  BenchGpu gpu(clock, 2);
  gpu.throttled_above = 1200;
  ShortOperationOptions options;
  options.clocks = {{900}, {1410}};
  const auto result = measure_short_operation(gpu, on(gpu), options, clock);
  ASSERT_TRUE(result.ok());
  EXPECT_TRUE(result->costs[0].done);
  EXPECT_EQ(result->costs[1].batches, 0);
  EXPECT_EQ(result->costs[1].discarded, options.most_discarded);
  EXPECT_THAT(result->costs[1].remark, HasSubstr("power cap"));
}

TEST(ShortOperation, ItEndsWithItsBudget) {
  ManualClock clock;
  BenchGpu gpu(clock, 3);
  ShortOperationOptions options;
  options.target = 1e-9;
  options.budget = {30};
  const auto result = measure_short_operation(gpu, on(gpu), options, clock);
  ASSERT_TRUE(result.ok());
  EXPECT_FALSE(result->within_budget);
  EXPECT_LE(result->spent.value, 31);
  EXPECT_FALSE(result->costs[0].done);
  EXPECT_GT(result->costs[0].energy_error.value, 0);
}

TEST(ShortOperation, TheLockBeforeIsPutBack) {
  for (const std::optional<ClockRange> before :
       {std::optional<ClockRange>(), std::optional<ClockRange>({{600}, {1200}})}) {
    ManualClock clock;
    BenchGpu gpu(clock, 4);
    gpu.set_lock(before);
    ShortOperationOptions options;
    options.clocks = {{900}};
    ASSERT_TRUE(measure_short_operation(gpu, on(gpu), options, clock).ok());
    EXPECT_EQ(gpu.lock(), before);
    const RunOperation fails = [&](int count) -> Result<OperationSpan> {
      if (clock.now() > Instant{5'000'000'000}) return Error::internal("broken kernel");
      return gpu.run(count);
    };
    EXPECT_FALSE(measure_short_operation(gpu, fails, options, clock).ok());
    EXPECT_EQ(gpu.lock(), before) << "also after a fault";
  }
}

TEST(ShortOperation, WithoutPermissionTheErrorSaysSo) {
  ManualClock clock;
  BenchGpu gpu(clock, 5);
  gpu.refuses = true;
  ShortOperationOptions options;
  options.clocks = {{900}};
  const auto result = measure_short_operation(gpu, on(gpu), options, clock);
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kNoPermission);
}

TEST(Statistics, StudentsQuantilesAreThoseOfTheTables) {
  EXPECT_NEAR(student_quantile(1), 12.706, 0.001);
  EXPECT_NEAR(student_quantile(5), 2.571, 0.005);
  EXPECT_NEAR(student_quantile(10), 2.228, 0.001);
  EXPECT_NEAR(student_quantile(100), 1.984, 0.001);
}

TEST(Statistics, QuantilesInterpolate) {
  const std::vector<double> values = {4, 1, 3, 2};
  EXPECT_DOUBLE_EQ(quantile(values, 0), 1);
  EXPECT_DOUBLE_EQ(quantile(values, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile(values, 1), 4);
}

}  // namespace
}  // namespace harpe
