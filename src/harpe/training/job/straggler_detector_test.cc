#include "harpe/training/job/straggler_detector.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <limits>
#include <ostream>
#include <random>

namespace harpe {

/// Prints the names of test cases. gtest finds this operator here.
static std::ostream& operator<<(std::ostream& out, const JobShape& shape) {
  return out << shape.data << "x" << shape.stages << "x" << shape.tensor;
}

}  // namespace harpe

namespace harpe::training {

namespace {

using testing::IsEmpty;
using testing::SizeIs;

/// A job whose groups are as slow as the test specifies, with noise.
class Cluster {
 public:
  explicit Cluster(JobShape shape, double noise = 0.01, unsigned seed = 20261121)
      : shape_(shape), noise_(noise), random_(seed), detector_(shape) {}

  using Slowness = std::function<double(std::int64_t iteration, int pipeline, int stage)>;

  void run(int iterations, const Slowness& slowness) {
    std::normal_distribution<double> noise(1, noise_);
    std::vector<float> relative(static_cast<std::size_t>(shape_.groups()));
    for (int i = 0; i < iterations; ++i, ++iteration_) {
      for (int pipeline = 0; pipeline < shape_.data; ++pipeline) {
        for (int stage = 0; stage < shape_.stages; ++stage) {
          const double factor = noise(random_);
          relative[shape_.group(pipeline, stage)] =
              static_cast<float>(factor * slowness(iteration_, pipeline, stage));
        }
      }
      detector_.add(iteration_, relative);
    }
  }

  StragglerDetector& detector() { return detector_; }
  std::int64_t iteration() const { return iteration_; }
  std::mt19937& random() { return random_; }

 private:
  JobShape shape_;
  double noise_;
  std::mt19937 random_;
  StragglerDetector detector_;
  std::int64_t iteration_ = 0;
};

double healthy(std::int64_t /*iteration*/, int /*pipeline*/, int /*stage*/) {
  return 1;
}

class Shapes : public testing::TestWithParam<JobShape> {};

TEST_P(Shapes, NoiseIsNoStraggler) {
  for (const double noise : {0.002, 0.01, 0.02}) {
    Cluster cluster(GetParam(), noise);
    for (int i = 0; i < 300; ++i) {
      cluster.run(1, healthy);
      ASSERT_THAT(cluster.detector().workers(), IsEmpty()) << "noise " << noise << ", " << i;
      ASSERT_THAT(cluster.detector().stages(), IsEmpty()) << "noise " << noise << ", " << i;
    }
  }
}

TEST_P(Shapes, ASlowWorkerIsFoundNamedAndMeasured) {
  const JobShape shape = GetParam();
  if (shape.data == 1) GTEST_SKIP() << "in one pipeline worker and stage look alike";
  for (const double factor : {1.1, 1.2, 1.5, 3.0}) {
    Cluster cluster(shape);
    const int pipeline = shape.data - 1, stage = shape.stages / 2;
    cluster.run(20, healthy);
    const std::int64_t since = cluster.iteration();
    const auto slow = [&](std::int64_t, int p, int s) {
      return p == pipeline && s == stage ? factor : 1.0;
    };
    cluster.run(8, slow);
    ASSERT_THAT(cluster.detector().workers(), SizeIs(1)) << factor;
    const SlowWorker& found = cluster.detector().workers()[0];
    EXPECT_EQ(found.pipeline, pipeline);
    EXPECT_EQ(found.stage, stage);
    EXPECT_EQ(found.since, since);
    EXPECT_NEAR(found.factor, factor, 0.02 * factor);
    EXPECT_THAT(cluster.detector().stages(), IsEmpty());
    EXPECT_FALSE(cluster.detector().random().has_value());
    cluster.run(2, healthy);
    EXPECT_THAT(cluster.detector().workers(), IsEmpty()) << "it has healed";
  }
}

TEST_P(Shapes, AStageThatIsSlowEverywhereIsStructural) {
  const JobShape shape = GetParam();
  Cluster cluster(shape);
  cluster.run(20, healthy);
  cluster.run(9, [&](std::int64_t, int, int stage) { return stage == 0 ? 1.18 : 1.0; });
  EXPECT_THAT(cluster.detector().workers(), IsEmpty());
  ASSERT_THAT(cluster.detector().stages(), SizeIs(1));
  EXPECT_EQ(cluster.detector().stages()[0].stage, 0);
  EXPECT_NEAR(cluster.detector().stages()[0].factor, 1.18, 0.02);
}

INSTANTIATE_TEST_SUITE_P(Jobs, Shapes,
                         testing::Values(JobShape{1, 4, 1}, JobShape{2, 4, 2}, JobShape{3, 1, 1},
                                         JobShape{8, 8, 8}, JobShape{64, 2, 1}));

TEST(StragglerDetector, SeveralWorkersAreToldApartWorstFirst) {
  Cluster cluster({16, 4, 8});
  cluster.run(30, [](std::int64_t, int pipeline, int stage) {
    if (pipeline == 3 && stage == 1) return 1.15;
    if (pipeline == 7 && stage == 3) return 1.4;
    return 1.0;
  });
  ASSERT_THAT(cluster.detector().workers(), SizeIs(2));
  EXPECT_EQ(cluster.detector().workers()[0].pipeline, 7);
  EXPECT_EQ(cluster.detector().workers()[1].pipeline, 3);
}

TEST(StragglerDetector, LatenessThatMovesAboutIsRandom) {
  Cluster cluster({16, 2, 1});
  std::uniform_int_distribution<int> any(0, 15);
  int late = 0;
  std::int64_t drawn = -1;
  cluster.run(40, [&](std::int64_t iteration, int pipeline, int) {
    if (iteration != drawn) late = any(cluster.random());
    drawn = iteration;
    return pipeline == late ? 1.5 : 1.0;
  });
  EXPECT_THAT(cluster.detector().workers(), IsEmpty());
  EXPECT_THAT(cluster.detector().stages(), IsEmpty());
  ASSERT_TRUE(cluster.detector().random().has_value());
  EXPECT_NEAR(cluster.detector().random()->median, 1.5, 0.05);
  EXPECT_GT(cluster.detector().random()->groups, 4);
}

TEST(StragglerDetector, AWorkerThatGetsWorseIsMeasuredAgain) {
  Cluster cluster({8, 4, 1});
  const auto slow = [](double factor) {
    return [factor](std::int64_t, int p, int s) { return p == 2 && s == 2 ? factor : 1.0; };
  };
  cluster.run(12, slow(1.1));
  cluster.run(8, slow(1.4));
  ASSERT_THAT(cluster.detector().workers(), SizeIs(1));
  EXPECT_NEAR(cluster.detector().workers()[0].factor, 1.4, 0.03);
  EXPECT_EQ(cluster.detector().workers()[0].since, 0);
}

TEST(StragglerDetector, AWorkerThatIsOffForLongIsNoNoise) {
  constexpr JobShape kOnePipeline{.data = 1, .stages = 2, .tensor = 1};
  Cluster cluster(kOnePipeline, 0.002);
  cluster.run(100, healthy);
  const auto slow = [](std::int64_t, int, int stage) { return stage == 0 ? 1.067 : 1; };
  for (int i = 0; i < 100; ++i) {
    cluster.run(1, slow);
    cluster.detector().measure_anew(0);
  }
  EXPECT_LT(cluster.detector().deviation(), 0.004);
  cluster.run(8, slow);
  EXPECT_NEAR(cluster.detector().factor(0), 1.067, 0.01);
}

TEST(StragglerDetector, MissingReportsSayNothing) {
  Cluster cluster({8, 4, 1});
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  cluster.run(20, [](std::int64_t iteration, int p, int s) {
    if (p == 2 && s == 2) return iteration % 2 == 0 ? 1.3 : kNone;
    return p == 5 ? kNone : 1.0;
  });
  ASSERT_THAT(cluster.detector().workers(), SizeIs(1));
  EXPECT_EQ(cluster.detector().workers()[0].pipeline, 2);
  cluster.run(5, [](std::int64_t, int, int) { return kNone; });
  EXPECT_THAT(cluster.detector().workers(), SizeIs(1)) << "silence heals no worker";
}

TEST(StragglerDetector, ReportsOfThePastAndOfAnotherShapeAreIgnored) {
  StragglerDetector detector({4, 2, 1});
  const std::vector<float> slow{1, 1, 1, 1, 1, 1, 9, 9};
  for (int i = 0; i < 100; ++i) detector.add(5, slow);
  detector.add(3, slow);
  detector.add(6, std::vector<float>{9});
  EXPECT_THAT(detector.workers(), IsEmpty());
}

}  // namespace
}  // namespace harpe::training
