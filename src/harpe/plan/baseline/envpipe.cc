#include "harpe/plan/baseline/envpipe.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

namespace harpe::plan {
namespace {

constexpr Seconds kEmulatedResolution{1e-3}, kExactResolution{1e-12};
constexpr int kPublishedStep = 30, kValleyStep = 90;  // MHz, of the paper's section 4

/// Returns the points without knobs, by rising clock.
std::vector<OperatingPoint> clocks_of(std::span<const OperatingPoint> points) {
  std::vector<OperatingPoint> clocks;
  for (const OperatingPoint& point : points)
    if (point.knobs.empty()) clocks.push_back(point);
  return clocks;
}

/// Returns the place of the slowest point that no other beats in time and energy.
std::size_t slowest_worthwhile(const std::vector<OperatingPoint>& points) {
  std::vector<double> energies;
  for (const OperatingPoint& point : points) energies.push_back(point.energy.value);
  return static_cast<std::size_t>(pareto_set(points, energies).back());
}

/// A pipeline whose clocks rise until its critical path lies in the envelope.
class EnvPipe {
 public:
  EnvPipe(const Frontier& frontier, EnvPipeForm form)
      : pipeline_(frontier.pipeline()), form_(form) {
    const int count = static_cast<int>(pipeline_.nodes().size());
    before_.resize(static_cast<std::size_t>(count));
    for (const Dependency& dependency : pipeline_.dependencies())
      before_[static_cast<std::size_t>(dependency.to)].push_back(dependency);
    for (const PipelineNode& node : pipeline_.nodes()) {
      std::vector<OperatingPoint> points;
      if (node.stage >= 0)
        points =
            clocks_of(frontier.profile().points(node.stage, node.chunk, node.instruction.kind));
      if (points.empty()) points.push_back({.clock = {}, .time = node.transfer_time, .energy = {}});
      points_.push_back(std::move(points));
    }
    mark_envelope();
    begin();
  }

  void run() {
    for (std::vector<int> path = critical_path(); !is_in_envelope(path) && raise(path);)
      path = critical_path();
  }

  std::vector<std::vector<Megahertz>> clocks() const {
    std::vector<std::vector<Megahertz>> lists(
        static_cast<std::size_t>(pipeline_.schedule().stages));
    for (std::size_t i = 0; i < static_cast<std::size_t>(pipeline_.instructions()); ++i) {
      lists[static_cast<std::size_t>(pipeline_.nodes()[i].stage)].push_back(point(i).clock);
    }
    return lists;
  }

 private:
  const OperatingPoint& point(std::size_t node) const { return points_[node][chosen_[node]]; }
  bool has_choice(std::size_t node) const { return points_[node].size() > 1; }

  void mark_envelope() {
    const Schedule& schedule = pipeline_.schedule();
    for (const PipelineNode& node : pipeline_.nodes()) {
      const Instruction& what = node.instruction;
      is_outer_.push_back(node.stage == schedule.stages - 1 ||
                          (what.kind == InstructionKind::kForward && what.micro_batch == 0) ||
                          (what.kind == InstructionKind::kBackward &&
                           what.micro_batch == schedule.micro_batches - 1));
    }
  }

  /// Returns the clock of least energy for all instructions together, in steps from the highest.
  Megahertz valley() const {
    Megahertz best{};
    double least = 0;
    const std::vector<OperatingPoint>& offered = points_.front();
    for (int clock = offered.back().clock.value; clock >= offered.front().clock.value;
         clock -= kValleyStep) {
      double energy = 0;
      for (std::size_t i = 0; i < points_.size(); ++i)
        energy += points_[i][place_of(i, {clock})].energy.value;
      if (best == Megahertz{} || energy < least) {
        best = {clock};
        least = energy;
      }
    }
    return best;
  }

  /// Returns the place of the lowest clock of a node that is not below `clock`.
  std::size_t place_of(std::size_t node, Megahertz clock) const {
    const auto& points = points_[node];
    const auto at = std::ranges::lower_bound(points, clock, {}, &OperatingPoint::clock);
    return static_cast<std::size_t>(std::min(at, points.end() - 1) - points.begin());
  }

  void begin() {
    const bool is_published = form_ == EnvPipeForm::kPublished;
    const Megahertz low = is_published ? valley() : Megahertz{};
    for (std::size_t i = 0; i < points_.size(); ++i) {
      chosen_.push_back(is_outer_[i] || !has_choice(i) ? points_[i].size() - 1
                        : is_published                 ? place_of(i, low)
                                                       : slowest_worthwhile(points_[i]));
    }
  }

  /// Returns the nodes of a path that determines the makespan, last first.
  std::vector<int> critical_path() const {
    const Seconds resolution =
        form_ == EnvPipeForm::kEmulated ? kEmulatedResolution : kExactResolution;
    // The margin keeps whole numbers of units from being rounded down.
    const auto units = [&](Seconds time) {
      return static_cast<std::int64_t>(std::floor(time / resolution + 1e-9));
    };
    std::vector<std::int64_t> end(points_.size());
    int last = 0;
    for (const int node : pipeline_.order()) {
      const auto at = static_cast<std::size_t>(node);
      std::int64_t start = 0;
      for (const Dependency& one : before_[at])
        start = std::max(start, end[static_cast<std::size_t>(one.from)] + units(one.lag));
      end[at] = start + units(point(at).time);
      if (end[at] > end[static_cast<std::size_t>(last)]) last = node;
    }
    std::vector<int> path;
    for (int node = last; node >= 0;) {
      path.push_back(node);
      const auto at = static_cast<std::size_t>(node);
      const std::int64_t start = end[at] - units(point(at).time);
      const auto cause = std::ranges::find_if(before_[at], [&](const Dependency& one) {
        return end[static_cast<std::size_t>(one.from)] + units(one.lag) == start;
      });
      node = cause == before_[at].end() ? -1 : cause->from;
    }
    return path;
  }

  bool is_in_envelope(const std::vector<int>& path) const {
    return std::ranges::all_of(path,
                               [&](int node) { return is_outer_[static_cast<std::size_t>(node)]; });
  }

  /// Raises the clock of those instructions of the path that have its lowest clock.
  /// \returns  false if all have their highest clock
  bool raise(const std::vector<int>& path) {
    std::vector<std::size_t> slow;
    Megahertz lowest{};
    for (const int node : path) {
      const auto at = static_cast<std::size_t>(node);
      if (chosen_[at] + 1 >= points_[at].size()) continue;
      if (!slow.empty() && point(at).clock > lowest) continue;
      if (!slow.empty() && point(at).clock < lowest) slow.clear();
      lowest = point(at).clock;
      slow.push_back(at);
    }
    for (const std::size_t at : slow) {
      chosen_[at] = form_ == EnvPipeForm::kEmulated ? chosen_[at] + 1
                                                    : place_of(at, {lowest.value + kPublishedStep});
    }
    return !slow.empty();
  }

  const Pipeline& pipeline_;
  EnvPipeForm form_;
  std::vector<std::vector<Dependency>> before_;      // of each node
  std::vector<std::vector<OperatingPoint>> points_;  // of each node, by rising clock
  std::vector<bool> is_outer_;                       // of each node: in the envelope
  std::vector<std::size_t> chosen_;                  // of each node, in its points
};

}  // namespace

Result<Plan> envpipe_plan(const Frontier& frontier, EnvPipeForm form, const PlanOptions& pricing) {
  const Schedule& schedule = frontier.pipeline().schedule();
  const auto is_plain = [&](const PipelineNode& node) {
    return node.instruction.kind == InstructionKind::kForward ||
           node.instruction.kind == InstructionKind::kBackward || node.stage < 0 ||
           frontier.profile().points(node.stage, node.chunk, node.instruction.kind).size() <= 1;
  };
  if (schedule.chunks() != 1 || !std::ranges::all_of(frontier.pipeline().nodes(), is_plain))
    return Error::invalid("EnvPipe is for schedules of one forward and one backward on each stage");
  EnvPipe envpipe(frontier, form);
  envpipe.run();
  return frontier.plan_of_clocks(envpipe.clocks(), Seconds{0}, pricing);
}

}  // namespace harpe::plan
