#include "harpe/frontier/late_costs.h"

#include <algorithm>
#include <numeric>
#include <tuple>

namespace harpe {

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
    for (const int node : stage.nodes) {
      Table& table = tables_[problem.table[node]];
      if (table.time.empty()) fill(table, stage, node, latency);
    }
  }
}

void LateCosts::fill(Table& table, const Stage& stage, int node,
                     const LatencyByClock& latency) const {
  const PipelineNode& place = problem_.pipeline.nodes()[node];
  const auto points = problem_.profile.points(place.stage, place.chunk, place.instruction.kind);
  const Watts power = problem_.blocking_power[place.stage];
  const std::size_t settings = stage.settings.size();
  table.settings = settings;
  table.time.assign(settings * settings, 0);
  table.cost.assign(settings * settings, kNever);
  table.point.assign(settings, -1);
  for (std::size_t now = 0; now < settings; ++now) {
    const OperatingPoint* const point = find_point(points, stage.settings[now]);
    if (point == nullptr) continue;
    table.point[now] = static_cast<int>(point - points.data());
    const Seconds late = latency.to(point->clock);
    const Joules effective = effective_energy(*point, power);
    for (std::size_t before = 0; before < settings; ++before) {
      Seconds longer{0};
      Joules dearer{0};
      const NearestPoints near = nearest_points(points, stage.settings[before]);
      for (const OperatingPoint* const old : {near.below, near.above}) {
        if (before == now || old == nullptr) continue;
        const double share = old->time > late ? late / old->time : 1.0;
        longer = std::max(longer, share * (old->time - point->time));
        dearer = std::max(dearer, share * (effective_energy(*old, power) - effective));
      }
      table.time[before * settings + now] = (point->time + longer).value;
      table.cost[before * settings + now] = (effective + dearer).value;
      table.longest = std::max(table.longest, (point->time + longer).value);
    }
  }
}

void LateRound::run(const LateCosts::Stage& stage, std::span<const double> price,
                    std::span<const double> longest) {
  const std::size_t settings = stage.settings.size();
  for (std::size_t k = 0; k < stage.nodes.size(); ++k) {
    const int node = stage.nodes[k];
    const LateCosts::Table& table = costs_.table(node);
    const double* const before = least_.data() + k * settings;
    double* const after = least_.data() + (k + 1) * settings;
    std::fill(after, after + settings, LateCosts::kNever);
    const double p = price[node];
    const double limit = longest[node];
    const bool all_fit = table.longest <= limit;
    for (std::size_t old = 0; old < settings; ++old) {
      const double base = before[old];
      if (base >= LateCosts::kNever) continue;
      const double* const time = table.time.data() + old * settings;
      const double* const cost = table.cost.data() + old * settings;
      if (all_fit) {
        for (std::size_t now = 0; now < settings; ++now) {
          const double sum = base + (cost[now] + p * time[now]);
          after[now] = sum < after[now] ? sum : after[now];
        }
      } else {
        for (std::size_t now = 0; now < settings; ++now) {
          const double sum = base + (cost[now] + p * time[now]);
          const double fitting = time[now] <= limit ? sum : LateCosts::kNever;
          after[now] = fitting < after[now] ? fitting : after[now];
        }
      }
    }
  }
}

int LateRound::trace(const LateCosts::Stage& stage, std::span<const double> price,
                     std::span<const double> longest, int last, std::vector<int>& setting) const {
  const std::size_t settings = stage.settings.size();
  for (std::size_t k = stage.nodes.size(); k-- > 0;) {
    const int node = stage.nodes[k];
    const LateCosts::Table& table = costs_.table(node);
    setting[node] = last;
    double least = LateCosts::kNever;
    int best = 0;
    for (std::size_t old = 0; old < settings; ++old) {
      const std::size_t at = old * settings + static_cast<std::size_t>(last);
      if (table.time[at] > longest[node]) continue;
      const double sum =
          least_[k * settings + old] + (table.cost[at] + price[node] * table.time[at]);
      if (sum >= least) continue;
      least = sum;
      best = static_cast<int>(old);
    }
    last = best;
  }
  return last;
}

double LateRound::cheapest(int stage_index, std::span<const double> price,
                           std::span<const double> longest, std::vector<int>& setting) {
  const LateCosts::Stage& stage = costs_.stages()[stage_index];
  if (stage.nodes.empty()) return 0;
  const std::size_t settings = stage.settings.size();
  // Whatever the setting before the first: where the best of these ends as it begins, it is the
  // best round.
  least_.assign((stage.nodes.size() + 1) * settings, 0);
  run(stage, price, longest);
  const std::vector<double> bound(least_.end() - static_cast<std::ptrdiff_t>(settings),
                                  least_.end());
  std::vector<int> order(settings);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order,
                    [&](int a, int b) { return std::tie(bound[a], a) < std::tie(bound[b], b); });
  if (bound[order.front()] >= LateCosts::kNever) return LateCosts::kNever;
  if (trace(stage, price, longest, order.front(), setting) == order.front())
    return bound[order.front()];
  double best = LateCosts::kNever;
  for (const int ends : order) {
    if (bound[ends] >= best) break;
    std::fill(least_.begin(), least_.begin() + static_cast<std::ptrdiff_t>(settings),
              LateCosts::kNever);
    least_[ends] = 0;
    run(stage, price, longest);
    const double found = *(least_.end() - static_cast<std::ptrdiff_t>(settings) + ends);
    if (found >= best) continue;
    best = found;
    trace(stage, price, longest, ends, setting);
  }
  return best;
}

}  // namespace harpe
