#include <gtest/gtest.h>

#include <cmath>

#include "harpe/zeus/batch_size/surrogate.h"

namespace harpe::zeus {
namespace {

/// Returns the mean by its definition: over the normal distribution, in small steps.
double summed_whole_epochs(double mean, double deviation) {
  constexpr double kStep = 0.001;
  double sum = 0, weights = 0;
  for (double z = -6; z < 6; z += kStep) {
    const double weight = std::exp(-z * z / 2);
    sum += weight * std::ceil(std::exp(mean + z * deviation));
    weights += weight;
  }
  return sum / weights;
}

TEST(WholeEpochs, AreTheMeanOfTheNextWholeNumbers) {
  for (const double needed : {0.3, 0.9, 1.4, 2.6, 7.5, 15.0, 40.0}) {
    for (const double deviation : {0.05, 0.2, 0.6}) {
      const double mean = std::log(needed);
      const double expected = summed_whole_epochs(mean, deviation);
      EXPECT_NEAR(expected_whole_epochs({.mean = mean, .variance = deviation * deviation}),
                  expected, 0.01 * expected)
          << needed << " epochs, deviation " << deviation;
    }
  }
}

TEST(WholeEpochs, JumpWhereNoDoubtIsLeft) {
  const auto exactly = [](double needed) {
    return expected_whole_epochs({.mean = std::log(needed), .variance = 1e-12});
  };
  EXPECT_NEAR(exactly(0.99), 1, 1e-6);
  EXPECT_NEAR(exactly(1.01), 2, 1e-6);
  EXPECT_NEAR(exactly(1.99), 2, 1e-6);
}

TEST(WholeEpochs, OfOneSayLittleOfWhatWasNeeded) {
  EXPECT_NEAR(std::exp(needed_for(1).mean), 0.5, 1e-9);
  EXPECT_NEAR(std::sqrt(needed_for(1).variance), 0.58, 0.01);
  EXPECT_NEAR(std::exp(needed_for(20).mean), 19.5, 1e-9);
  EXPECT_LT(std::sqrt(needed_for(20).variance), 0.015);
}

}  // namespace
}  // namespace harpe::zeus
