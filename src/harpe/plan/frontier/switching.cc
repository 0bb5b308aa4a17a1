#include "harpe/plan/frontier/switching.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace harpe::plan {

SwitchingSearch::SwitchingSearch(const PointCosts& costs, Seconds min_dwell)
    : costs_(costs),
      layout_(costs.layout()),
      problem_(layout_.problem()),
      min_dwell_(std::llround(std::min(min_dwell.value * 1e12, kMostPicoseconds))),
      start_(problem_.network.nodes),
      latest_(problem_.network.nodes) {}

std::int64_t SwitchingSearch::makespan(const PointChoices& choices) {
  const auto duration = costs_.durations(choices);
  std::fill(start_.begin(), start_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      const std::int64_t length = arc.node >= 0 ? duration[arc.node] : arc.lag;
      start_[arc.event] = std::max(start_[arc.event], start_[u] + length);
    }
  }
  const std::int64_t end = start_[problem_.network.sink];
  if (min_dwell_ <= 0) return end;
  for (int stage = 0; stage < costs_.stages(); ++stage) {
    const std::span<const int> list = costs_.computations(stage);
    std::vector<std::int64_t> times;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const int before = list[i == 0 ? list.size() - 1 : i - 1];
      if (costs_.setting(choices, before) != costs_.setting(choices, list[i])) {
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

void SwitchingSearch::settle(PointChoices& choices, std::int64_t deadline) {
  std::int64_t least = costs_.cost(choices);
  const auto consider = [&](std::span<const int> run, int wanted) {
    PointChoices trial = choices;
    for (const int node : run) {
      trial[node] = costs_.choice_at(node, wanted);
      if (trial[node] < 0) return false;
    }
    const std::int64_t now = costs_.cost(trial);
    if (now >= least) return false;
    const std::int64_t end = makespan(trial);
    if (end < 0 || end > deadline) return false;
    least = now;
    choices = std::move(trial);
    return true;
  };
  for (bool better = true; better;) {
    better = false;
    for (int stage = 0; stage < costs_.stages(); ++stage) {
      const std::span<const int> list = costs_.computations(stage);
      for (std::size_t trim = 0; 2 * trim < list.size();
           trim = std::max<std::size_t>(1, 2 * trim)) {
        const auto run = list.subspan(trim, list.size() - 2 * trim);
        for (const PointCosts::Choice& common : costs_.choices_of(run.front()))
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
    const auto late = costs_.changes(choices);
    const auto length = [&](const SearchOrder::Arc& arc) {
      return arc.node < 0 ? arc.lag : costs_.choice(choices, arc.node).time + late[arc.node].time;
    };
    std::fill(latest_.begin(), latest_.end(), deadline);
    for (std::size_t i = order.size(); i-- > 0;) {
      for (const auto& arc : layout_.in(order[i]))
        latest_[arc.event] = std::min(latest_[arc.event], latest_[order[i]] - length(arc));
    }
    bool changed = false;
    for (int stage = 0; stage < costs_.stages(); ++stage) {
      const std::span<const int> list = costs_.computations(stage);
      for (std::size_t i = 0; i < list.size(); ++i) {
        const int node = list[i];
        const int before = list[i == 0 ? list.size() - 1 : i - 1];
        const std::int64_t ends =
            start_[problem_.start_node[node]] + costs_.choice(choices, node).time + late[node].time;
        if (late[node].time == 0 || ends <= latest_[problem_.end_node[node]]) continue;
        const int earlier = costs_.choice_at(before, costs_.setting(choices, node));
        if (earlier < 0 ||
            costs_.choices_of(before)[earlier].time > costs_.choice(choices, before).time)
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

// Accepts slightly higher costs, below a falling threshold (threshold accepting: Dueck and Scheuer
// 1990). In the last fifth of the moves, accepts only lower costs.
void SwitchingSearch::improve(PointChoices& choices, std::int64_t deadline, double price,
                              int moves) {
  const auto lateness = [&](std::int64_t end) {
    return end > deadline ? price * static_cast<double>(end - deadline) : 0;
  };
  double current = static_cast<double>(costs_.cost(choices)) + lateness(makespan(choices));
  double least = current;
  PointChoices best = choices;
  const double tolerance = costs_.average_step();
  search(choices, moves, [&](const PointChoices& trial, int move) {
    const double below = current + tolerance * std::max(0.0, 1 - (move + 1.0) / (0.8 * moves));
    double now = static_cast<double>(costs_.cost(trial));
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

template <class Accept>
void SwitchingSearch::search(PointChoices& choices, int moves, const Accept& accept) {
  SearchRandom random;
  PointChoices trial = choices;
  for (int move = 0; move < moves; ++move) {
    const auto list = costs_.computations(
        static_cast<int>(random.below(static_cast<std::size_t>(costs_.stages()))));
    if (list.empty()) continue;
    // A run of one instruction, a few, or up to all, and its setting: that of a neighbour, or any
    // setting of its first instruction.
    const std::size_t first = random.below(list.size());
    const std::size_t longest = random.below(3) == 0 ? list.size() : 1 + random.below(6);
    const std::size_t last = std::min(list.size() - 1, first + random.below(longest));
    const auto& options = costs_.choices_of(list[first]);
    int wanted = options[random.below(options.size())].setting;
    const std::size_t manner = random.below(4);
    if (manner == 1 && first > 0) wanted = costs_.setting(choices, list[first - 1]);
    if (manner == 2 && last + 1 < list.size()) wanted = costs_.setting(choices, list[last + 1]);
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
      const int choice = costs_.choice_at(list[i], wanted);
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

}  // namespace harpe::plan
