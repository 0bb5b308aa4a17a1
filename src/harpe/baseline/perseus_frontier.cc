#include "harpe/baseline/perseus_frontier.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "harpe/baseline/exponential_fit.h"
#include "harpe/baseline/unit_steps.h"

namespace harpe {
namespace {

/// What an instruction of a stage can take, fastest first.
struct Choices {
  struct Choice {
    Megahertz clock;
    std::int64_t units = 0;
    Joules energy;
  };
  std::vector<Choice> choices;
  Exponential curve;  ///< effective joules over units; if there is a choice
};

/// Returns the points that no other beats in `share` of their time and energy.
std::vector<OperatingPoint> unbeaten(std::span<const OperatingPoint> points, double share) {
  std::vector<OperatingPoint> kept;
  for (const OperatingPoint& point : points) {
    if (!point.knobs.empty()) continue;
    const bool is_beaten = std::ranges::any_of(points, [&](const OperatingPoint& other) {
      return other.knobs.empty() && other.time < point.time * share &&
             other.energy < point.energy * share;
    });
    if (!is_beaten) kept.push_back(point);
  }
  return kept;
}

constexpr std::size_t kFewPoints = 3;

Result<Choices> choices_of(std::span<const OperatingPoint> points, Watts blocking_power,
                           const PerseusOptions& options) {
  std::vector<OperatingPoint> kept = unbeaten(points, 1);
  if (kept.size() <= kFewPoints) kept = unbeaten(points, options.noise_factor);
  std::map<std::int64_t, Choices::Choice> by_units;  // of the same units the dearest
  for (const OperatingPoint& point : kept) {
    const auto units = static_cast<std::int64_t>(std::floor(point.time / options.unit));
    const Choices::Choice choice{.clock = point.clock, .units = units, .energy = point.energy};
    const auto [at, is_new] = by_units.emplace(units, choice);
    if (!is_new && at->second.energy < choice.energy) at->second = choice;
  }
  Choices result;
  std::vector<double> x, y;
  for (const auto& [units, choice] : by_units) {
    result.choices.push_back(choice);
    x.push_back(static_cast<double>(units));
    y.push_back(
        (choice.energy - blocking_power * (options.unit * static_cast<double>(units))).value);
  }
  if (result.choices.size() <= 1) return result;
  if (result.choices.size() <= kFewPoints)
    return Error::invalid("too few clocks for an exponential: " +
                          std::to_string(result.choices.size()) + " worth choosing between");
  const std::optional<Exponential> curve = fit_exponential(x, y);
  if (!curve)
    return Error::invalid("effective energy does not fall with time, so that no exponential fits");
  result.curve = *curve;
  return result;
}

}  // namespace

struct PerseusFrontier::Data {
  Frontier frontier;
  std::vector<const Choices*> choices;  // of each node; null: a fixed time
  std::map<std::tuple<int, int, InstructionKind>, Choices> tables;
  std::vector<std::int64_t> longest;  // of each node, units
  UnitSteps steps;
};

PerseusFrontier::PerseusFrontier(std::shared_ptr<const Data> data) : data_(std::move(data)) {}

Result<PerseusFrontier> PerseusFrontier::find(const Frontier& frontier,
                                              const PerseusOptions& options) {
  const Pipeline& pipeline = frontier.pipeline();
  const Plan all_max = frontier.all_max();
  auto data = std::make_shared<Data>(
      Data{.frontier = frontier, .choices = {}, .tables = {}, .longest = {}, .steps = {}});
  UnitNetwork network;
  const auto count = static_cast<int>(pipeline.nodes().size());
  network.events = 2 * count + 2;
  double fixed_energy = 0;  // effective joules of what has no choice, per GPU
  for (int i = 0; i < count; ++i) {
    const PipelineNode& node = pipeline.nodes()[static_cast<std::size_t>(i)];
    const int start = 1 + 2 * i, end = start + 1;
    UnitActivity activity{.from = start, .to = end};
    const Choices* choices = nullptr;
    if (node.stage < 0) {
      activity.shortest = static_cast<std::int64_t>(std::floor(node.transfer_time / options.unit));
    } else {
      const Watts blocking = all_max.blocking_power[static_cast<std::size_t>(node.stage)];
      const auto key = std::tuple(node.stage, node.chunk, node.instruction.kind);
      auto table = data->tables.find(key);
      if (table == data->tables.end()) {
        Choices made = HARPE_TRY(
            choices_of(frontier.profile().points(node.stage, node.chunk, node.instruction.kind),
                       blocking, options));
        table = data->tables.emplace(key, std::move(made)).first;
      }
      choices = &table->second;
      activity.shortest = choices->choices.empty() ? 0 : choices->choices.front().units;
      activity.longest = choices->choices.empty() ? 0 : choices->choices.back().units;
      if (choices->choices.size() > 1) {
        activity.cost = [curve = choices->curve](std::int64_t units) {
          return curve(static_cast<double>(units));
        };
      } else if (!choices->choices.empty()) {
        const Choices::Choice& only = choices->choices.front();
        fixed_energy +=
            (only.energy - blocking * (options.unit * static_cast<double>(only.units))).value;
      }
    }
    activity.longest = std::max(activity.longest, activity.shortest);
    data->choices.push_back(choices);
    data->longest.push_back(activity.longest);
    network.activities.push_back(std::move(activity));
    network.dependencies.push_back({.from = 0, .to = start});
    network.dependencies.push_back({.from = end, .to = network.events - 1});
  }
  for (const Dependency& one : pipeline.dependencies())
    network.dependencies.push_back(
        {.from = 2 + 2 * one.from,
         .to = 1 + 2 * one.to,
         .lag = static_cast<std::int64_t>(std::floor(one.lag / options.unit))});
  data->steps = walk_unit_steps(network);

  PerseusFrontier result(data);
  Watts blocking{0};
  for (const Watts power : all_max.blocking_power) blocking = blocking + power;
  double cost = fixed_energy;
  std::vector<std::int64_t> units = data->longest;
  for (std::size_t i = 0; i < units.size(); ++i)
    if (network.activities[i].cost) cost += network.activities[i].cost(units[i]);
  for (std::size_t step = 0;; ++step) {
    const Seconds time =
        options.unit * static_cast<double>(data->steps.slowest - static_cast<std::int64_t>(step));
    result.points_.push_back(
        {.planned_time = time,
         .planned_energy = (Joules{cost} + blocking * time) * all_max.gpus_per_stage});
    if (step == data->steps.steps.size()) break;
    for (const UnitChange& change : data->steps.steps[step]) {
      const auto at = static_cast<std::size_t>(change.activity);
      cost += network.activities[at].cost(change.units) - network.activities[at].cost(units[at]);
      units[at] = change.units;
    }
  }
  return result;
}

Result<Plan> PerseusFrontier::plan(std::size_t point, const PlanOptions& pricing) const {
  std::vector<std::int64_t> units = data_->longest;
  for (std::size_t step = 0; step < point; ++step)
    for (const UnitChange& change : data_->steps.steps[step])
      units[static_cast<std::size_t>(change.activity)] = change.units;
  const Pipeline& pipeline = data_->frontier.pipeline();
  std::vector<std::vector<Megahertz>> clocks(static_cast<std::size_t>(pipeline.schedule().stages));
  for (std::size_t i = 0; i < static_cast<std::size_t>(pipeline.instructions()); ++i) {
    Megahertz clock{};
    // The slowest that is as fast as planned.
    if (const Choices* choices = data_->choices[i])
      for (const Choices::Choice& choice : choices->choices)
        if (choice.units <= units[i] || clock == Megahertz{}) clock = choice.clock;
    clocks[static_cast<std::size_t>(pipeline.nodes()[i].stage)].push_back(clock);
  }
  return data_->frontier.plan_of_clocks(clocks, Seconds{0}, pricing);
}

Result<Plan> PerseusFrontier::plan_by(Seconds deadline, const PlanOptions& pricing) const {
  // Real times fall with planned ones, but for what clocks between units make of it.
  std::size_t late = 0, in_time = points_.size() - 1;
  Plan best = HARPE_TRY(plan(in_time, pricing));
  if (best.iteration_time > deadline) return best;
  if (Plan slowest = HARPE_TRY(plan(0, pricing)); slowest.iteration_time <= deadline)
    return slowest;
  while (in_time - late > 1) {
    const std::size_t middle = (late + in_time) / 2;
    Plan trial = HARPE_TRY(plan(middle, pricing));
    if (trial.iteration_time <= deadline) {
      in_time = middle;
      best = std::move(trial);
    } else {
      late = middle;
    }
  }
  return best;
}

}  // namespace harpe
