#include "harpe/training/emulated_training/straggling_testing.h"

#include <algorithm>
#include <cstddef>
#include <random>
#include <utility>

namespace harpe::training {
namespace {

/// Returns the highest clock at which the first stage takes at least `factor` times its least time.
Megahertz held_clock(const Profile& costs, double factor) {
  const auto points = costs.points(0, 0, InstructionKind::kBackward);
  const Seconds fastest = points.back().time;
  Megahertz clock = points.front().clock;
  for (const OperatingPoint& point : points)
    if (point.time >= fastest * factor) clock = point.clock;
  return clock;
}

}  // namespace

const char* name_of(Straggling straggling) {
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

std::vector<double> factors_of_stages(const StragglingFault& error, const JobShape& shape,
                                      int pipeline) {
  std::vector<double> factors(static_cast<std::size_t>(shape.stages), 1.0);
  switch (error.straggling) {
    case Straggling::kOffCritical:
    case Straggling::kGrowing:
    case Straggling::kHeld:
      if (pipeline == 0) factors.front() = error.factor;
      break;
    case Straggling::kCritical:
      if (pipeline == 0) factors.back() = error.factor;
      break;
    case Straggling::kPipeline:
      if (pipeline == 0) std::ranges::fill(factors, error.factor);
      break;
    case Straggling::kTwo:
      if (pipeline == 0) factors.front() = error.factor;
      if (pipeline == std::min(1, shape.data - 1)) factors.back() = error.factor;
      break;
    case Straggling::kStructural:
      factors.front() = error.factor;
      break;
    case Straggling::kRandom:
    case Straggling::kStalls:
      break;
  }
  return factors;
}

void inject(const StragglingFault& error, std::int64_t onset, EmulatedMachines& machines) {
  const JobShape shape = machines.spec().shape;
  switch (error.straggling) {
    case Straggling::kGrowing:
      machines.slowness = [error, onset](std::int64_t iteration, int pipeline, int stage) {
        const double grown =
            std::min(1.0, static_cast<double>(iteration - onset + 1) / StragglingFault::kGrows);
        return pipeline == 0 && stage == 0 ? 1 + (error.factor - 1) * grown : 1.0;
      };
      break;
    case Straggling::kHeld:
      machines.held[{0, 0}] = held_clock(machines.truth(), error.factor);
      break;
    case Straggling::kRandom:
      machines.slowness = [error, shape](std::int64_t iteration, int pipeline, int stage) {
        std::mt19937_64 random(error.seed * 1'000'003 + static_cast<std::uint64_t>(iteration));
        const std::size_t late = random() % static_cast<std::uint64_t>(shape.groups());
        return shape.group(pipeline, stage) == late ? error.factor : 1.0;
      };
      break;
    case Straggling::kStalls:
      machines.stall = [error](std::int64_t iteration) {
        return Seconds{iteration % 25 == 0 ? 20 * (error.factor - 1) : 0};
      };
      break;
    default:
      for (int pipeline = 0; pipeline < shape.data; ++pipeline) {
        const std::vector<double> factors = factors_of_stages(error, shape, pipeline);
        for (int stage = 0; stage < shape.stages; ++stage)
          machines.slow[{pipeline, stage}] = factors[static_cast<std::size_t>(stage)];
      }
  }
}

Profile slowed(const Profile& costs, const std::vector<double>& factors_of_stages) {
  std::vector<InstructionProfile> entries(costs.entries().begin(), costs.entries().end());
  for (InstructionProfile& entry : entries) {
    const double factor = factors_of_stages[static_cast<std::size_t>(entry.stage)];
    for (OperatingPoint& point : entry.points) {
      point.time = point.time * factor;
      point.energy = point.energy * factor;
    }
  }
  return costs.with_entries(std::move(entries));
}

}  // namespace harpe::training
