#include "harpe/frontier/switching.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace harpe {

SwitchingSearch::SwitchingSearch(const PlanLayout& layout, Seconds latency, Seconds min_dwell)
    : layout_(layout),
      problem_(layout.problem()),
      latency_(latency),
      min_dwell_(std::llround(min_dwell.value * 1e12)),
      stage_nodes_(layout.problem().pipeline.schedule().stages),
      start_(layout.problem().network.nodes) {
  const auto nodes = problem_.pipeline.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const bool computation = nodes[i].stage >= 0 && !is_fixed_time(nodes[i].instruction.kind);
    computation_.push_back(computation);
    if (computation) stage_nodes_[nodes[i].stage].push_back(static_cast<int>(i));
  }
}

int SwitchingSearch::clock(int node, int choice) const {
  return problem_.tables[problem_.table[node]].options[choice].point.clock.value;
}

// The option of a node at a clock, or -1 where that clock is not worth having.
int SwitchingSearch::choice_at(int node, int wanted) const {
  const auto& options = problem_.tables[problem_.table[node]].options;
  for (std::size_t k = 0; k < options.size(); ++k) {
    if (options[k].point.clock.value == wanted) return static_cast<int>(k);
  }
  return -1;
}

LateChange SwitchingSearch::change(int node, int choice, int clock_before) const {
  const Option& option = problem_.tables[problem_.table[node]].options[choice];
  if (option.point.clock.value == clock_before) return {};
  const PipelineNode& place = problem_.pipeline.nodes()[node];
  const auto points = problem_.profile.points(place.stage, place.chunk, place.instruction.kind);
  // The instruction at the old clock, or, where that was not measured, at the worse of its
  // neighbours.
  const auto above =
      std::lower_bound(points.begin(), points.end(), clock_before,
                       [](const OperatingPoint& p, int c) { return p.clock.value < c; });
  LateChange worst;
  const auto consider = [&](const OperatingPoint& old) {
    const double share = old.time > latency_ ? latency_ / old.time : 1.0;
    const Joules effective = effective_energy(old, problem_.blocking_power[place.stage]);
    const double time = share * (old.time - option.point.time).value * 1e12;
    const double cost = share * ((effective - option.effective) / problem_.cost_unit);
    worst.time = std::max(worst.time, static_cast<std::int64_t>(std::ceil(time)));
    worst.cost = std::max(worst.cost, static_cast<std::int64_t>(std::ceil(cost)));
  };
  if (above != points.end()) consider(*above);
  if (above != points.begin() && (above == points.end() || above->clock.value != clock_before)) {
    consider(*(above - 1));
  }
  return worst;
}

std::vector<LateChange> SwitchingSearch::changes(const Assignment& assignment) const {
  std::vector<LateChange> changes(assignment.size());
  for (const auto& list : stage_nodes_) {
    if (list.empty()) continue;
    int before = clock(list.back(), assignment[list.back()]);
    for (const int node : list) {
      changes[node] = change(node, assignment[node], before);
      before = clock(node, assignment[node]);
    }
  }
  return changes;
}

std::int64_t SwitchingSearch::cost(const Assignment& assignment) const {
  const auto late = changes(assignment);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    sum += layout_.costs(problem_.table[i])[assignment[i]] + late[i].cost;
  }
  return sum;
}

std::int64_t SwitchingSearch::makespan(const Assignment& assignment) {
  const auto late = changes(assignment);
  std::fill(start_.begin(), start_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      std::int64_t length = arc.lag;
      if (arc.node >= 0) {
        length = layout_.times(arc.table)[assignment[arc.node]] + late[arc.node].time;
      }
      start_[arc.event] = std::max(start_[arc.event], start_[u] + length);
    }
  }
  const std::int64_t end = start_[problem_.network.sink];
  if (min_dwell_ <= 0) return end;
  for (const auto& list : stage_nodes_) {
    std::vector<std::int64_t> times;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const int before = list[i == 0 ? list.size() - 1 : i - 1];
      if (clock(before, assignment[before]) != clock(list[i], assignment[list[i]])) {
        times.push_back(start_[problem_.start_node[list[i]]]);
      }
    }
    for (std::size_t i = 0; i + 1 < times.size(); ++i) {
      if (times[i + 1] - times[i] < min_dwell_) return -1;
    }
    if (times.size() > 1 && times.front() + end - times.back() < min_dwell_) return -1;
  }
  return end;
}

Assignment SwitchingSearch::steady() const {
  Assignment assignment(problem_.table.size(), 0);
  for (const auto& list : stage_nodes_) {
    std::map<int, std::pair<std::size_t, std::int64_t>>
        total;  // clock -> instructions that have it, their time
    for (const int node : list) {
      const auto& options = problem_.tables[problem_.table[node]].options;
      for (const Option& option : options) {
        auto& [count, time] = total[option.point.clock.value];
        ++count;
        time += option.time;
      }
    }
    int best = -1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& [candidate, sum] : total) {
      if (sum.first != list.size() || sum.second >= least) continue;
      least = sum.second;
      best = candidate;
    }
    if (best < 0 && !list.empty()) return {};
    for (const int node : list) assignment[node] = choice_at(node, best);
  }
  return assignment;
}

void SwitchingSearch::improve(Assignment& assignment, std::int64_t deadline, int moves) {
  std::uint64_t state = 0x9e3779b97f4a7c15ULL;
  const auto random_below = [&](std::size_t n) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return static_cast<std::size_t>((state >> 11) % n);
  };
  std::int64_t best = cost(assignment);
  Assignment trial = assignment;
  for (int move = 0; move < moves; ++move) {
    const auto& list = stage_nodes_[random_below(stage_nodes_.size())];
    if (list.empty()) continue;
    // A run: one instruction, a few, or up to all; its clock: that of a neighbour, or any of its
    // first instruction.
    const std::size_t first = random_below(list.size());
    const std::size_t longest = random_below(3) == 0 ? list.size() : 1 + random_below(6);
    const std::size_t last = std::min(list.size() - 1, first + random_below(longest));
    const auto& options = problem_.tables[problem_.table[list[first]]].options;
    int wanted = options[random_below(options.size())].point.clock.value;
    const std::size_t manner = random_below(4);
    if (manner == 1 && first > 0) wanted = clock(list[first - 1], assignment[list[first - 1]]);
    if (manner == 2 && last + 1 < list.size())
      wanted = clock(list[last + 1], assignment[list[last + 1]]);
    if (manner == 3) {
      const int now = assignment[list[first]];
      const int step = random_below(2) == 0 ? 1 : -1;
      wanted = options[std::clamp(now + step, 0, static_cast<int>(options.size()) - 1)]
                   .point.clock.value;
    }
    bool changed = false;
    bool possible = true;
    const bool every_kind = random_below(2) == 0;
    const int table = problem_.table[list[first]];
    for (std::size_t i = first; i <= last; ++i) {
      if (!every_kind && problem_.table[list[i]] != table) continue;
      const int choice = choice_at(list[i], wanted);
      if (choice < 0) {
        possible = false;
        break;
      }
      changed |= choice != assignment[list[i]];
      trial[list[i]] = choice;
    }
    if (possible && changed) {
      const std::int64_t now = cost(trial);
      if (now < best) {
        const std::int64_t end = makespan(trial);
        if (end >= 0 && end <= deadline) {
          best = now;
          assignment = trial;
          continue;
        }
      }
    }
    trial = assignment;
  }
}

}  // namespace harpe
