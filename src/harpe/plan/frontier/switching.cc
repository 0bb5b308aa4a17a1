#include "harpe/plan/frontier/switching.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace harpe {

SwitchingSearch::SwitchingSearch(const SearchOrder& layout, LatencyByClock latency,
                                 Seconds min_dwell, Use use)
    : layout_(layout),
      problem_(layout.problem()),
      latency_(std::move(latency)),
      min_dwell_(std::llround(std::min(min_dwell.value * 1e12, kMostPicoseconds))),
      choices_(layout.problem().tables.size()),
      stage_nodes_(layout.problem().pipeline.schedule().stages),
      start_(layout.problem().network.nodes),
      latest_(layout.problem().network.nodes) {
  const auto nodes = problem_.pipeline.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const PipelineNode& node = nodes[i];
    const bool computation = node.stage >= 0 && !is_fixed_time(node.instruction.kind);
    if (computation) stage_nodes_[node.stage].push_back(static_cast<int>(i));
    auto& choices = choices_[problem_.table[i]];
    if (!choices.empty()) continue;
    if (computation) {
      for (const OperatingPoint& point :
           problem_.profile.points(node.stage, node.chunk, node.instruction.kind)) {
        const Joules effective = effective_energy(point, problem_.blocking_power[node.stage]);
        choices.push_back({point, 0, picoseconds(point.time), problem_.cost(effective)});
      }
    } else {
      for (const Option& o : problem_.tables[problem_.table[i]].options)
        choices.push_back({o.point, 0, o.time, o.cost});
    }
  }
  number_settings();
  find_outlasting();
  if (use == Use::kSearch) tabulate_changes();
  for (std::size_t table = 0; table < choices_.size(); ++table) {
    const auto& choices = choices_[table];
    const auto found = std::ranges::find(choices, problem_.tables[table].all_max.setting(),
                                         [](const Choice& c) { return c.point.setting(); });
    const auto place = found == choices.end() ? found - 1 : found;
    all_max_.push_back(static_cast<int>(place - choices.begin()));
  }
}

void SwitchingSearch::number_settings() {
  for (const auto& choices : choices_) {
    for (const Choice& choice : choices) settings_.push_back(choice.point.setting());
  }
  std::ranges::sort(settings_);
  settings_.erase(std::unique(settings_.begin(), settings_.end()), settings_.end());
  for (auto& choices : choices_) {
    auto& at = choice_at_.emplace_back(settings_.size(), -1);
    for (std::size_t k = 0; k < choices.size(); ++k) {
      const auto place = std::ranges::lower_bound(settings_, choices[k].point.setting());
      choices[k].setting = static_cast<int>(place - settings_.begin());
      if (at[choices[k].setting] < 0) at[choices[k].setting] = static_cast<int>(k);
    }
  }
}

std::vector<OperatingPoint> SwitchingSearch::points(const PointChoices& choices) const {
  std::vector<OperatingPoint> points;
  points.reserve(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i)
    points.push_back(choice(choices, static_cast<int>(i)).point);
  return points;
}

std::int64_t SwitchingSearch::cost(const PointChoices& choices) const {
  const auto late = changes(choices);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < choices.size(); ++i)
    sum += choice(choices, static_cast<int>(i)).cost + late[i].cost;
  return sum;
}

std::vector<std::int64_t> SwitchingSearch::durations(const PointChoices& choices) const {
  const auto late = changes(choices);
  std::vector<std::int64_t> durations;
  durations.reserve(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i)
    durations.push_back(choice(choices, static_cast<int>(i)).time + late[i].time);
  return durations;
}

std::int64_t SwitchingSearch::makespan(const PointChoices& choices) {
  const auto duration = durations(choices);
  std::fill(start_.begin(), start_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      const std::int64_t length = arc.node >= 0 ? duration[arc.node] : arc.lag;
      start_[arc.event] = std::max(start_[arc.event], start_[u] + length);
    }
  }
  const std::int64_t end = start_[problem_.network.sink];
  if (min_dwell_ <= 0) return end;
  for (const auto& list : stage_nodes_) {
    std::vector<std::int64_t> times;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const int before = list[i == 0 ? list.size() - 1 : i - 1];
      if (setting(choices, before) != setting(choices, list[i])) {
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

PointChoices SwitchingSearch::from(const Assignment& assignment) const {
  PointChoices choices;
  choices.reserve(assignment.size());
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    const OperatingPoint& point = problem_.tables[problem_.table[i]].options[assignment[i]].point;
    const auto at = std::ranges::lower_bound(settings_, point.setting());
    choices.push_back(choice_at(static_cast<int>(i), static_cast<int>(at - settings_.begin())));
  }
  return choices;
}

Result<PointChoices> SwitchingSearch::at_clocks(
    const std::vector<std::vector<Megahertz>>& clocks,
    const std::vector<std::vector<Knobs>>& knobs) const {
  const auto size = [](const auto& list) { return list.size(); };
  if (!knobs.empty() && !std::ranges::equal(knobs, clocks, {}, size, size)) {
    return Error::invalid("expected knobs for each clock, or none at all");
  }
  PointChoices choices(problem_.table.size(), 0);
  const auto nodes = problem_.pipeline.nodes();
  std::vector<std::size_t> taken(stage_nodes_.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const PipelineNode& node = nodes[i];
    if (node.stage < 0) continue;
    const std::size_t next = taken[node.stage]++;
    if (clocks.size() != taken.size() || next >= clocks[node.stage].size()) continue;
    if (is_fixed_time(node.instruction.kind)) continue;
    const InstructionSetting wanted{clocks[node.stage][next],
                                    knobs.empty() ? Knobs{} : knobs[node.stage][next]};
    const auto known = std::ranges::lower_bound(settings_, wanted);
    const bool is_known = known != settings_.end() && *known == wanted;
    choices[i] =
        is_known ? choice_at(static_cast<int>(i), static_cast<int>(known - settings_.begin())) : -1;
    if (choices[i] < 0) {
      return Error::invalid("the profile lacks stage " + std::to_string(node.stage) + " " +
                            std::string(name(node.instruction.kind)) + " at " + text_of(wanted));
    }
  }
  const bool fits = std::ranges::equal(clocks, taken, {}, size);
  if (!fits) return Error::invalid("expected one clock for each instruction of each stage");
  return choices;
}

PointChoices SwitchingSearch::all_max() const {
  PointChoices highest;
  for (const int table : problem_.table) highest.push_back(all_max_[table]);
  return highest;
}

std::vector<PointChoices> SwitchingSearch::simple() const {
  const PointChoices highest = all_max();
  std::vector<PointChoices> found{highest, from(Assignment(problem_.table.size(), 0))};
  PointChoices steady = highest;
  for (const auto& list : stage_nodes_) {
    // InstructionSetting -> instructions that have it, their time.
    std::map<int, std::pair<std::size_t, std::int64_t>> total;
    for (const int node : list) {
      for (const Choice& choice : choices_of(node)) {
        auto& [count, time] = total[choice.setting];
        ++count;
        time += choice.time;
      }
    }
    int best = -1;
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (const auto& [candidate, sum] : total) {
      if (sum.first != list.size() || sum.second >= least) continue;
      least = sum.second;
      best = candidate;
    }
    if (best < 0 && !list.empty()) return found;
    for (const int node : list) steady[node] = choice_at(node, best);
  }
  found.push_back(std::move(steady));
  return found;
}

std::vector<PointChoices> SwitchingSearch::at_one_setting() const {
  std::vector<PointChoices> found;
  const PointChoices highest = all_max();
  for (int setting = 0; setting < static_cast<int>(settings_.size()); ++setting) {
    PointChoices choices = highest;
    bool is_measured = true;
    for (const auto& list : stage_nodes_) {
      for (const int node : list) {
        choices[node] = choice_at(node, setting);
        is_measured = is_measured && choices[node] >= 0;
      }
    }
    if (is_measured) found.push_back(std::move(choices));
  }
  return found;
}

void SwitchingSearch::settle(PointChoices& choices, std::int64_t deadline) {
  std::int64_t least = cost(choices);
  const auto consider = [&](std::span<const int> run, int wanted) {
    PointChoices trial = choices;
    for (const int node : run) {
      trial[node] = choice_at(node, wanted);
      if (trial[node] < 0) return false;
    }
    const std::int64_t now = cost(trial);
    if (now >= least) return false;
    const std::int64_t end = makespan(trial);
    if (end < 0 || end > deadline) return false;
    least = now;
    choices = std::move(trial);
    return true;
  };
  for (bool better = true; better;) {
    better = false;
    for (const std::span<const int> list : stage_nodes_) {
      for (std::size_t trim = 0; 2 * trim < list.size();
           trim = std::max<std::size_t>(1, 2 * trim)) {
        const auto run = list.subspan(trim, list.size() - 2 * trim);
        for (const Choice& common : choices_of(run.front()))
          better |= consider(run, common.setting);
      }
    }
  }
}

void SwitchingSearch::repair(PointChoices& choices, std::int64_t deadline) {
  constexpr int kPasses = 100;
  const auto order = layout_.order();
  for (int pass = 0; pass < kPasses; ++pass) {
    const std::int64_t end = makespan(choices);
    if (end >= 0 && end <= deadline) return;
    const auto late = changes(choices);
    const auto length = [&](const SearchOrder::Arc& arc) {
      return arc.node < 0 ? arc.lag : choice(choices, arc.node).time + late[arc.node].time;
    };
    std::fill(latest_.begin(), latest_.end(), deadline);
    for (std::size_t i = order.size(); i-- > 0;) {
      for (const auto& arc : layout_.in(order[i]))
        latest_[arc.event] = std::min(latest_[arc.event], latest_[order[i]] - length(arc));
    }
    bool changed = false;
    for (const auto& list : stage_nodes_) {
      for (std::size_t i = 0; i < list.size(); ++i) {
        const int node = list[i];
        const int before = list[i == 0 ? list.size() - 1 : i - 1];
        const std::int64_t ends =
            start_[problem_.start_node[node]] + choice(choices, node).time + late[node].time;
        if (late[node].time == 0 || ends <= latest_[problem_.end_node[node]]) continue;
        const int earlier = choice_at(before, setting(choices, node));
        if (earlier < 0 || choices_of(before)[earlier].time > choice(choices, before).time)
          continue;
        changed |= choices[before] != earlier;
        choices[before] = earlier;
      }
    }
    if (!changed) return;
  }
}

void SwitchingSearch::shorten(PointChoices& choices, int moves) {
  std::int64_t least = makespan(choices);
  search(choices, moves, [&](const PointChoices& trial, int) {
    const std::int64_t end = makespan(trial);
    if (end < 0 || end >= least) return false;
    least = end;
    return true;
  });
}

// Accepts what is a little worse, less and less so (threshold accepting: Dueck and Scheuer 1990),
// in the last fifth of the moves only what is better.
void SwitchingSearch::improve(PointChoices& choices, std::int64_t deadline, double price,
                              int moves) {
  const auto lateness = [&](std::int64_t end) {
    return end > deadline ? price * static_cast<double>(end - deadline) : 0;
  };
  double current = static_cast<double>(cost(choices)) + lateness(makespan(choices));
  double least = current;
  PointChoices best = choices;
  const double tolerance = average_step();
  search(choices, moves, [&](const PointChoices& trial, int move) {
    const double below = current + tolerance * std::max(0.0, 1 - (move + 1.0) / (0.8 * moves));
    double now = static_cast<double>(cost(trial));
    if (now >= below) return false;
    const std::int64_t end = makespan(trial);
    now += lateness(end);
    if (end < 0 || now >= below) return false;
    current = now;
    if (current < least) {
      least = current;
      best = trial;
    }
    return true;
  });
  choices = std::move(best);
}

double SwitchingSearch::average_step() const {
  double sum = 0;
  double steps = 0;
  for (const auto& choices : choices_) {
    for (std::size_t k = 1; k < choices.size(); ++k) {
      sum += std::abs(static_cast<double>(choices[k].cost - choices[k - 1].cost));
      ++steps;
    }
  }
  return steps > 0 ? sum / steps : 0;
}

template <class Accept>
void SwitchingSearch::search(PointChoices& choices, int moves, const Accept& accept) {
  SearchRandom random;
  PointChoices trial = choices;
  for (int move = 0; move < moves; ++move) {
    const auto& list = stage_nodes_[random.below(stage_nodes_.size())];
    if (list.empty()) continue;
    // A run: one instruction, a few, or up to all; its setting: that of a neighbour, or any of its
    // first instruction.
    const std::size_t first = random.below(list.size());
    const std::size_t longest = random.below(3) == 0 ? list.size() : 1 + random.below(6);
    const std::size_t last = std::min(list.size() - 1, first + random.below(longest));
    const auto& options = choices_of(list[first]);
    int wanted = options[random.below(options.size())].setting;
    const std::size_t manner = random.below(4);
    if (manner == 1 && first > 0) wanted = setting(choices, list[first - 1]);
    if (manner == 2 && last + 1 < list.size()) wanted = setting(choices, list[last + 1]);
    if (manner == 3) {
      const int step = random.below(2) == 0 ? 1 : -1;
      const int most = static_cast<int>(options.size()) - 1;
      wanted = options[std::clamp(choices[list[first]] + step, 0, most)].setting;
    }
    bool changed = false;
    bool possible = true;
    const bool every_kind = random.below(2) == 0;
    const int table = problem_.table[list[first]];
    for (std::size_t i = first; i <= last; ++i) {
      if (!every_kind && problem_.table[list[i]] != table) continue;
      const int choice = choice_at(list[i], wanted);
      possible = choice >= 0;
      if (!possible) break;
      changed |= choice != choices[list[i]];
      trial[list[i]] = choice;
    }
    if (possible && changed && accept(trial, move)) {
      choices = trial;
    } else {
      trial = choices;
    }
  }
}

}  // namespace harpe
