// A run whose steps drift, in simulated time and with a real file of steps: the claimed saving
// covers the truth, and the bound on the slowdown holds over the whole run.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <memory>
#include <numbers>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harpe/zeus/power_limit/power_limits_testing.h"
#include "harpe/zeus/tuning/step_file.h"
#include "harpe/zeus/tuning/tuner.h"

namespace harpe::zeus {
namespace {

constexpr double kTick = 0.005, kIdlePower = 60;

/// Properties of a step.
struct Step {
  double time = 0.1;       ///< s at the highest setting
  double power = 280;      ///< W of the GPU without a limit
  double knee = 290;       ///< limits below it, in W, cost time
  double stall = 0;        ///< s after it without work on the GPU
  bool is_written = true;  ///< its line is flushed; if not, the next flush includes it
};

/// A job of one GPU under power limits, the file it writes, and its consumption without a limit.
class DriftingJob final : public KnobSetter, public WindowMeter {
 public:
  explicit DriftingJob(std::uint64_t seed) : random_(seed) { energy_.emplace_back(now_, 0); }

  const Knob& knob() const override { return knob_; }
  Status set(std::size_t setting) override {
    setting_ = setting;
    return ok_status();
  }
  Status keep(Instant) override { return ok_status(); }
  Status restore() override { return ok_status(); }

  Status begin(Instant at) override {
    window_ = at;
    return ok_status();
  }
  bool settled(Instant at) const override { return now_ - at >= 0.15_s; }
  void settle(Instant) override {}
  /// The error of an energy counter is the energy of its 0.02 s.
  Result<MeteredWindow> end(Instant at) override {
    const double error = 0.02 * 250;
    const double joules = energy_until(at) - energy_until(*window_) + error / 2 * normal_(random_);
    window_.reset();
    return MeteredWindow{{joules}, {error}};
  }
  void cancel() override { window_.reset(); }

  void run(Tuner& tuner, const Step& step) {
    pending_ += "\n";
    if (step.is_written) write(std::exchange(pending_, ""));
    const double varied = std::max(0.2, 1 + scatter * normal_(random_));
    const double limit = knob_[setting_];
    const double slower =
        std::sqrt(std::max(1.0, step.knee / limit) / std::max(1.0, step.knee / knob_[0]));
    const double time = step.time * varied * slower;
    const double power = std::min(limit, step.power);
    truth_saved += std::min(300.0, step.power) * step.time * varied - power * time;
    highest_time += step.time * varied + step.stall;
    time_ += time + step.stall;
    used += power * time;
    pass(tuner, time, power);
    if (step.stall > 0) pass(tuner, step.stall, kIdlePower);
  }
  void pass(Tuner& tuner, double seconds, double watts) {
    const Instant end = now_ + Seconds{seconds};
    while (now_ < end) {
      const Instant next = std::min(next_look_, end);
      energy_.emplace_back(next, energy_.back().second + watts * (next - now_).value);
      now_ = next;
      if (now_ < next_look_) break;
      next_look_ = now_ + Seconds{kTick};
      look(tuner);
    }
  }
  /// Polls the file and the tuner like TuningRun.
  void look(Tuner& tuner) {
    const std::vector<StepEvent> events = file_.poll(now_);
    if (const auto trouble = file_.take_trouble()) {
      tuner.end_trials(trouble->what, trouble->are_steps_timed);
    }
    for (const StepEvent& event : events) tuner.on(event);
    tuner.poll(now_);
  }
  void finish(Tuner& tuner) {
    write(std::exchange(pending_, ""));
    look(tuner);
    tuner.finish();
    for (int i = 0; i < 1000 && tuner.waits(); ++i) pass(tuner, kTick, kIdlePower);
    EXPECT_FALSE(tuner.waits());
  }
  void write(const std::string& text, std::ios::openmode mode = std::ios::app) {
    if (!text.empty()) std::ofstream(file_.path(), mode) << text;
  }
  void replace_file() {
    std::filesystem::remove(file_.path());
    write("\n", std::ios::trunc);
  }

  double slowdown() const { return time_ / highest_time - 1; }

  double scatter = 0.01;  ///< of step times, relative
  double truth_saved = 0, highest_time = 0, used = 0;

 private:
  double energy_until(Instant at) const {
    const auto after =
        std::ranges::lower_bound(energy_, at, {}, &std::pair<Instant, double>::first);
    if (after == energy_.begin()) return 0;
    if (after == energy_.end()) return energy_.back().second;
    const auto before = std::prev(after);
    const double share = (at - before->first) / (after->first - before->first);
    return before->second + share * (after->second - before->second);
  }

  Knob knob_ = power_limits({100}, {300}, {10});
  std::mt19937_64 random_;
  std::normal_distribution<double> normal_;
  StepFile file_ = StepFile::create().take();
  std::string pending_;
  std::size_t setting_ = 0;
  double time_ = 0;
  Instant now_{36'000'000'000'000}, next_look_ = now_;
  std::optional<Instant> window_;
  std::vector<std::pair<Instant, double>> energy_;
};

/// A run under one kind of drift.
struct Course {
  int steps = 2000;
  Step usual;
  std::function<void(Step& step, int i)> drift;
  double scatter = 0.01;
  int restart_every = 0, silence_at = -1, replaced_at = -1;
};

class Draw {
 public:
  explicit Draw(std::uint64_t seed) : random_(seed) {}
  double between(double low, double high) {
    return low + (high - low) * std::uniform_real_distribution<double>(0, 1)(random_);
  }
  bool chance(double share) { return between(0, 1) < share; }
  int one_of(int count) { return static_cast<int>(between(0, count)) % count; }

 private:
  std::mt19937_64 random_;
};

enum Kind {
  kHalf,
  kDouble,
  kSteady,
  kPeriodic,
  kBursts,
  kNoise,
  kWarmUp,
  kStalls,
  kRestarts,
  kSilence,
  kReplaced,
  kTwoAtOnce,
  kKinds
};
constexpr std::array<const char*, kKinds> kNames{
    "half",   "double", "steady",   "periodic", "bursts",        "noise",
    "warmup", "stalls", "restarts", "silence",  "replaced file", "two at once"};

void add_drift(Course& course, Kind kind, const std::shared_ptr<Draw>& draw) {
  const int steps = course.steps;
  // Half of the changes also change the cost of limits.
  const double knee = draw->chance(0.5) ? draw->between(200, 320) : course.usual.knee;
  const auto before = course.drift;
  const auto add = [&](std::function<void(Step&, int)> more) {
    course.drift = [before, more = std::move(more)](Step& step, int i) {
      if (before) before(step, i);
      more(step, i);
    };
  };
  const auto change = [&](double factor) {
    const int at = static_cast<int>(draw->between(0.3, 0.7) * steps);
    add([=](Step& step, int i) {
      if (i < at) return;
      step.time *= factor;
      step.knee = knee;
    });
  };
  switch (kind) {
    case kHalf:
      return change(0.5);
    case kDouble:
      return change(2);
    case kSteady: {
      const double last = draw->chance(0.7) ? 1.0 / 3 : 2.5;
      return add([=, first = course.usual.knee](Step& step, int i) {
        const double passed = static_cast<double>(i) / steps;
        step.time *= 1 + (last - 1) * passed;
        step.knee = first + (knee - first) * passed;
      });
    }
    case kPeriodic: {
      const double period = draw->between(20, 800), height = draw->between(0.1, 0.4);
      return add([=](Step& step, int i) {
        step.time *= 1 + height * std::sin(2 * std::numbers::pi * i / period);
      });
    }
    case kBursts: {
      const int from =
          static_cast<int>(draw->between(0, 0.8) * steps) * (draw->chance(0.3) ? 0 : 1);
      const int lines = 64 << draw->one_of(4);
      return add([=](Step& step, int i) { step.is_written = i < from || i % lines == 0; });
    }
    case kNoise:
      course.scatter = draw->between(0.05, 0.25);
      return;
    case kWarmUp: {
      const double length = draw->between(20, 200), time = draw->between(-0.2, 0.6);
      const double power = draw->between(-0.1, 0.2);
      return add([=](Step& step, int i) {
        step.time *= 1 + time * std::exp(-i / length);
        step.power *= 1 + power * std::exp(-i / length);
      });
    }
    case kStalls: {
      const double often = draw->between(0.005, 0.04), length = draw->between(0.5, 15);
      return add([=](Step& step, int) {
        if (draw->chance(often)) step.stall = step.time * length;
      });
    }
    case kRestarts:
      course.restart_every = static_cast<int>(draw->between(0.2, 0.5) * steps);
      return add([every = course.restart_every](Step& step, int i) {
        step.time *= 1 + 0.5 * std::exp(-(i % every) / 10.0);
      });
    case kSilence:
      course.silence_at = static_cast<int>(draw->between(20, draw->chance(0.5) ? 200 : steps));
      return;
    case kReplaced:
      course.replaced_at = static_cast<int>(draw->between(20, draw->chance(0.5) ? 200 : steps));
      return;
    default: {
      const auto first = static_cast<Kind>(draw->one_of(kTwoAtOnce));
      const auto second =
          static_cast<Kind>((first + 1 + draw->one_of(kTwoAtOnce - 1)) % kTwoAtOnce);
      add_drift(course, first, draw);
      add_drift(course, second, draw);
    }
  }
}

struct Outcome {
  Saving claimed;
  double truth = 0, used = 0, slowdown = 0;
  double deviation() const {
    return std::abs(claimed.saved.value - truth) / std::max(claimed.error.value, 1e-9);
  }
};

Outcome play(Kind kind, std::uint64_t seed, double bound) {
  const auto draw = std::make_shared<Draw>(seed);
  Course course;
  course.steps = static_cast<int>(draw->between(1000, 4000));
  course.usual = {.time = draw->between(0.03, 0.3),
                  .power = draw->between(230, 300),
                  .knee = draw->between(220, 310)};
  add_drift(course, kind, draw);
  DriftingJob job(seed);
  job.scatter = course.scatter;
  auto tuner =
      Tuner::make({.selector = {.kind = Selector::Kind::kEnergy, .most_slowdown = bound}}, job, job)
          .take();
  tuner->start();
  job.look(*tuner);
  for (int i = 0; i < course.steps; ++i) {
    if (course.restart_every > 0 && i > 0 && i % course.restart_every == 0) {
      job.pass(*tuner, 20, kIdlePower);
      job.write("", std::ios::trunc);
    }
    if (i == course.silence_at) job.pass(*tuner, 150, kIdlePower);
    if (i == course.replaced_at) job.replace_file();
    Step step = course.usual;
    if (course.drift) course.drift(step, i);
    job.run(*tuner, step);
  }
  job.finish(*tuner);
  const TuningResult result = tuner->result();
  EXPECT_TRUE(result.failure.empty()) << result.failure;
  EXPECT_LE(result.saving.saved.value, job.used);
  EXPECT_LE(result.saving.at_highest.value, 1.05 * job.used + result.saving.saved.value);
  return {.claimed = result.saving,
          .truth = job.truth_saved,
          .used = job.used,
          .slowdown = job.slowdown()};
}

TEST(Drift, ClaimsHoldTheTruthAndTheBoundHoldsOverTheWholeRun) {
  constexpr int kSeeds = 5;
  int within = 0, cases = 0;
  for (int kind = 0; kind < kKinds; ++kind) {
    for (int i = 0; i < kSeeds; ++i) {
      const auto seed = static_cast<std::uint64_t>(1000 * (kind + 1) + i);
      const double bound = i % 2 == 0 ? 1.03 : 1.1;
      SCOPED_TRACE(std::string(kNames.at(static_cast<std::size_t>(kind))) + ", seed " +
                   std::to_string(seed));
      const Outcome outcome = play(static_cast<Kind>(kind), seed, bound);
      ++cases;
      within += outcome.deviation() <= 1 ? 1 : 0;
      EXPECT_LE(outcome.deviation(), 3)
          << outcome.claimed.saved.value << " +- " << outcome.claimed.error.value << " claimed, "
          << outcome.truth << " true";
      EXPECT_LE(outcome.slowdown, bound - 1);
    }
  }
  EXPECT_GE(within, 0.93 * cases);
}

}  // namespace
}  // namespace harpe::zeus
