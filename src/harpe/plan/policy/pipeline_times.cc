#include "harpe/plan/policy/pipeline_times.h"

#include <map>
#include <tuple>

namespace harpe::plan {

PipelineTimes::PipelineTimes(const Pipeline& pipeline, const Profile& profile)
    : pipeline_(&pipeline) {
  std::map<std::tuple<int, int, InstructionKind>, std::size_t> known;
  for (const PipelineNode& node : pipeline.nodes()) {
    const auto [entry, is_new] =
        known.try_emplace({node.stage, node.chunk, node.instruction.kind}, points_.size());
    if (is_new) {
      const auto points = node.stage < 0
                              ? std::span<const OperatingPoint>()
                              : profile.points(node.stage, node.chunk, node.instruction.kind);
      points_.emplace_back(points.begin(), points.end());
    }
    kind_.push_back(entry->second);
  }
}

template <class Time>
Seconds PipelineTimes::makespan(std::span<const double> factors, Time time) const {
  std::vector<Seconds> durations;
  durations.reserve(kind_.size());
  for (std::size_t i = 0; i < kind_.size(); ++i) {
    const PipelineNode& node = pipeline_->nodes()[i];
    const std::vector<OperatingPoint>& points = points_[kind_[i]];
    if (points.empty()) {
      durations.push_back(node.transfer_time);
      continue;
    }
    const bool scales = !factors.empty() && !is_fixed_time(node.instruction.kind);
    durations.push_back(time(node, points) * (scales ? factors[node.stage] : 1.0));
  }
  return pipeline_->earliest(durations).makespan;
}

Seconds PipelineTimes::at_all_max(std::span<const double> factors) const {
  return makespan(factors, [](const PipelineNode&, const std::vector<OperatingPoint>& points) {
    return all_max_point(points).time;
  });
}

Seconds PipelineTimes::at(const TablePlan& plan, std::span<const double> factors) const {
  return makespan(factors,
                  [&](const PipelineNode& node, const std::vector<OperatingPoint>& points) {
                    const OperatingPoint* const point =
                        find_point(points, plan.setting(static_cast<std::size_t>(node.stage),
                                                        static_cast<std::size_t>(node.position)));
                    return (point != nullptr ? *point : all_max_point(points)).time;
                  });
}

}  // namespace harpe::plan
