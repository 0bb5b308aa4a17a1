#include "harpe/frontier/late_costs.h"

#include <algorithm>
#include <cmath>
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
  set_most(table);
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

// Leaves out settings that lose more against the best one than two late changes cost, one to the
// best setting and one away from it: whatever the settings around, the best one is then better.
// Example: two changes of 10 ms cost at most 1 J, so that some 8 of 38 clocks remain. If the best
// setting does not fit after every other one, or the next computation does not fit after it, no
// setting that fits is left out.
LateRound::Range LateRound::range_of(const LateCosts::Stage& stage, std::size_t k,
                                     std::span<const double> price,
                                     std::span<const double> longest) const {
  const int node = stage.nodes[k], next = stage.nodes[k + 1 < stage.nodes.size() ? k + 1 : 0];
  const LateCosts::Table &table = costs_.table(node), &table_next = costs_.table(next);
  const auto loss = [&](std::size_t setting) {
    return table.own_time(setting) <= longest[node]
               ? table.own_cost(setting) + price[node] * table.own_time(setting)
               : LateCosts::kNever;
  };
  std::size_t best = 0;
  for (std::size_t setting = 1; setting < table.settings; ++setting)
    if (loss(setting) < loss(best)) best = setting;
  const auto next_fits = [&] {
    if (table_next.longest <= longest[next]) return true;
    const auto times = table_next.times_after(best);
    for (std::size_t now = 0; now < times.size(); ++now)
      if (table_next.own_time(now) <= longest[next] && times[now] > longest[next]) return false;
    return true;
  };
  double most = LateCosts::kNever / 2;
  if (table.own_time(best) + table.time_into[best] <= longest[node] && next_fits()) {
    most = loss(best) + table.cost_into[best] + price[node] * table.time_into[best] +
           table_next.cost_after[best] + price[next] * table_next.time_after[best];
    most += 1e-9 * std::abs(most);  // sums are rounded
  }
  Range range;
  while (range.first < table.settings && !(loss(range.first) <= most)) ++range.first;
  range.end = table.settings;
  while (range.end > range.first && !(loss(range.end - 1) <= most)) --range.end;
  return range;
}

void LateRound::set_ranges(const LateCosts::Stage& stage, std::span<const double> price,
                           std::span<const double> longest) {
  ranges_.clear();
  for (std::size_t k = 0; k < stage.nodes.size(); ++k)
    ranges_.push_back(range_of(stage, k, price, longest));
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
    const Range range = ranges_[k], range_before = ranges_[k == 0 ? ranges_.size() - 1 : k - 1];
    for (std::size_t old = range_before.first; old < range_before.end; ++old) {
      const double base = before[old];
      if (base >= LateCosts::kNever) continue;
      const double* const time = table.time.data() + old * settings;
      const double* const cost = table.cost.data() + old * settings;
      if (all_fit) {
        for (std::size_t now = range.first; now < range.end; ++now) {
          const double sum = base + (cost[now] + p * time[now]);
          after[now] = sum < after[now] ? sum : after[now];
        }
      } else {
        for (std::size_t now = range.first; now < range.end; ++now) {
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
    const Range range = ranges_[k == 0 ? ranges_.size() - 1 : k - 1];
    for (std::size_t old = range.first; old < range.end; ++old) {
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

std::size_t LateRound::run_open(const LateCosts::Stage& stage, std::span<const double> price,
                                std::span<const double> longest) {
  least_.assign((stage.nodes.size() + 1) * stage.settings.size(), 0);
  set_ranges(stage, price, longest);
  run(stage, price, longest);
  return static_cast<std::size_t>(std::ranges::min_element(ends(stage)) - ends(stage).begin());
}

double LateRound::cheapest_open(int stage_index, std::span<const double> price,
                                std::span<const double> longest, std::vector<int>& setting) {
  const LateCosts::Stage& stage = costs_.stages()[stage_index];
  if (stage.nodes.empty()) return 0;
  const std::size_t last = run_open(stage, price, longest);
  const double least = ends(stage)[last];
  if (least >= LateCosts::kNever) return LateCosts::kNever;
  trace(stage, price, longest, static_cast<int>(last), setting);
  return least;
}

double LateRound::cheapest(int stage_index, std::span<const double> price,
                           std::span<const double> longest, std::vector<int>& setting) {
  const LateCosts::Stage& stage = costs_.stages()[stage_index];
  if (stage.nodes.empty()) return 0;
  const std::size_t settings = stage.settings.size();
  // Whatever the setting before the first: where the best of these ends as it begins, it is the
  // best round.
  const auto last = static_cast<int>(run_open(stage, price, longest));
  const std::vector<double> bound(ends(stage).begin(), ends(stage).end());
  if (bound[last] >= LateCosts::kNever) return LateCosts::kNever;
  if (trace(stage, price, longest, last, setting) == last) return bound[last];
  std::vector<int> order(settings);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order,
                    [&](int a, int b) { return std::tie(bound[a], a) < std::tie(bound[b], b); });
  double best = LateCosts::kNever;
  for (const int end : order) {
    if (bound[end] >= best) break;
    std::fill(least_.begin(), least_.begin() + static_cast<std::ptrdiff_t>(settings),
              LateCosts::kNever);
    least_[end] = 0;
    run(stage, price, longest);
    const double found = ends(stage)[end];
    if (found >= best) continue;
    best = found;
    trace(stage, price, longest, end, setting);
  }
  return best;
}

}  // namespace harpe
