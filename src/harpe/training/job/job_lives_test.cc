// Random lives of a job: whatever has happened to it, it keeps its promise once nothing happens,
// and claims no saving that was not saved.
//
// HARPE_LIVES=1000 HARPE_FIRST_LIFE=41 tries other lives than the first ones. A single life is
// printed: what happens, what the job logs, and the time of each iteration.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <numeric>
#include <random>
#include <string>

#include "harpe/base/text.h"
#include "harpe/training/job/pausing_job_testing.h"

namespace harpe::training {
namespace {

constexpr int kLifeStages = 3;
/// Allowed excess over 100 iterations. The profile has the slowest time of each stage, so with few
/// pipelines that are slow at different stages, plans are up to 1.5 % too long.
constexpr double kLifeTolerance = 0.015;
constexpr double kEventRate = 0.35;  // per iteration

unsigned from_environment(const char* name, unsigned otherwise) {
  const char* value = std::getenv(name);
  return value == nullptr ? otherwise : static_cast<unsigned>(std::strtoul(value, nullptr, 10));
}

/// A job to which something happens at random times.
class Life : public Pausing {
 public:
  Life(unsigned seed, bool is_printed)
      : Pausing(seed, Seconds{0.3}, spec_of(1 + static_cast<int>(seed % 4)), {.seed = seed}),
        random_(seed),
        is_printed_(is_printed) {
    is_cut = [this](std::size_t rank, Seconds at) { return rank == cut_ && at < cut_until_; };
    training.energy_factor = [this](std::int64_t) { return energy_; };
    while_waiting = [this] {
      if (job.pace()) go_on();
    };
  }

  Joules saved() const { return saved_; }  ///< in truth
  int below(int most) { return static_cast<int>(random_() % static_cast<unsigned>(most)); }

  /// Runs `count` iterations in which something happens, then ends what can end.
  void suffer(int count) {
    for (; count > 0; --count) {
      if (between(0, 1) < kEventRate) happen();
      step();
    }
    if (job.pace()) go_on();
    cut_until_ = {};
    print("calm");
  }

  /// Runs `count` iterations in which nothing happens.
  /// \returns  the longest 100 of them over the allowed time, minus 1. Excluded are the first 20,
  ///           and those that measure the profile
  double slowest_of_calm(int count) {
    constexpr int kSettling = 20;
    constexpr std::size_t kWindow = 100;
    std::deque<double> over;
    double worst = 0;
    int settled = 0;
    for (; count > 0; --count) {
      step();
      settled = job.phase() == JobPhase::kProfiling ? 0 : settled + 1;
      if (settled <= kSettling) over.clear();
      over.push_back(training.last().time / allowed() - 1);
      if (over.size() > kWindow) over.pop_front();
      if (over.size() == kWindow)
        worst = std::max(worst, std::accumulate(over.begin(), over.end(), 0.0) / kWindow);
    }
    return worst;
  }

 private:
  static JobSpec spec_of(int pipelines) {
    JobSpec spec = small_spec(pipelines, kLifeStages, 7);
    spec.plans = 8;
    spec.profiling.most_clocks = 6;
    return spec;
  }
  double between(double least, double most) {
    return std::uniform_real_distribution<double>(least, most)(random_);
  }
  Seconds allowed() const { return training.last().all_max_time * (1 + objective_); }

  void print(const std::string& text) const {
    if (!is_printed_) return;
    std::printf("%5lld  %s\n", static_cast<long long>(training.next_iteration()), text.c_str());
  }

  void step() {
    iterate(1);
    saved_ += training.last().all_max_energy - training.last().energy;
    print(shortest(training.last().time.value, 4) + " s of " + shortest(allowed().value, 4) + " s");
    for (; printed_ < training.events.size(); ++printed_)
      print("  log: " + training.events[printed_].text);
  }

  void declare(int pipeline, double factor) {
    print("declare pipeline " + std::to_string(pipeline) + ": " + shortest(factor, 3));
    EXPECT_TRUE(job.set_straggler({.pipeline = pipeline, .factor = factor}, training.now()).ok());
  }

  void happen() {
    const int pipeline = below(job.spec().shape.data);
    const double factor = between(1.03, 1.6);
    switch (below(15)) {
      case 0:
        print("a GPU of pipeline " + std::to_string(pipeline) +
              " is slower: " + shortest(factor, 3));
        training.slow[{pipeline, below(kLifeStages)}] = factor;
        return;
      case 1:
        print("a GPU recovers");
        if (!training.slow.empty())
          training.slow.erase(
              std::next(training.slow.begin(), below(static_cast<int>(training.slow.size()))));
        return;
      case 2:
        print("all GPUs of pipeline " + std::to_string(pipeline) + " are slower");
        for (int stage = 0; stage < kLifeStages; ++stage) training.slow[{pipeline, stage}] = factor;
        return declare(pipeline, factor);
      case 3:
      case 4:
        return declare(pipeline, factor);
      case 5:
        return declare(pipeline, 1);
      case 6:
        objective_ = between(0, 0.1);
        print("objective: slowdown " + shortest(objective_, 3));
        EXPECT_TRUE(job.set_objective({.value = objective_}, training.now()).ok());
        return;
      case 7:
      case 8:
      case 9:
        print(job.pace() ? "no pause" : "pause");
        EXPECT_TRUE(set(!job.pace()).ok());
        return;
      case 10:
        cut_ = static_cast<std::size_t>(below(job.spec().shape.ranks()));
        cut_until_ = training.now() + training.last().time * between(1, 40);
        print("rank " + std::to_string(cut_) + " is cut off");
        return;
      case 11:
        print("no report arrives for a while");
        training.run_for(training.last().time * between(1, 150));
        job.tick(training.now());
        return;
      case 12:
        energy_ = between(0.7, 1.4);
        print("energies times " + shortest(energy_, 3));
        return;
      default:
        print("another server");
        EXPECT_TRUE(restart_server().ok());
    }
  }

  std::mt19937 random_;
  bool is_printed_;
  double objective_ = 0, energy_ = 1;
  Joules saved_{};
  std::size_t cut_ = 0;
  Seconds cut_until_{};
  std::size_t printed_ = 0;  ///< events
};

TEST(JobLives, KeepThePromiseAndClaimOnlyWhatWasSaved) {
  constexpr double kNoise = 0.01;
  const unsigned first = from_environment("HARPE_FIRST_LIFE", 1);
  const unsigned lives = from_environment("HARPE_LIVES", HARPE_UNDER_SANITIZERS ? 3 : 16);
  int claims = 0, within = 0;
  for (unsigned seed = first; seed < first + lives; ++seed) {
    SCOPED_TRACE("life " + std::to_string(seed));
    Life life(seed, lives == 1);
    life.slowest_of_calm(60 + life.below(200));
    for (int part = 0; part < 4; ++part) {
      life.suffer(10 + life.below(80));
      EXPECT_LT(life.slowest_of_calm(160), kLifeTolerance) << "part " << part;
      const JobStatus status = life.job.status();
      const Joules over = status.saved - life.saved() * (1 + kNoise) - Joules{1};
      EXPECT_LT(over, status.saved_error * 3) << "part " << part << ", of " << life.saved().value;
      ++claims;
      within += over <= status.saved_error ? 1 : 0;
    }
  }
  EXPECT_GE(within, 0.93 * claims);
}

}  // namespace
}  // namespace harpe::training
