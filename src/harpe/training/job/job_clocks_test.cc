// GPUs without some of the clocks that a job knows.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

constexpr int kStage = 1;

std::set<Megahertz> ordered(const Job& job) {
  std::set<Megahertz> clocks;
  for (int pipeline = 0; pipeline < job.spec().shape.data; ++pipeline)
    for (const StageAssignment& assignments : job.assignments(pipeline, kStage))
      clocks.insert(assignments.clocks.begin(), assignments.clocks.end());
  return clocks;
}

/// A job with plans, whose GPUs of one stage then lack some clocks of its profile.
struct Changed : Played {
  explicit Changed(const JobSpec& spec = small_spec()) : Played(spec) {
    EXPECT_TRUE(training.register_all(job).ok());
    EXPECT_TRUE(running());
    settle();
    const Profile measured = job.profile();
    for (const OperatingPoint& point : measured.points(kStage, 0, InstructionKind::kForward))
      known.push_back(point.clock);
    std::ranges::sort(known, std::greater());
    EXPECT_GT(known.size(), 3U);
  }
  /// Removes clocks, and restarts training or registers the same processes again.
  void lack(const std::vector<Megahertz>& clocks, bool starts_again) {
    training.lacking[kStage] = clocks;
    if (starts_again) training.start_again("second", 0);
    EXPECT_TRUE(training.register_all(job).ok());
  }
  bool sends_only_what_they_have() const {
    return std::ranges::none_of(training.lacking.at(kStage),
                                [&](Megahertz clock) { return ordered(job).contains(clock); });
  }
  bool told(const std::string& text) const {
    return std::ranges::any_of(training.events, [&](const JobEvent& event) {
      return event.text.find(text) != std::string::npos;
    });
  }
  /// Runs until there are plans again. Returns true if that needed measurements.
  bool measures_until_running() {
    bool measures = false;
    for (int i = 0; i < 500; ++i) {
      EXPECT_TRUE(sends_only_what_they_have()) << "after " << i << " iterations";
      measures = measures || job.phase() == JobPhase::kProfiling;
      if (job.phase() == JobPhase::kRunning && job.plans() != nullptr) break;
      training.run(job, 1);
    }
    settle();
    EXPECT_TRUE(sends_only_what_they_have());
    EXPECT_EQ(job.phase(), JobPhase::kRunning);
    for (const plan::TablePlan& plan : job.plans()->plans())
      for (const Megahertz clock : plan.clocks[kStage])
        EXPECT_EQ(std::ranges::count(training.lacking[kStage], clock), 0);
    return measures;
  }

  std::vector<Megahertz> known;  ///< of the profile, highest first
};

TEST(Clocks, ThatGpusLoseAreLeftOutOfPlans) {
  for (const bool starts_again : {true, false}) {
    SCOPED_TRACE(starts_again);
    Changed changed;
    // All clocks of the plan but the highest and the lowest of the profile.
    std::vector<Megahertz> lost;
    for (const Megahertz clock : ordered(changed.job))
      if (clock != changed.known.front() && clock != changed.known.back()) lost.push_back(clock);
    ASSERT_FALSE(lost.empty());
    changed.lack(lost, starts_again);
    EXPECT_FALSE(changed.measures_until_running());
    EXPECT_TRUE(changed.told("do not support all clocks of the plans"));
  }
}

TEST(Clocks, AStageThatLosesItsFastestIsMeasuredAgain) {
  for (const bool starts_again : {true, false}) {
    SCOPED_TRACE(starts_again);
    Changed changed;
    changed.lack({changed.known.front()}, starts_again);
    EXPECT_TRUE(changed.measures_until_running());
    EXPECT_TRUE(changed.told("profiling stage 1: GPUs of stage 1 do not support"));
    const Profile measured = changed.job.profile();
    EXPECT_GT(measured.points(kStage, 0, InstructionKind::kForward).size(), 3U);
  }
}

TEST(Clocks, AProfileOfOtherGpusIsMeasuredInstead) {
  JobSpec spec = small_spec();
  spec.profile = truth_of(spec);
  spec.blocking_power = Watts{80};
  Played played(spec);
  for (const OperatingPoint& point : spec.profile->entries()[0].points)
    played.training.lacking[kStage].push_back(point.clock);
  const std::vector<Megahertz> other{Megahertz{1111}, Megahertz{999}};
  for (const RankCoordinates coordinates : played.training.places()) {
    RankRegistration rank = played.training.registration(coordinates);
    if (coordinates.stage == kStage) rank.clocks = other;
    ASSERT_TRUE(played.job.register_rank(rank, played.training.now()).ok());
  }
  EXPECT_EQ(played.job.phase(), JobPhase::kProfiling);
  EXPECT_EQ(ordered(played.job), std::set<Megahertz>{Megahertz{1111}});
}

TEST(Clocks, ThatAreStillThereChangeNothing) {
  Changed changed;
  const std::string plans = changed.job.plans()->json();
  // Clocks that were never measured.
  std::vector<Megahertz> others;
  for (const Megahertz clock : changed.training.registration({0, kStage, 0}).clocks)
    if (std::ranges::find(changed.known, clock) == changed.known.end()) others.push_back(clock);
  ASSERT_FALSE(others.empty());
  changed.lack(others, true);
  EXPECT_EQ(changed.job.phase(), JobPhase::kRunning);
  EXPECT_EQ(changed.job.plans()->json(), plans);
}

TEST(Clocks, ThatAreLostWhileProfilingAreNotMeasured) {
  Played played(small_spec());
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.training.run_until(
      played.job,
      [&] { return played.job.assignments(0, kStage).back().clocks[0] < Megahertz{1300}; }, 500));
  const Megahertz lost = played.job.assignments(0, kStage).back().clocks[0];
  played.training.lacking[kStage] = {lost};
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  for (int i = 0; i < 500 && played.job.plans() == nullptr; ++i) {
    ASSERT_NE(played.job.assignments(0, kStage).back().clocks[0], lost);
    played.training.run(played.job, 1);
  }
  ASSERT_TRUE(played.running());
}

}  // namespace
}  // namespace harpe::training
