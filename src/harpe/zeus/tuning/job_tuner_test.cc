// Tuners in the processes of one job, here threads: they make the same decisions, from the
// measurements of all processes.

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harpe/zeus/power_limit/power_limits_testing.h"
#include "harpe/zeus/tuning/job_agreement.h"
#include "harpe/zeus/tuning/simulated_job_testing.h"

namespace harpe::zeus {
namespace {

/// Reductions over threads. If a thread does not take part, the others hang, as in a job, until the
/// test's time limit.
class Meeting {
 public:
  explicit Meeting(int processes) : all_(processes), values_(static_cast<std::size_t>(processes)) {}

  void reduce(std::size_t process, Reduction how, std::span<double> values) {
    values_[process].assign(values.begin(), values.end());
    all_.arrive_and_wait();
    for (std::size_t i = 0; i < values.size(); ++i) {
      double total = values_[0].at(i);
      for (std::size_t other = 1; other < values_.size(); ++other) {
        const double one = values_[other].at(i);
        total = how == Reduction::kSum ? total + one : std::max(total, one);
      }
      values[i] = total;
    }
    if (process == 0) ++reductions;
    all_.arrive_and_wait();
  }

  std::atomic<int> reductions = 0;

 private:
  std::barrier<> all_;
  std::vector<std::vector<double>> values_;
};

class ThreadPeer final : public Peers {
 public:
  ThreadPeer(Meeting& meeting, std::size_t process) : meeting_(meeting), process_(process) {}
  Status reduce(Reduction how, std::span<double> values) override {
    if (breaks) return Error::of(ErrorCode::kUnavailable, "the network is gone");
    meeting_.reduce(process_, how, values);
    return ok_status();
  }
  bool breaks = false;

 private:
  Meeting& meeting_;
  std::size_t process_;
};

constexpr Selector kBound{.kind = Selector::Kind::kEnergy, .gpus = 3, .most_slowdown = 1.1};

/// A job of processes that train in step, with a tuner in each.
class JobTunerTest : public ::testing::Test {
 protected:
  static constexpr int kProcesses = 3;

  JobTunerTest() {
    for (unsigned i = 0; i < kProcesses; ++i) {
      jobs_.push_back(std::make_unique<SimulatedJob>(i + 1));
      peers_.push_back(std::make_unique<ThreadPeer>(meeting_, i));
    }
  }

  /// Runs `work` of each process in its own thread.
  template <class Work>
  std::vector<TuningResult> run(Work work, TunerOptions options = {.selector = kBound}) {
    std::vector<TuningResult> results(kProcesses);
    std::vector<std::jthread> threads;
    for (std::size_t i = 0; i < kProcesses; ++i) {
      threads.emplace_back([&, i] {
        auto tuner = Tuner::make(options, *jobs_[i], *jobs_[i], peers_[i].get()).take();
        tuner->start();
        work(*tuner, *jobs_[i], i);
        jobs_[i]->end(*tuner);
        results[i] = tuner->result();
      });
    }
    threads.clear();
    return results;
  }

  void expect_all_chose(const std::vector<TuningResult>& results, double lowest, double highest) {
    for (std::size_t i = 0; i < results.size(); ++i) {
      ASSERT_TRUE(results[i].decided && results[i].choice) << results[i].failure;
      EXPECT_EQ(results[i].choice, results[0].choice);
      EXPECT_EQ(results[i].measurements.size(), results[0].measurements.size());
      EXPECT_EQ(jobs_[i]->setting(), results[i].knob[*results[i].choice]);
    }
    EXPECT_GE(jobs_[0]->setting(), lowest);
    EXPECT_LE(jobs_[0]->setting(), highest);
  }

  Meeting meeting_{kProcesses};
  std::vector<std::unique_ptr<SimulatedJob>> jobs_;
  std::vector<std::unique_ptr<ThreadPeer>> peers_;
};

TEST_F(JobTunerTest, AllChooseTheSameByTheSumOfEnergiesAndTheLongestTime) {
  // One process's GPU gains from lower limits, and is the only GPU that they slow down.
  for (const unsigned i : {1U, 2U}) {
    jobs_[i]->most_power = 120;
    jobs_[i]->exponent = 0;
  }
  const auto results =
      run([](Tuner& tuner, SimulatedJob& job, std::size_t) { job.run(tuner, 1000); });
  expect_all_chose(results, 240, 260);
  const double limit = jobs_[0]->setting();
  double energy = 0, saved = 0;
  for (const auto& job : jobs_) energy += job->energy_of(300);
  for (const TuningResult& result : results) saved += result.saving.saved.value;
  const Measurement& highest = results[2].measurements.at(0);
  EXPECT_NEAR(highest.energy.value, energy, 0.02 * energy);
  EXPECT_NEAR(highest.time.value, jobs_[0]->time_of(300), 0.01 * highest.time.value);
  EXPECT_LE(jobs_[0]->time_of(limit) / jobs_[0]->time_of(300), 1.11);
  ASSERT_TRUE(results[1].job_saving.has_value());
  EXPECT_NEAR(results[1].job_saving->saved.value, saved, 0.25 * saved) << "as of the last meeting";
}

TEST_F(JobTunerTest, EpochsPausesAndProcessesOfUnequalScatterKeepThemInStep) {
  jobs_[1]->base = 0.19;
  jobs_[2]->look_ns = 5'000'000;
  const auto results =
      run([](Tuner& tuner, SimulatedJob& job, std::size_t) { job.run(tuner, 1000, 7); });
  expect_all_chose(results, 240, 290);
  EXPECT_LT(meeting_.reductions, 300) << "some a window, then two every 10 s";
}

TEST_F(JobTunerTest, ADriftOfOneHasAllProfileAgain) {
  const auto results = run([](Tuner& tuner, SimulatedJob& job, std::size_t i) {
    job.run(tuner, 1600);
    if (i == 2) job.base = 0.3;
    job.run(tuner, 900);
  });
  expect_all_chose(results, 240, 260);
  for (const TuningResult& result : results) EXPECT_EQ(result.profilings, 2);
  EXPECT_NEAR(results[0].measurements.at(0).time.value, 0.3, 0.01) << "the longest counts";
}

TEST_F(JobTunerTest, WhereOneCanSetNoMoreAllEndAndNoneIsLeftSlow) {
  for (const int steps : {15, 40, 700}) {  // in a warm-up, in a window, once settled
    SCOPED_TRACE(steps);
    const auto results = run([steps](Tuner& tuner, SimulatedJob& job, std::size_t i) {
      job.run(tuner, steps);
      if (i == 1) tuner.fail(Error::of(ErrorCode::kUnavailable, "the lease has ended"));
      job.run(tuner, 300);
      EXPECT_EQ(i == 1 ? 300 : job.setting(), 300);
    });
    EXPECT_EQ(results[1].failure, "the lease has ended");
    EXPECT_EQ(results[0].failure, "another process of the job can no longer set or measure");
  }
}

TEST_F(JobTunerTest, AReductionThatFailsEndsTheTuningWhereItFails) {
  const auto results = run([this](Tuner& tuner, SimulatedJob& job, std::size_t i) {
    job.run(tuner, 15);
    peers_[i]->breaks = true;  // like a network failure, which affects all processes
    job.run(tuner, 100);
    EXPECT_EQ(job.setting(), 300);
  });
  for (const TuningResult& result : results) EXPECT_EQ(result.failure, "the network is gone");
}

TEST_F(JobTunerTest, ProcessesThatMaySetDifferentThingsSetNothing) {
  jobs_[1] = std::make_unique<SimulatedJob>(1, 200);
  const auto results = run([](Tuner& tuner, SimulatedJob& job, std::size_t) {
    job.run(tuner, 100);
    EXPECT_EQ(job.sets, 0);
  });
  for (const TuningResult& result : results) {
    EXPECT_EQ(result.failure, "the job's processes cannot all use the same settings on their GPUs");
  }
}

TEST_F(JobTunerTest, AnEarlierRunIsUsedWhereAllKnowIt) {
  const std::vector<Measurement> known = {{300, {0.2}, {168}}, {250, {0.2154}, {161}}};
  const auto work = [](Tuner& tuner, SimulatedJob& job, std::size_t) { job.run(tuner, 400); };
  for (const TuningResult& result : run(work, {.selector = kBound, .known = known})) {
    EXPECT_TRUE(result.from_profile);
    EXPECT_EQ(result.profilings, 0);
  }
  // If the file is on the disk of only one node, all processes profile.
  std::vector<TuningResult> results(kProcesses);
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < kProcesses; ++i) {
    threads.emplace_back([&, i] {
      TunerOptions options{.selector = kBound};
      if (i == 0) options.known = known;
      auto tuner = Tuner::make(options, *jobs_[i], *jobs_[i], peers_[i].get()).take();
      tuner->start();
      work(*tuner, *jobs_[i], i);
      jobs_[i]->end(*tuner);
      results[i] = tuner->result();
    });
  }
  threads.clear();
  for (const TuningResult& result : results) EXPECT_EQ(result.profilings, 1);
}

TEST(JobAgreement, DigestsTellKnobsApart) {
  const Knob one = power_limits({100}, {300}, {10});
  EXPECT_EQ(digest_of(one), digest_of(power_limits({100}, {300}, {10})));
  EXPECT_NE(digest_of(one), digest_of(power_limits({100}, {300}, {20})));
  EXPECT_NE(digest_of(Knob::make(KnobKind::kGraphicsClock, one.settings()).take()), digest_of(one));
}

}  // namespace
}  // namespace harpe::zeus
