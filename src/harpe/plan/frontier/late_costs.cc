#include "harpe/plan/frontier/late_costs.h"

#include <cmath>

namespace harpe::plan {

LateCosts::LateCosts(const Problem& problem, const LatencyByClock& latency)
    : problem_(problem),
      stages_(problem.pipeline.schedule().stages),
      tables_(problem.tables.size()) {
  const auto nodes = problem.pipeline.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const PipelineNode& node = nodes[i];
    if (node.stage < 0 || is_fixed_time(node.instruction.kind)) continue;
    Stage& stage = stages_[node.stage];
    stage.nodes.push_back(static_cast<int>(i));
    Table& table = tables_[problem.table[i]];
    if (table.settings > 0) continue;
    table.settings = 1;  // filled below, when all settings of the stage are known
    for (const OperatingPoint& point :
         problem.profile.points(node.stage, node.chunk, node.instruction.kind))
      stage.settings.push_back(point.setting());
  }
  for (Stage& stage : stages_) {
    std::ranges::sort(stage.settings);
    const auto repeated = std::ranges::unique(stage.settings);
    stage.settings.erase(repeated.begin(), repeated.end());
    set_latency(stage, latency);
    for (const int node : stage.nodes) {
      Table& table = tables_[problem.table[node]];
      if (table.time.empty()) fill(table, stage, node);
    }
  }
}

void LateCosts::set_latency(Stage& stage, const LatencyByClock& latency) const {
  double longest = 0, shortest = kNever;
  for (const InstructionSetting& setting : stage.settings) {
    stage.latency.push_back(latency.to(setting.clock).value);
    longest = std::max(longest, stage.latency.back());
  }
  for (const int node : stage.nodes)
    shortest =
        std::min(shortest, problem_.tables[problem_.table[node]].options.front().point.time.value);
  stage.outlasts = longest > shortest;
}

void LateCosts::fill(Table& table, const Stage& stage, int node) const {
  const PipelineNode& place = problem_.pipeline.nodes()[node];
  const auto points = problem_.profile.points(place.stage, place.chunk, place.instruction.kind);
  const Watts power = problem_.blocking_power[place.stage];
  const std::size_t settings = stage.settings.size();
  table.settings = settings;
  table.time.assign(settings * settings, 0);
  table.cost.assign(settings * settings, kNever);
  for (const OperatingPoint& point : points)
    table.points.push_back({point.time.value, effective_energy(point, power).value});
  const auto index = [&](const OperatingPoint* point) {
    return point == nullptr ? -1 : static_cast<int>(point - points.data());
  };
  for (const InstructionSetting& setting : stage.settings) {
    table.point.push_back(index(find_point(points, setting)));
    const NearestPoints near = nearest_points(points, setting);
    table.old.push_back({index(near.below), index(near.above)});
  }
  for (std::size_t now = 0; now < settings; ++now) {
    if (table.point[now] < 0) continue;
    for (std::size_t before = 0; before < settings; ++before) {
      Carried change{before, now, before == now ? 0 : stage.latency[now]};
      const Taken taken = carried(node, change);
      table.time[before * settings + now] = taken.time;
      table.cost[before * settings + now] = taken.cost;
      table.longest = std::max(table.longest, taken.time);
    }
  }
  set_most(table);
}

LateCosts::Taken LateCosts::carried(int node, Carried& change) const {
  const Table& table = this->table(node);
  const Taken& own = table.points[table.point[change.now]];
  Taken more;
  double shortest = own.time;
  for (const int point : table.old[change.before]) {
    if (point < 0) continue;
    const Taken& old = table.points[point];
    const double share = old.time > change.left ? change.left / old.time : 1.0;
    more.time = std::max(more.time, share * (old.time - own.time));
    more.cost = std::max(more.cost, share * (old.cost - own.cost));
    shortest = std::min(shortest, old.time);
  }
  change.left -= shortest;
  return {own.time + more.time, own.cost + more.cost};
}

void LateCosts::set_times(const Stage& stage, std::span<const int> setting,
                          std::vector<double>& time) const {
  if (stage.nodes.empty()) return;
  Carried change;
  auto before = static_cast<std::size_t>(setting[stage.nodes.back()]);
  for (const int node : stage.nodes) {
    const auto now = static_cast<std::size_t>(setting[node]);
    if (now != before) change = {before, now, stage.latency[now]};
    time[node] = change.left > 0 ? carried(node, change).time : table(node).own_time(now);
    before = now;
  }
}

void LateCosts::set_most(Table& table) {
  for (std::vector<double>* most :
       {&table.time_into, &table.cost_into, &table.time_after, &table.cost_after})
    most->assign(table.settings, 0);
  for (std::size_t before = 0; before < table.settings; ++before) {
    for (std::size_t now = 0; now < table.settings; ++now) {
      if (table.point[now] < 0) continue;
      const double time = table.times_after(before)[now] - table.own_time(now);
      const double cost = table.costs_after(before)[now] - table.own_cost(now);
      table.time_into[now] = std::max(table.time_into[now], time);
      table.cost_into[now] = std::max(table.cost_into[now], cost);
      table.time_after[before] = std::max(table.time_after[before], time);
      table.cost_after[before] = std::max(table.cost_after[before], cost);
    }
  }
}

}  // namespace harpe::plan
