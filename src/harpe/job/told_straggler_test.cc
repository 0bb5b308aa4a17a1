// Stragglers that a job is told of, against what its ranks measure.

#include <gtest/gtest.h>

#include <string>

#include "harpe/job/played_job.h"

namespace harpe {
namespace {

constexpr int kStages = 4;
constexpr int kSlow = 2;  // the pipeline that is told

/// A job at its plan.
struct Told : Played {
  explicit Told(double noise = 0.001, std::uint64_t seed = 1)
      : Played(small_spec(4), {.noise = noise, .seed = seed}) {
    EXPECT_TRUE(training.register_all(job).ok());
    EXPECT_TRUE(running());
    settle();
    training.notices.clear();
  }

  void slow_down(double factor) {
    for (int stage = 0; stage < kStages; ++stage) training.slow[{kSlow, stage}] = factor;
  }
  void tell(double factor) {
    ASSERT_TRUE(job.set_straggler({.pipeline = kSlow, .factor = factor}, training.now()).ok());
  }
  int warnings(const std::string& part = {}) const {
    int count = 0;
    for (const Notice& notice : training.notices)
      count +=
          notice.level == Notice::Level::kWarning && notice.text.find(part) != std::string::npos;
    return count;
  }
};

TEST(ToldStraggler, IsNotDoubtedWhereItIsAsSlowAsTold) {
  for (const double noise : {0.002, 0.01, 0.02}) {
    for (const double factor : {1.02, 1.05, 1.1, 1.2, 1.5, 3.0}) {
      Told played(noise, static_cast<std::uint64_t>(factor * 1000));
      played.slow_down(factor);
      played.tell(factor);
      played.training.run(played.job, 150);
      EXPECT_EQ(played.warnings(), 0) << "noise " << noise << ", factor " << factor;
    }
  }
}

TEST(ToldStraggler, IsNotDoubtedWhereOneOfItsStagesIsSlow) {
  Told played(0.01);
  played.training.slow[{kSlow, 1}] = 1.3;
  played.tell(1.25);
  played.training.run(played.job, 150);
  EXPECT_EQ(played.warnings(), 0);
}

TEST(ToldStraggler, ThatIsHealthyIsDoubtedOnce) {
  for (const double factor : {1.1, 1.4}) {
    Told played(0.01);
    played.tell(factor);
    played.training.run(played.job, 9);
    EXPECT_EQ(played.warnings(), 0) << "a moment's impression";
    played.training.run(played.job, 100);
    EXPECT_EQ(played.warnings("pipeline 2 is told to be"), 1);
    EXPECT_EQ(played.warnings(), 1);
    EXPECT_EQ(played.job.phase(), JobPhase::kStraggling) << "it is believed all the same";
    // Another word, another doubt.
    played.tell(factor + 0.1);
    played.training.run(played.job, 50);
    EXPECT_EQ(played.warnings(), 2);
  }
}

TEST(ToldStraggler, ThatIsMuchSlowerIsDoubtedOnce) {
  Told played(0.01);
  played.slow_down(1.5);
  played.tell(1.2);
  played.training.run(played.job, 100);
  EXPECT_EQ(played.warnings("longer than the stragglers that were told"), 1);
  EXPECT_EQ(played.warnings(), 1);
}

}  // namespace
}  // namespace harpe
