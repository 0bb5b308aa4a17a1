#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/frontier_data.h"

namespace harpe {
namespace {

/// Returns the settings measured for every computation of the pipeline, highest clock first.
std::vector<InstructionSetting> common_settings(const plan::Problem& problem) {
  std::optional<std::vector<InstructionSetting>> common;
  std::vector<bool> seen(problem.tables.size());
  const auto nodes = problem.pipeline.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const PipelineNode& node = nodes[i];
    if (node.stage < 0 || is_fixed_time(node.instruction.kind) || seen[problem.table[i]]) continue;
    seen[problem.table[i]] = true;
    const auto points = problem.profile.points(node.stage, node.chunk, node.instruction.kind);
    if (!common) {
      common.emplace();
      for (const OperatingPoint& point : points) common->push_back(point.setting());
    }
    std::erase_if(*common, [&](const InstructionSetting& setting) {
      return find_point(points, setting) == nullptr;
    });
  }
  if (!common) return {};
  std::ranges::reverse(*common);
  return *std::move(common);
}

}  // namespace

std::vector<std::pair<InstructionSetting, Plan>> Frontier::Data::one_setting_plans() const {
  const auto nodes = problem.pipeline.nodes();
  std::vector<std::pair<InstructionSetting, Plan>> found;
  for (const InstructionSetting& setting : common_settings(problem)) {
    std::vector<OperatingPoint> points;
    points.reserve(nodes.size());
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const PipelineNode& node = nodes[i];
      const bool has_choice = node.stage >= 0 && !is_fixed_time(node.instruction.kind);
      points.push_back(has_choice ? *find_point(problem.profile.points(node.stage, node.chunk,
                                                                       node.instruction.kind),
                                                setting)
                                  : problem.tables[problem.table[i]].all_max);
    }
    found.emplace_back(setting, plan_of(points));
  }
  return found;
}

std::vector<OneSettingPoint> Frontier::one_setting() const {
  std::vector<OneSettingPoint> found;
  for (const auto& [setting, plan] : data_->one_setting_plans())
    found.push_back({setting, plan.iteration_time, plan.iteration_energy});
  return found;
}

}  // namespace harpe
