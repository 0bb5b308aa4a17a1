// Deadlines are met with the requested probability, based on the job's own spread of progress.

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

#include "harpe/training/carbon_control/carbon_controller_testing.h"

namespace harpe::training {
namespace {

constexpr int kDeadlineJobs = HARPE_UNDER_SANITIZERS ? 40 : 200;
constexpr unsigned kDeadlineSeed = 4711;

struct Noise {
  const char* name;
  std::function<double(std::mt19937_64&, double run)> lose;
};

std::vector<Noise> noises() {
  return {{"iterations that vary",
           [](std::mt19937_64& random, double run) {
             // 1 % of each hour with a deviation of 100 s, independent between pieces.
             std::normal_distribution<double> slow(0.01 * run, 100 * std::sqrt(run / 3600));
             return std::clamp(slow(random), -0.2 * run, 0.9 * run);
           }},
          {"restarts", [](std::mt19937_64& random, double run) {
             double lost = 0;
             std::bernoulli_distribution fails(0.05 * std::min(1.0, run / 3600));
             if (fails(random)) lost = std::min(run, 900.0);
             return lost;
           }}};
}

TEST(DeadlineProbability, HoldsAsOftenAsItSays) {
  SCOPED_TRACE(kDeadlineSeed);
  std::mt19937_64 random(kDeadlineSeed);
  std::vector<double> hours;
  for (int i = 0; i < 24; ++i) hours.push_back(300 + 200 * std::sin(i * 3.14159265 / 12));
  for (const Noise& noise : noises()) {
    for (const bool pauses : {false, true}) {
      CarbonTerms terms;
      terms.iterations = 10 * 360;
      terms.deadline_factor = 1.4;
      terms.probability = 0.9;
      if (pauses) terms.pause = CarbonPause{.idle_power = Watts{0}};
      int missed = 0;
      double slack = 0;
      for (int job = 0; job < kDeadlineJobs; ++job) {
        std::vector<double> shifted = hours;
        std::rotate(shifted.begin(), shifted.begin() + job % 24, shifted.end());
        const PlayedControl played =
            play_testing(terms, shifted, [&](double run) { return noise.lose(random, run); });
        if (played.finished > 14 * (1 + 1e-9)) ++missed;
        slack += 14 - played.finished;
      }
      const double most = (1 - terms.probability) * kDeadlineJobs;
      EXPECT_LE(missed, most + 3 * std::sqrt(most)) << noise.name << ", pauses " << pauses;
      // Reserve time that was not needed could have been used to run slower.
      EXPECT_LT(slack / kDeadlineJobs, 1.5) << noise.name << ", pauses " << pauses;
      RecordProperty(std::string(noise.name) + (pauses ? ", pauses" : ""), missed);
    }
  }
}

}  // namespace
}  // namespace harpe::training
