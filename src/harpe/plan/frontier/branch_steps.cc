#include "harpe/plan/frontier/branch_steps.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace harpe::plan {

BranchSteps::BranchSteps(const SwitchingSearch& search, bool keeps_beaten)
    : costs_(search.costs()),
      network_(search.costs().layout().problem().network),
      is_free_(search.is_free()) {
  make_stages(keeps_beaten);
  make_steps(search.costs().layout());
  find_live_events();
}

void BranchSteps::make_stages(bool keeps_beaten) {
  const Problem& problem = costs_.layout().problem();
  stages_.resize(problem.pipeline.schedule().stages);
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    StageList& stage = stages_[s];
    const auto nodes = costs_.computations(static_cast<int>(s));
    stage.nodes.assign(nodes.begin(), nodes.end());
    std::vector<int>& settings = stage.numbers;
    if (!is_free_) {
      for (const int node : nodes) {
        for (const auto& choice : costs_.choices_of(node)) settings.push_back(choice.setting);
      }
      std::ranges::sort(settings);
      settings.erase(std::unique(settings.begin(), settings.end()), settings.end());
      stage.settings = settings.size();
    }
    for (const int node : nodes) stage.tables.push_back(table_of(node, settings, keeps_beaten));
  }
}

ChoiceTable BranchSteps::table_of(int node, const std::vector<int>& settings,
                                  bool keeps_beaten) const {
  ChoiceTable table;
  const auto& choices = costs_.choices_of(node);
  for (std::size_t k = 0; k < choices.size(); ++k) {
    const auto beats = [&](const auto& other) {
      return other.time <= choices[k].time && other.cost <= choices[k].cost &&
             (other.time < choices[k].time || other.cost < choices[k].cost || &other < &choices[k]);
    };
    // A slower and dearer choice pays only if it saves a change, or under a power cap.
    if (is_free_ && !keeps_beaten && std::ranges::any_of(choices, beats)) continue;
    table.choice.push_back(static_cast<int>(k));
    const auto at = std::ranges::lower_bound(settings, choices[k].setting) - settings.begin();
    table.setting.push_back(is_free_ ? 0 : static_cast<int>(at));
  }
  const std::size_t befores = is_free_ ? 1 : settings.size();
  for (std::size_t before = 0; before < befores; ++before) {
    for (const int k : table.choice) {
      const LateChange late = is_free_ ? LateChange{} : costs_.change(node, k, settings[before]);
      table.time.push_back(choices[k].time + late.time);
      table.cost.push_back(choices[k].cost + late.cost);
    }
  }
  const auto [shortest, longest] = std::ranges::minmax(table.time);
  table.shortest = shortest;
  // Whatever settings are late, no instruction takes longer than at its slowest point.
  table.longest = std::max(longest, std::ranges::max(choices, {}, &PointCosts::Choice::time).time);
  return table;
}

void BranchSteps::make_steps(const SearchOrder& layout) {
  const Problem& problem = layout.problem();
  std::vector<std::pair<int, std::size_t>> place(problem.table.size(), {-1, 0});
  for (std::size_t s = 0; s < stages_.size(); ++s) {
    for (std::size_t p = 0; p < stages_[s].nodes.size(); ++p)
      place[stages_[s].nodes[p]] = {static_cast<int>(s), p};
  }
  for (const std::int32_t u : layout.order()) {
    for (const SearchOrder::Arc& arc : layout.out(u)) {
      Step step{.tail = u, .head = arc.event, .network_arc = arc.network_arc, .time = arc.lag};
      if (arc.node >= 0) {
        std::tie(step.stage, step.position) = place[arc.node];
        const auto& choice = costs_.choices_of(arc.node).front();
        step.time = choice.time;
        step.cost = choice.cost;
      }
      steps_.push_back(step);
    }
  }
  last_step_.assign(stages_.size(), 0);
  for (std::size_t k = 0; k < steps_.size(); ++k)
    if (steps_[k].has_choice()) last_step_[steps_[k].stage] = k;
  tails_.assign(network_.nodes, 0);
  for (std::size_t k = steps_.size(); k-- > 0;) {
    const Step& step = steps_[k];
    const std::int64_t time = step.has_choice() ? table(step).shortest : step.time;
    tails_[step.tail] = std::max(tails_[step.tail], tails_[step.head] + time);
  }
}

void BranchSteps::find_live_events() {
  live_.resize(steps_.size());
  for (std::size_t k = 0; k < steps_.size(); ++k) {
    for (std::size_t v = 0; v < tails_.size(); ++v) {
      bool was_reached = false, is_needed = false;
      for (std::size_t other = 0; other < steps_.size(); ++other) {
        was_reached |= other < k && steps_[other].head == static_cast<std::int32_t>(v);
        is_needed |= other >= k && steps_[other].tail == static_cast<std::int32_t>(v);
      }
      is_needed |= static_cast<std::int32_t>(v) == sink();
      if (was_reached && is_needed) live_[k].push_back(static_cast<std::int32_t>(v));
    }
  }
}

std::int64_t BranchSteps::longest_makespan() const {
  EventTimes time(tails_.size(), 0);
  for (const Step& step : steps_) {
    const std::int64_t length = step.has_choice() ? table(step).longest : step.time;
    time[step.head] = std::max(time[step.head], time[step.tail] + length);
  }
  return time[sink()];
}

}  // namespace harpe::plan
