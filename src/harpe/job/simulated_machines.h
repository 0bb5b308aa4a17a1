#pragma once
/// \file
/// The GPUs of a training job, for tests: what iterations take on machines whose true costs are
/// known, and what their ranks report. Simulated.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "harpe/job/job.h"
#include "harpe/schedule/schedule_work.h"

namespace harpe {

class SimulatedMachines {
 public:
  struct Options {
    Watts blocking_power{80};
    Seconds overhead{0.05};  ///< of an iteration, outside the pipeline
    double noise = 0.001;    ///< relative, of times and energies reported
    std::uint64_t seed = 1;
    double jitter = 0;  ///< relative, of what single instructions really take
  };
  /// What an iteration was.
  struct Iteration {
    std::int64_t number = 0;
    Seconds time{};
    Joules energy{};  ///< all pipelines
    std::vector<Joules> of_pipeline;
    std::vector<std::uint64_t> versions;  ///< by which each rank ran
    /// The same iteration of the same machines with every instruction at its highest clock.
    Seconds all_max_time{};
    Joules all_max_energy{};
  };

  SimulatedMachines(const JobSpec& spec, Profile truth, const Options& options)
      : spec_(spec),
        random_(options.seed),
        truth_(std::move(truth)),
        options_(options),
        pipeline_(*Pipeline::build(spec.schedule, spec.transfers)),
        work_(spec.schedule) {
    for (const OperatingPoint& point : truth_.entries().front().points)
      clocks_.push_back(point.clock);
  }

  // What may go wrong.
  std::map<std::pair<int, int>, double> slow;  ///< factor of (pipeline, stage)
  /// A further factor.
  std::function<double(std::int64_t, int pipeline, int stage)> slowness = [](std::int64_t, int,
                                                                             int) { return 1.0; };
  /// By which a pipeline ends later than its computations explain.
  std::function<Seconds(int)> delay = [](int) { return Seconds{0}; };
  /// Clocks that the GPU of (pipeline, stage) is held to, whatever is asked for.
  std::map<std::pair<int, int>, Megahertz> held;
  /// By which an iteration is longer outside of computations, such as a checkpoint.
  std::function<Seconds(std::int64_t)> stall = [](std::int64_t) { return Seconds{0}; };
  /// Clocks that the GPUs of a stage do not have.
  std::map<int, std::vector<Megahertz>> lacking;

  Profile& truth() { return truth_; }
  /// Of the GPUs of a stage, in any order.
  std::vector<Megahertz> clocks(int stage) const {
    std::vector<Megahertz> clocks = clocks_;
    if (const auto missing = lacking.find(stage); missing != lacking.end()) {
      std::erase_if(clocks, [&](Megahertz clock) {
        return std::ranges::find(missing->second, clock) != missing->second.end();
      });
    }
    return clocks;
  }
  std::vector<RankCoordinates> places() const {
    std::vector<RankCoordinates> all;
    for (int d = 0; d < spec_.shape.data; ++d)
      for (int s = 0; s < spec_.shape.stages; ++s)
        for (int t = 0; t < spec_.shape.tensor; ++t) all.push_back({d, s, t});
    return all;
  }

  /// By which assignments a rank runs; null: by none, at its highest clock.
  using AssignmentsOf = std::function<const StageAssignment*(RankCoordinates)>;
  /// An iteration, with a report of each rank, in the order of `places`.
  std::pair<Iteration, std::vector<IterationReport>> play(std::int64_t iteration,
                                                          const AssignmentsOf& assignments_of) {
    const JobShape& shape = spec_.shape;
    Iteration done;
    done.number = iteration;
    const Seconds outside = options_.overhead + stall(iteration);
    std::vector<Megahertz> highest_clocks;
    for (int stage = 0; stage < shape.stages; ++stage) highest_clocks.push_back(highest(stage));
    std::vector<std::vector<OperatingPoint>> costs;
    Seconds busy_at_all_max{0};
    std::normal_distribution<double> jitter(1, options_.jitter);
    for (int d = 0; d < shape.data; ++d) {
      std::vector<OperatingPoint>& mine = costs.emplace_back();
      std::vector<Seconds> durations, at_all_max;
      for (const PipelineNode& node : pipeline_.nodes()) {
        if (node.stage < 0) {  // a transfer
          mine.emplace_back();
          durations.push_back(node.transfer_time);
          at_all_max.push_back(node.transfer_time);
          continue;
        }
        const double drawn = options_.jitter > 0 ? jitter(random_) : 1;
        mine.push_back(cost(
            iteration, node,
            clock_of({d, node.stage, 0}, assignments_of({d, node.stage, 0}), node.position), d));
        mine.back().time = mine.back().time * drawn;
        durations.push_back(mine.back().time);
        const OperatingPoint fastest = cost(iteration, node, highest_clocks[node.stage], d);
        at_all_max.push_back(fastest.time * drawn);
        busy_at_all_max += at_all_max.back();
        done.all_max_energy += fastest.energy;
      }
      const Seconds after = outside + delay(d);
      done.time = std::max(done.time, pipeline_.earliest(durations).makespan + after);
      done.all_max_time =
          std::max(done.all_max_time, pipeline_.earliest(at_all_max).makespan + after);
    }
    done.all_max_energy +=
        options_.blocking_power * (done.all_max_time * shape.data * shape.stages - busy_at_all_max);
    done.all_max_energy = done.all_max_energy * shape.tensor;
    std::vector<IterationReport> reports;
    for (const RankCoordinates coordinates : places()) {
      const StageAssignment* assignments = assignments_of(coordinates);
      reports.push_back(
          report(iteration, coordinates, assignments, costs[coordinates.data], done.time));
      done.versions.push_back(reports.back().version);
      done.energy += reports.back().energy;
      done.of_pipeline.resize(static_cast<std::size_t>(coordinates.data) + 1);
      done.of_pipeline[coordinates.data] += reports.back().energy;
    }
    return {std::move(done), std::move(reports)};
  }

 protected:
  const JobSpec spec_;
  std::mt19937_64 random_;

 private:
  Megahertz highest(int stage) const { return std::ranges::max(clocks(stage)); }
  Megahertz clock_of(RankCoordinates coordinates, const StageAssignment* assignments,
                     int position) const {
    if (assignments == nullptr) return highest(coordinates.stage);
    return assignments->clocks.size() == 1 ? assignments->clocks[0] : assignments->clocks[position];
  }
  Megahertz held_to(int pipeline_number, int stage, Megahertz clock) const {
    const auto limit = held.find({pipeline_number, stage});
    return limit == held.end() ? clock : std::min(clock, limit->second);
  }
  OperatingPoint cost(std::int64_t iteration, const PipelineNode& node, Megahertz clock,
                      int pipeline_number) const {
    const auto points = truth_.points(node.stage, node.chunk, node.instruction.kind);
    clock = held_to(pipeline_number, node.stage, clock);
    OperatingPoint point = *std::ranges::find(points, clock, &OperatingPoint::clock);
    double factor = slowness(iteration, pipeline_number, node.stage);
    if (const auto fixed = slow.find({pipeline_number, node.stage}); fixed != slow.end())
      factor *= fixed->second;
    point.time = point.time * factor;
    point.energy = point.energy * factor;
    return point;
  }
  double noisy() {
    std::normal_distribution<double> normal(1, options_.noise);
    return normal(random_);
  }

  IterationReport report(std::int64_t iteration, RankCoordinates coordinates,
                         const StageAssignment* assignments,
                         const std::vector<OperatingPoint>& costs, Seconds time) {
    IterationReport report;
    report.coordinates = coordinates;
    report.iteration = iteration;
    report.time = time;
    report.version = assignments == nullptr ? 0 : assignments->version;
    for (const WorkItem& item : work_.stage(coordinates.stage))
      report.instructions.push_back({.kind = item.kind,
                                     .chunk = item.chunk,
                                     .count = item.count,
                                     .time = {},
                                     .energy = {},
                                     .energy_error = {}});
    Seconds busy{0};
    for (std::size_t i = 0; i < pipeline_.nodes().size(); ++i) {
      const PipelineNode& node = pipeline_.nodes()[i];
      if (node.stage != coordinates.stage) continue;
      const Megahertz asked = clock_of(coordinates, assignments, node.position);
      report.throttled |= held_to(coordinates.data, coordinates.stage, asked) < asked;
      InstructionTotals& totals =
          report.instructions[*work_.find(coordinates.stage, node.instruction.kind, node.chunk)];
      totals.time += costs[i].time;
      totals.energy += costs[i].energy;
      busy += costs[i].time;
    }
    for (InstructionTotals& totals : report.instructions) {
      totals.time = totals.time * noisy();
      totals.energy = totals.energy * noisy();
      totals.energy_error = totals.energy * options_.noise;
      report.energy += totals.energy;
    }
    report.energy += options_.blocking_power * (time - busy);
    return report;
  }

  Profile truth_;
  Options options_;
  Pipeline pipeline_;
  ScheduleWork work_;
  std::vector<Megahertz> clocks_;
};

}  // namespace harpe
