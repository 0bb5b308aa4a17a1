#pragma once
/// \file
/// Training with every kind of straggling, played against a job and against the same machines
/// without Harpe. Simulated.

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "harpe/frontier/frontier.h"
#include "harpe/job/played_job.h"

namespace harpe {

enum class Straggling : unsigned char {
  kOffCritical,  ///< one GPU, of the first stage, which has slack
  kCritical,     ///< one GPU, of the last stage, which has none
  kPipeline,     ///< all GPUs of a pipeline
  kTwo,          ///< one GPU of each kind above, on two pipelines where there are
  kGrowing,      ///< one GPU of the first stage, more from iteration to iteration
  kHeld,         ///< one GPU of the first stage, held to a clock
  kStructural,   ///< the first stage on all pipelines
  kRandom,       ///< in every iteration another GPU
  kStalls,       ///< every 25 iterations a pause of many iterations
};
inline constexpr Straggling kAllStraggling[] = {
    Straggling::kOffCritical, Straggling::kCritical, Straggling::kPipeline,
    Straggling::kTwo,         Straggling::kGrowing,  Straggling::kHeld,
    Straggling::kStructural,  Straggling::kRandom,   Straggling::kStalls};

inline const char* name_of(Straggling straggling) {
  switch (straggling) {
    case Straggling::kOffCritical:
      return "GPU off the critical stage";
    case Straggling::kCritical:
      return "GPU of the critical stage";
    case Straggling::kPipeline:
      return "whole pipeline";
    case Straggling::kTwo:
      return "two GPUs";
    case Straggling::kGrowing:
      return "growing";
    case Straggling::kHeld:
      return "held to a clock";
    case Straggling::kStructural:
      return "structural";
    case Straggling::kRandom:
      return "random";
    case Straggling::kStalls:
      return "stalls";
  }
  return "";
}

/// One cell of the matrix.
struct StragglingCase {
  int data = 3, stages = 4;
  Straggling straggling = Straggling::kOffCritical;
  double factor = 1.3;
  bool declared = false;
  double imbalance = 1.3;
  double noise = 0.002;
  std::uint64_t seed = 1;

  std::string text() const {
    return std::to_string(data) + "x" + std::to_string(stages) + ", " + name_of(straggling) + " x" +
           std::to_string(factor).substr(0, 4) + (declared ? ", declared" : "");
  }
};

struct StragglingOutcome {
  std::optional<int> found_after;  ///< iterations
  std::string cause;               ///< as the job names it
  double first_time = 1;           ///< of the first ten iterations, over those at all-max
  double time = 1;                 ///< of those after
  double worst_ten = 1;            ///< the longest ten in a row of those
  double healed_time = 1;          ///< after it has healed, from the tenth iteration on
  std::int64_t profiled = 0;       ///< iterations spent profiling meanwhile
  /// Of what plans that know everything would save; none where that is nothing, or straggling is
  /// not constant.
  std::optional<double> saved_share;
  double saved = 0;  ///< energy, over that at all-max
};

/// Plays one case.
class StragglingRun {
 public:
  static constexpr int kReaction = 10, kLasting = 120, kGrows = 40;

  explicit StragglingRun(const StragglingCase& given)
      : case_(given), spec_(spec_of(given)), truth_(truth_for(given)) {
    spec_.profile = truth_;
    spec_.blocking_power = kBlocking;
  }

  StragglingOutcome run() {
    Job job = *Job::create(spec_, Seconds{1.8e9});
    SimulatedTraining training(
        spec_, truth_, {.blocking_power = kBlocking, .noise = case_.noise, .seed = case_.seed});
    (void)training.register_all(job);
    training.run_until(job, [&] { return job.phase() == JobPhase::kRunning; }, 50);
    training.run(job, 40);

    StragglingOutcome outcome;
    const std::int64_t onset = training.next_iteration();
    begin(training, onset);
    if (case_.declared) {
      for (const auto& [pipeline, factor] : declared_factors())
        (void)job.set_straggler({.pipeline = pipeline, .factor = factor}, training.now());
    }
    const int grows = case_.straggling == Straggling::kGrowing ? kGrows : 0;
    for (int i = 0; i < grows + kReaction + kLasting; ++i) {
      training.run(job, 1);
      outcome.profiled += job.phase() == JobPhase::kProfiling ? 1 : 0;
      if (outcome.found_after) continue;
      outcome.cause = cause_of(job);
      if (!outcome.cause.empty()) outcome.found_after = i + 1;
    }
    const auto& all = training.iterations();
    const auto first = static_cast<std::size_t>(onset);
    outcome.first_time = ratio(all, first, first + kReaction);
    const std::size_t settled = first + kReaction;
    outcome.time = ratio(all, settled, all.size());
    for (std::size_t i = settled; i + 10 <= all.size(); ++i)
      outcome.worst_ten = std::max(outcome.worst_ten, ratio(all, i, i + 10));
    save_energy(all, outcome);

    const std::size_t healed = all.size();
    end(training);
    if (case_.declared) {
      for (const auto& [pipeline, factor] : declared_factors())
        (void)job.clear_straggler(pipeline, training.now());
    }
    training.run(job, kReaction + 40);
    outcome.healed_time = ratio(all, healed + kReaction, all.size());
    notices = training.notices;
    return outcome;
  }

  std::vector<Notice> notices;

 private:
  using Iterations = std::vector<SimulatedTraining::Iteration>;
  static constexpr Watts kBlocking{80};
  static constexpr Seconds kOverhead{0.05};

  static JobSpec spec_of(const StragglingCase& given) {
    JobSpec spec = small_spec(given.data, given.stages, 2 * given.stages);
    spec.plans = 40;
    spec.profiling.slowdown_limit = 0.1;
    return spec;
  }
  static Profile truth_for(const StragglingCase& given) {
    return *synthesize({.stages = given.stages, .imbalance = given.imbalance, .noise = 0});
  }

  /// Of each stage of a pipeline, once it is as slow as it gets; none where that changes.
  std::vector<double> factors(int pipeline) const {
    std::vector<double> factors(static_cast<std::size_t>(case_.stages), 1.0);
    const int other = std::min(1, case_.data - 1);
    switch (case_.straggling) {
      case Straggling::kOffCritical:
      case Straggling::kGrowing:
      case Straggling::kHeld:
        if (pipeline == 0) factors.front() = case_.factor;
        break;
      case Straggling::kCritical:
        if (pipeline == 0) factors.back() = case_.factor;
        break;
      case Straggling::kPipeline:
        if (pipeline == 0) std::ranges::fill(factors, case_.factor);
        break;
      case Straggling::kTwo:
        if (pipeline == 0) factors.front() = case_.factor;
        if (pipeline == other) factors.back() = case_.factor;
        break;
      case Straggling::kStructural:
        factors.front() = case_.factor;
        break;
      case Straggling::kRandom:
      case Straggling::kStalls:
        break;
    }
    return factors;
  }

  /// The highest clock at which the first stage takes at least `factor` times what it takes at
  /// best.
  Megahertz held_clock() const {
    const auto points = truth_.points(0, 0, InstructionKind::kBackward);
    const Seconds fastest = points.back().time;
    Megahertz clock = points.front().clock;
    for (const OperatingPoint& point : points)
      if (point.time >= fastest * case_.factor) clock = point.clock;
    return clock;
  }

  void begin(SimulatedTraining& training, std::int64_t onset) {
    switch (case_.straggling) {
      case Straggling::kGrowing:
        training.slowness = [this, onset](std::int64_t iteration, int pipeline, int stage) {
          const double grown = std::min(1.0, static_cast<double>(iteration - onset + 1) / kGrows);
          return pipeline == 0 && stage == 0 ? 1 + (case_.factor - 1) * grown : 1.0;
        };
        break;
      case Straggling::kHeld:
        training.held[{0, 0}] = held_clock();
        break;
      case Straggling::kRandom:
        training.slowness = [this](std::int64_t iteration, int pipeline, int stage) {
          std::mt19937_64 random(case_.seed * 1'000'003 + static_cast<std::uint64_t>(iteration));
          const auto groups = static_cast<std::uint64_t>(case_.data * case_.stages);
          const int late = static_cast<int>(random() % groups);
          return pipeline * case_.stages + stage == late ? case_.factor : 1.0;
        };
        break;
      case Straggling::kStalls:
        training.stall = [this](std::int64_t iteration) {
          return Seconds{iteration % 25 == 0 ? 20 * (case_.factor - 1) : 0};
        };
        break;
      default:
        for (int pipeline = 0; pipeline < case_.data; ++pipeline)
          for (int stage = 0; stage < case_.stages; ++stage)
            training.slow[{pipeline, stage}] = factors(pipeline)[stage];
    }
  }
  static void end(SimulatedTraining& training) {
    training.slow.clear();
    training.held.clear();
    training.slowness = [](std::int64_t, int, int) { return 1.0; };
    training.stall = [](std::int64_t) { return Seconds{0}; };
  }

  Profile scaled(const std::vector<double>& by) const {
    std::vector<InstructionProfile> entries(truth_.entries().begin(), truth_.entries().end());
    for (InstructionProfile& entry : entries)
      for (OperatingPoint& point : entry.points) {
        point.time = point.time * by[entry.stage];
        point.energy = point.energy * by[entry.stage];
      }
    return Profile(std::move(entries));
  }
  Frontier frontier(int pipeline) const {
    return *characterize(spec_.schedule, scaled(factors(pipeline)), {.blocking_power = kBlocking});
  }

  /// Of each straggling pipeline: its iteration over that of a healthy one.
  std::vector<std::pair<int, double>> declared_factors() const {
    std::vector<std::pair<int, double>> declared;
    const std::vector<double> healthy(static_cast<std::size_t>(case_.stages), 1.0);
    for (int pipeline = 0; pipeline < case_.data; ++pipeline) {
      if (factors(pipeline) == healthy) continue;
      const Seconds usual = (*characterize(spec_.schedule, truth_, {.blocking_power = kBlocking}))
                                .all_max()
                                .iteration_time;
      const double factor = frontier(pipeline).all_max().iteration_time / usual;
      if (factor > 1) declared.emplace_back(pipeline, factor);
    }
    return declared;
  }

  static std::string cause_of(const Job& job) {
    const JobStatus status = job.status();
    if (!status.slow_workers.empty()) return "worker";
    if (!status.slow_stages.empty()) return "structural";
    if (status.random) return "random";
    return status.stragglers.empty() ? "" : "declared";
  }

  static double ratio(const Iterations& all, std::size_t from, std::size_t to) {
    double time = 0, at_all_max = 0;
    for (std::size_t i = from; i < to; ++i) {
      time += all[i].time.value;
      at_all_max += all[i].all_max_time.value;
    }
    return time / at_all_max;
  }

  void save_energy(const Iterations& all, StragglingOutcome& outcome) const {
    constexpr std::size_t kLast = 40;
    double energy = 0, at_all_max = 0;
    for (std::size_t i = all.size() - kLast; i < all.size(); ++i) {
      energy += all[i].energy.value;
      at_all_max += all[i].all_max_energy.value;
    }
    outcome.saved = 1 - energy / at_all_max;
    if (case_.straggling == Straggling::kRandom || case_.straggling == Straggling::kHeld ||
        case_.straggling == Straggling::kStalls) {
      return;
    }
    std::vector<Frontier> frontiers;
    Seconds longest{0};
    for (int pipeline = 0; pipeline < case_.data; ++pipeline) {
      frontiers.push_back(frontier(pipeline));
      longest = std::max(longest, frontiers.back().all_max().iteration_time);
    }
    double best = 0;
    for (const Frontier& one : frontiers) {
      const Result<Plan> plan = one.plan_for_straggler(longest, {.effort = Effort::kQuick});
      best += plan->iteration_energy.value;
    }
    best += (kBlocking * kOverhead * (case_.data * case_.stages)).value;
    constexpr double kNothing = 1e-6;
    const double possible = 1 - best * kLast / at_all_max;
    if (possible > kNothing) outcome.saved_share = outcome.saved / possible;
  }

  StragglingCase case_;
  JobSpec spec_;
  Profile truth_;
};

}  // namespace harpe
