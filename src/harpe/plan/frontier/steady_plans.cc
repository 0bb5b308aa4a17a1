#include "harpe/plan/frontier/steady_plans.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>

namespace harpe::plan {
namespace {

/// A setting for the forwards of a stage and one for its other computations, with their total time
/// and cost.
struct Pattern {
  double time = 0, cost = 0;
  std::array<int, 2> setting{};
};

/// The key of the computations of a stage that have the same time and cost in every pattern.
struct Likeness {
  const LateCosts::Table* table;
  int before, now;  ///< 0: forward, 1: back
  friend auto operator<=>(const Likeness&, const Likeness&) = default;
};

int direction(const Problem& problem, int node) {
  const InstructionKind kind =
      problem.pipeline.nodes()[static_cast<std::size_t>(node)].instruction.kind;
  return kind == InstructionKind::kForward ? 0 : 1;
}

/// Removes patterns that another beats, and sorts the rest, fastest first.
void keep_best(std::vector<Pattern>& patterns) {
  std::ranges::sort(patterns, {}, [](const Pattern& p) {
    return std::tuple(p.time, p.cost, p.setting[0], p.setting[1]);
  });
  double least = LateCosts::kNever;
  std::erase_if(patterns, [&](const Pattern& p) {
    const bool is_beaten = p.cost >= least;
    least = std::min(least, p.cost);
    return is_beaten;
  });
}

std::vector<Pattern> patterns_of(const LateCosts& costs, const LateCosts::Stage& stage) {
  std::map<Likeness, int> count;
  int before = direction(costs.problem(), stage.nodes.back());
  for (const int node : stage.nodes) {
    const int now = direction(costs.problem(), node);
    ++count[{&costs.table(node), before, now}];
    before = now;
  }
  const auto settings = static_cast<int>(stage.settings.size());
  std::vector<Pattern> patterns;
  for (int forward = 0; forward < settings; ++forward) {
    for (int back = 0; back < settings; ++back) {
      Pattern pattern{.setting = {forward, back}};
      for (const auto& [like, times] : count) {
        const auto old = static_cast<std::size_t>(pattern.setting[like.before]);
        const auto now = static_cast<std::size_t>(pattern.setting[like.now]);
        pattern.time += times * like.table->times_after(old)[now];
        pattern.cost += times * like.table->costs_after(old)[now];
      }
      if (pattern.cost < LateCosts::kNever / 2) patterns.push_back(pattern);
    }
  }
  keep_best(patterns);
  return patterns;
}

/// A pattern for each stage, with their total cost. The slowest stage takes `pace`.
struct Steady {
  double pace = 0, cost = 0;
  std::vector<std::size_t> pattern = {};
};

/// Removes plans on or above a straight line between two others.
std::vector<Steady> lower_hull(std::vector<Steady> all) {
  std::vector<Steady> hull;
  for (Steady& next : all) {
    const auto is_above = [&](const Steady& first, const Steady& middle) {
      return (middle.cost - first.cost) * (next.pace - first.pace) >=
             (next.cost - first.cost) * (middle.pace - first.pace);
    };
    while (hull.size() >= 2 && is_above(hull[hull.size() - 2], hull.back())) hull.pop_back();
    hull.push_back(std::move(next));
  }
  return hull;
}

std::vector<Steady> steady_of(const std::vector<std::vector<Pattern>>& patterns) {
  std::vector<double> paces;
  double fastest = 0;
  for (const auto& of_stage : patterns) {
    if (of_stage.empty()) continue;
    fastest = std::max(fastest, of_stage.front().time);
    for (const Pattern& pattern : of_stage) paces.push_back(pattern.time);
  }
  std::erase_if(paces, [&](double pace) { return pace < fastest; });
  std::ranges::sort(paces);
  paces.erase(std::ranges::unique(paces).begin(), paces.end());
  std::vector<Steady> all;
  for (const double pace : paces) {
    Steady steady{.pace = pace};
    for (const auto& of_stage : patterns) {
      const auto after = std::ranges::upper_bound(of_stage, pace, {}, &Pattern::time);
      const auto chosen = static_cast<std::size_t>(after - of_stage.begin());
      steady.pattern.push_back(chosen);  // index + 1, or 0 without patterns
      if (chosen > 0) steady.cost += of_stage[chosen - 1].cost;
    }
    if (all.empty() || steady.cost < all.back().cost) all.push_back(std::move(steady));
  }
  return lower_hull(std::move(all));
}

}  // namespace

std::vector<PointChoices> steady_plans(const LateCosts& costs) {
  std::vector<std::vector<Pattern>> patterns;
  for (const LateCosts::Stage& stage : costs.stages()) {
    std::vector<Pattern>& of_stage = patterns.emplace_back();
    if (stage.nodes.empty()) continue;
    of_stage = patterns_of(costs, stage);
    if (of_stage.empty()) return {};
  }
  std::vector<PointChoices> plans;
  for (const Steady& steady : steady_of(patterns)) {
    PointChoices choices(costs.problem().table.size(), 0);
    for (std::size_t s = 0; s < patterns.size(); ++s) {
      for (const int node : costs.stages()[s].nodes) {
        const Pattern& pattern = patterns[s][steady.pattern[s] - 1];
        const int setting = pattern.setting[direction(costs.problem(), node)];
        choices[node] = costs.table(node).point[setting];
      }
    }
    plans.push_back(std::move(choices));
  }
  return plans;
}

}  // namespace harpe::plan
