// Predictions compared with measurements on real GPUs.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>

#include "harpe/plan/frontier/measured_runs_testing.h"

namespace harpe::plan::measured {
namespace {

/// Mean and largest of absolute relative errors, in percent.
class Errors {
 public:
  void add(double predicted, double measured) {
    const double error = 100 * std::abs(predicted / measured - 1);
    sum_ += error;
    largest_ = std::max(largest_, error);
    ++count_;
  }
  void add(const Errors& other) {
    sum_ += other.sum_;
    largest_ = std::max(largest_, other.largest_);
    count_ += other.count_;
  }
  double mean() const { return sum_ / count_; }
  double largest() const { return largest_; }
  int count() const { return count_; }

 private:
  double sum_ = 0;
  double largest_ = 0;
  int count_ = 0;
};

struct Validation {
  Errors time, energy;                        ///< against the measurement
  Errors calibrated_time, calibrated_energy;  ///< against the published model
  std::size_t unmeasured = 0;                 ///< instructions at clocks not in the profile
  void add(const Validation& other) {
    time.add(other.time);
    energy.add(other.energy);
    calibrated_time.add(other.calibrated_time);
    calibrated_energy.add(other.calibrated_energy);
    unmeasured += other.unmeasured;
  }
};

/// Returns the number of instructions at clocks that the profile lacks although it has others.
std::size_t unmeasured_clocks(const Plan& plan, const Profile& profile) {
  std::size_t count = 0;
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    for (const PlannedInstruction& i : plan.instructions[stage]) {
      const auto points = profile.points(static_cast<int>(stage), i.chunk, i.kind);
      const bool is_there =
          std::ranges::find(points, i.clock, &OperatingPoint::clock) != points.end();
      count += i.clock != Megahertz{0} && !points.empty() && !is_there;
    }
  }
  return count;
}

Validation validate(const Workload& workload) {
  const Pipeline pipeline = pipeline_of(workload);
  Validation found;
  for (const Workload::Run& run : workload.runs) {
    const Plan plan =
        must(plan_from_clocks(pipeline, workload.profile, run.clocks,
                              {.blocking_power = workload.blocking_power, .interpolate = true}));
    const Prediction predicted = must(predict(plan, workload.profile, workload.options));
    found.unmeasured += unmeasured_clocks(plan, workload.profile);
    found.time.add(predicted.iteration_time.value, run.time.value);
    found.energy.add(predicted.iteration_energy.value, run.energy.value);
    found.calibrated_time.add(predicted.iteration_time.value, run.calibrated_time.value);
    found.calibrated_energy.add(predicted.iteration_energy.value, run.calibrated_energy.value);
  }
  return found;
}

void print(const std::string& name, const Validation& v) {
  std::printf("| %-15s | %5d | %4.2f (%4.2f) | %4.2f (%4.2f) | %4.2f | %4.2f | %4zu |\n",
              name.c_str(), v.time.count(), v.time.mean(), v.time.largest(), v.energy.mean(),
              v.energy.largest(), v.calibrated_time.mean(), v.calibrated_energy.mean(),
              v.unmeasured);
}

class PredictMeasured : public testing::Test {
 protected:
  void SetUp() override {
    const std::vector<Workload> workloads = measured_workloads();
    if (workloads.empty()) GTEST_SKIP() << "no measured plans";
    std::printf("| %-15s | %5s | %s |\n", "workload", "plans",
                "time % | energy % | time, energy against published model % | interpolated");
    for (const Workload& workload : workloads) {
      found_[workload.name] = validate(workload);
      print(workload.name, found_[workload.name]);
      all_.add(found_[workload.name]);
    }
    print("all", all_);
  }

  std::map<std::string, Validation> found_;
  Validation all_;
};

TEST_F(PredictMeasured, IsWithinHalfAPercentOnAverage) {
  EXPECT_EQ(all_.time.count(), 165);
  EXPECT_LT(all_.time.mean(), 0.5);
  EXPECT_LT(all_.energy.mean(), 0.5);
  for (const auto& [workload, errors] : found_) {
    // The time to load images varied from run to run: the same clocks took 12.526 and 12.607 s,
    // and neighbours on the frontier differ by over 1 %, which no prediction can follow.
    EXPECT_LT(errors.time.mean(), workload == "wide-resnet101" ? 0.8 : 0.5) << workload;
    EXPECT_LT(errors.energy.mean(), 0.5) << workload;
  }
}

TEST_F(PredictMeasured, AgreesWithThePublishedModelWhereLoadingIsSteady) {
  for (const char* const workload : {"bloom-3b", "gpt3-1.3b"}) {
    EXPECT_LT(found_[workload].calibrated_time.mean(), 0.03) << workload;
    EXPECT_LT(found_[workload].calibrated_energy.mean(), 0.03) << workload;
  }
}

}  // namespace
}  // namespace harpe::plan::measured
