// The costs of late changes of settings, see switching.h and late_settings.h.

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <vector>

#include "harpe/plan/frontier/switching.h"

namespace harpe {
namespace {

/// Calls `consider` with the points that stand for a setting that was not measured: those next to
/// it with the same knobs, or if there are none, with any knobs.
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

void SwitchingSearch::tabulate_changes() {
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

LateChange SwitchingSearch::change(int node, int choice, int setting_before) const {
  if (changes_.empty())
    return worst_change(node, choices_of(node)[static_cast<std::size_t>(choice)], setting_before);
  const std::size_t row = static_cast<std::size_t>(choice) * settings_.size();
  const auto& changes = changes_[problem_.table[static_cast<std::size_t>(node)]];
  return changes[row + static_cast<std::size_t>(setting_before)];
}

/// Calls `consider` with what may stand for a computation at a setting: its point, or where it was
/// not measured, the points next to it.
template <class Consider>
void SwitchingSearch::each_point_at(int node, int setting, const Consider& consider) const {
  if (const int choice = choice_at(node, setting); choice >= 0)
    return consider(choices_of(node)[static_cast<std::size_t>(choice)].point);
  const PipelineNode& place = problem_.pipeline.nodes()[static_cast<std::size_t>(node)];
  each_nearest(problem_.profile.points(place.stage, place.chunk, place.instruction.kind),
               settings_[static_cast<std::size_t>(setting)], consider);
}

LateChange SwitchingSearch::worst_change(int node, const Choice& option, int setting_before) const {
  LateSettings state(setting_before);
  state.ask(option.setting, latency_.to(option.point.clock));
  return worst_of(node, option, state);
}

/// Returns what an instruction costs beyond itself in a state in which its setting has been asked
/// for, and takes the state past it.
LateChange SwitchingSearch::worst_of(int node, const Choice& option, LateSettings& state) const {
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
  // A point that another beats may cost more than what the unit was made for.
  return {.time = static_cast<std::int64_t>(std::ceil(longer * 1e12)),
          .cost = static_cast<std::int64_t>(std::ceil(std::min(dearer, kMostCost)))};
}

void SwitchingSearch::find_outlasting() {
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

LateChange SwitchingSearch::next(int node, int choice, LateSettings& state) const {
  const Choice& option = choices_of(node)[static_cast<std::size_t>(choice)];
  state.ask(option.setting, latency_.to(option.point.clock));
  return worst_of(node, option, state);
}

void SwitchingSearch::set_changes(int stage, const PointChoices& choices,
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
  // A change that is late at the end of the list is late at its beginning, in the next iteration.
  // So the list is gone through until its end repeats, which it does when all latencies have run
  // out.
  constexpr int kMostRounds = 64;
  for (int round = 0; round < kMostRounds; ++round) {
    const LateSettings begin = state;
    for (const int node : list) changes[node] = next(node, choices[node], state);
    if (state == begin) return;
  }
}

std::vector<LateChange> SwitchingSearch::changes(const PointChoices& choices) const {
  std::vector<LateChange> changes(choices.size());
  for (int stage = 0; stage < static_cast<int>(stage_nodes_.size()); ++stage)
    set_changes(stage, choices, changes);
  return changes;
}

}  // namespace harpe
