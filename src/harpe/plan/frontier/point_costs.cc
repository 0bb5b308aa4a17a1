#include "harpe/plan/frontier/point_costs.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

namespace harpe::plan {
namespace {

/// Calls `consider` with the points that replace a setting that was not measured: its neighbours
/// with the same knobs, or if there are none, with any knobs.
template <class Consider>
void each_nearest(std::span<const OperatingPoint> points, const InstructionSetting& setting,
                  const Consider& consider) {
  const auto [below, above] = nearest_points(points, setting);
  if (below != nullptr) consider(*below);
  if (above != nullptr && above != below) consider(*above);
  if (below != nullptr || above != nullptr) return;
  const auto at_or_above =
      std::ranges::lower_bound(points, setting.clock, {}, &OperatingPoint::clock);
  if (at_or_above != points.end()) {
    for (auto p = at_or_above; p != points.end() && p->clock == at_or_above->clock; ++p) {
      consider(*p);
    }
    if (at_or_above->clock == setting.clock) return;
  }
  for (auto p = at_or_above; p != points.begin() && (p - 1)->clock == (at_or_above - 1)->clock;) {
    consider(*--p);
  }
}

}  // namespace

PointCosts::PointCosts(const SearchOrder& layout, LatencyByClock latency, Use use)
    : layout_(layout),
      problem_(layout.problem()),
      latency_(std::move(latency)),
      choices_(layout.problem().tables.size()),
      stage_nodes_(layout.problem().pipeline.schedule().stages) {
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

void PointCosts::number_settings() {
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

std::vector<OperatingPoint> PointCosts::points(const PointChoices& choices) const {
  std::vector<OperatingPoint> points;
  points.reserve(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i)
    points.push_back(choice(choices, static_cast<int>(i)).point);
  return points;
}

std::int64_t PointCosts::cost(const PointChoices& choices) const {
  const auto late = changes(choices);
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < choices.size(); ++i)
    sum += choice(choices, static_cast<int>(i)).cost + late[i].cost;
  return sum;
}

std::vector<std::int64_t> PointCosts::durations(const PointChoices& choices) const {
  const auto late = changes(choices);
  std::vector<std::int64_t> durations;
  durations.reserve(choices.size());
  for (std::size_t i = 0; i < choices.size(); ++i)
    durations.push_back(choice(choices, static_cast<int>(i)).time + late[i].time);
  return durations;
}

PointChoices PointCosts::from(const Assignment& assignment) const {
  PointChoices choices;
  choices.reserve(assignment.size());
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    const OperatingPoint& point = problem_.tables[problem_.table[i]].options[assignment[i]].point;
    const auto at = std::ranges::lower_bound(settings_, point.setting());
    choices.push_back(choice_at(static_cast<int>(i), static_cast<int>(at - settings_.begin())));
  }
  return choices;
}

Result<PointChoices> PointCosts::at_clocks(const std::vector<std::vector<Megahertz>>& clocks,
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

PointChoices PointCosts::all_max() const {
  PointChoices highest;
  for (const int table : problem_.table) highest.push_back(all_max_[table]);
  return highest;
}

std::vector<PointChoices> PointCosts::simple() const {
  const PointChoices highest = all_max();
  std::vector<PointChoices> found{highest, from(Assignment(problem_.table.size(), 0))};
  PointChoices steady = highest;
  for (const auto& list : stage_nodes_) {
    // Per setting: the number of instructions that have it, and their total time.
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

std::vector<PointChoices> PointCosts::at_one_setting() const {
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

double PointCosts::average_step() const {
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

void PointCosts::tabulate_changes() {
  constexpr std::size_t kMostCells = 10'000'000;  // 160 MB
  std::size_t cells = 0;
  for (const auto& choices : choices_) cells += choices.size() * settings_.size();
  if (cells > kMostCells) return;
  changes_.resize(choices_.size());
  for (const std::span<const int> list : stage_nodes_) {
    for (const int node : list) {
      auto& changes = changes_[problem_.table[static_cast<std::size_t>(node)]];
      if (!changes.empty()) continue;
      const int settings = static_cast<int>(settings_.size());
      for (const Choice& choice : choices_of(node)) {
        for (int before = 0; before < settings; ++before)
          changes.push_back(worst_change(node, choice, before));
      }
    }
  }
}

LateChange PointCosts::change(int node, int choice, int setting_before) const {
  if (changes_.empty())
    return worst_change(node, choices_of(node)[static_cast<std::size_t>(choice)], setting_before);
  const std::size_t row = static_cast<std::size_t>(choice) * settings_.size();
  const auto& changes = changes_[problem_.table[static_cast<std::size_t>(node)]];
  return changes[row + static_cast<std::size_t>(setting_before)];
}

/// Calls `consider` with the point of a computation at a setting, or if it was not measured, with
/// its neighbours.
template <class Consider>
void PointCosts::each_point_at(int node, int setting, const Consider& consider) const {
  if (const int choice = choice_at(node, setting); choice >= 0)
    return consider(choices_of(node)[static_cast<std::size_t>(choice)].point);
  const PipelineNode& place = problem_.pipeline.nodes()[static_cast<std::size_t>(node)];
  each_nearest(problem_.profile.points(place.stage, place.chunk, place.instruction.kind),
               settings_[static_cast<std::size_t>(setting)], consider);
}

LateChange PointCosts::worst_change(int node, const Choice& option, int setting_before) const {
  LateSettings state(setting_before);
  state.ask(option.setting, latency_.to(option.point.clock));
  return worst_of(node, option, state);
}

/// Returns the excess time and cost of an instruction in a state in which its setting was
/// requested, and advances the state past it.
LateChange PointCosts::worst_of(int node, const Choice& option, LateSettings& state) const {
  if (state.old().empty()) return {};
  const PipelineNode& place = problem_.pipeline.nodes()[static_cast<std::size_t>(node)];
  const Watts power = problem_.blocking_power[place.stage];
  const Joules effective = effective_energy(option.point, power);
  Seconds shortest = option.point.time;
  const auto each_old = [&](const auto& consider) {
    for (const LateSettings::Old& old : state.old()) {
      each_point_at(node, old.setting, [&](const OperatingPoint& point) {
        const double more = (effective_energy(point, power) - effective) / problem_.cost_unit;
        shortest = std::min(shortest, point.time);
        consider(AtOldSetting{old.left, point.time.value, (point.time - option.point.time).value},
                 AtOldSetting{old.left, point.time.value, more});
      });
    }
  };
  double longer = 0, dearer = 0;
  if (state.old().size() == 1) {
    each_old([&](const AtOldSetting& time, const AtOldSetting& cost) {
      longer = std::max(longer, most_more(time));
      dearer = std::max(dearer, most_more(cost));
    });
  } else {
    std::vector<AtOldSetting> times, costs;
    each_old([&](const AtOldSetting& time, const AtOldSetting& cost) {
      times.push_back(time);
      costs.push_back(cost);
    });
    longer = most_more(times);
    dearer = most_more(costs);
  }
  state.pass(shortest);
  // A point that another one beats may cost more than the unit allows.
  return {.time = static_cast<std::int64_t>(std::ceil(longer * 1e12)),
          .cost = static_cast<std::int64_t>(std::ceil(std::min(dearer, kMostCost)))};
}

void PointCosts::find_outlasting() {
  Seconds shortest{std::numeric_limits<double>::infinity()}, longest{0};
  for (const std::span<const int> list : stage_nodes_) {
    for (const int node : list) {
      for (const Choice& choice : choices_of(node)) {
        shortest = std::min(shortest, choice.point.time);
        longest = std::max(longest, latency_.to(choice.point.clock));
      }
    }
  }
  outlasts_ = longest > shortest;
}

LateChange PointCosts::next(int node, int choice, LateSettings& state) const {
  const Choice& option = choices_of(node)[static_cast<std::size_t>(choice)];
  state.ask(option.setting, latency_.to(option.point.clock));
  return worst_of(node, option, state);
}

void PointCosts::set_changes(int stage, const PointChoices& choices,
                             std::vector<LateChange>& changes) const {
  const std::span<const int> list = computations(stage);
  if (list.empty()) return;
  LateSettings state(setting(choices, list.back()));
  if (!outlasts_) {
    int before = state.setting();
    for (const int node : list) {
      changes[node] = change(node, choices[node], before);
      before = setting(choices, node);
    }
    return;
  }
  // A change that is late at the end of the list is late at the beginning of the next iteration. So
  // the list is run until its final state repeats, at the latest when all latencies have passed.
  constexpr int kMostRounds = 64;
  for (int round = 0; round < kMostRounds; ++round) {
    const LateSettings begin = state;
    for (const int node : list) changes[node] = next(node, choices[node], state);
    if (state == begin) return;
  }
}

std::vector<LateChange> PointCosts::changes(const PointChoices& choices) const {
  std::vector<LateChange> changes(choices.size());
  for (int stage = 0; stage < static_cast<int>(stage_nodes_.size()); ++stage)
    set_changes(stage, choices, changes);
  return changes;
}

void LateSettings::ask(int setting, Seconds latency) {
  if (setting == setting_) return;
  for (Old& old : old_) old.left = std::min(old.left, latency.value);
  old_.push_back({setting_, latency.value});
  setting_ = setting;
  std::erase_if(old_, [&](const Old& old) { return old.setting == setting || old.left <= 0; });
}

void LateSettings::pass(Seconds time) {
  for (Old& old : old_) old.left -= time.value;
  std::erase_if(old_, [](const Old& old) { return old.left <= 0; });
}

double most_more(const AtOldSetting& old) {
  return std::max(0.0, std::min(1.0, old.left / old.time) * old.more);
}

double most_more(std::span<AtOldSetting> old) {
  std::ranges::sort(old, [](const AtOldSetting& a, const AtOldSetting& b) {
    return a.more * b.time > b.more * a.time;
  });
  double sum = 0, covered = 0, most = 0;
  for (const AtOldSetting& one : old) {
    most = std::max(most, one.more);
    if (one.more <= 0 || one.left <= covered) continue;
    sum += (one.left - covered) / one.time * one.more;
    covered = one.left;
  }
  return std::min(sum, most);
}

}  // namespace harpe::plan
