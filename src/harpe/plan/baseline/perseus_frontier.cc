#include "harpe/plan/baseline/perseus_frontier.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "harpe/plan/baseline/exponential_fit.h"
#include "harpe/plan/baseline/unit_steps.h"

namespace harpe::plan {
namespace {

/// The choices of an instruction, fastest first, and the curve through them.
struct Choices {
  struct Choice {
    Megahertz clock;
    std::int64_t units = 0;
    Joules energy;
  };
  std::vector<Choice> choices;
  std::function<double(double)> curve = {};  ///< effective joules over units; if there is a choice
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

/// Returns the convex piecewise linear function through the ends of at most three points.
std::function<double(double)> lines_through(std::vector<double> x, std::vector<double> y) {
  const auto line = [](double x0, double y0, double x1, double y1) {
    return [=](double at) { return y0 + (y1 - y0) * (at - x0) / (x1 - x0); };
  };
  const auto whole = line(x.front(), y.front(), x.back(), y.back());
  if (x.size() < kFewPoints || y[1] >= whole(x[1])) return whole;
  return [middle = x[1], first = line(x[0], y[0], x[1], y[1]),
          second = line(x[1], y[1], x[2], y[2])](double at) {
    return at < middle ? first(at) : second(at);
  };
}

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
  if (result.choices.size() <= kFewPoints && options.lines_through_few_points) {
    result.curve = lines_through(std::move(x), std::move(y));
    return result;
  }
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

/// The network of a pipeline in units of time, and the walk along its frontier.
struct PerseusFrontier::Data {
  Data(const Frontier& of, const PerseusOptions& with, const Plan& all_max)
      : frontier(of),
        options(with),
        blocking_power(all_max.blocking_power),
        gpus_per_stage(all_max.gpus_per_stage) {}

  std::int64_t units_of(Seconds time) const {
    return static_cast<std::int64_t>(std::floor(time / options.unit));
  }
  Seconds time_of(std::int64_t units) const { return options.unit * static_cast<double>(units); }

  Result<const Choices*> choices_at(const PipelineNode& node);
  Result<UnitActivity> activity_of(const PipelineNode& node);
  Status add_node(int place);
  Status build();
  std::vector<Point> points() const;

  Frontier frontier;
  PerseusOptions options;
  std::vector<Watts> blocking_power;  // of each stage, per GPU
  int gpus_per_stage;
  std::vector<const Choices*> choices;  // of each node; null: a transfer
  std::map<std::tuple<int, int, InstructionKind>, Choices> tables;
  UnitNetwork network;
  Joules fixed_energy{0};  // effective, of what has no choice, per GPU
  UnitSteps steps;
};

Result<const Choices*> PerseusFrontier::Data::choices_at(const PipelineNode& node) {
  const InstructionKind kind = node.instruction.kind;
  const auto key = std::tuple(node.stage, node.chunk, kind);
  auto table = tables.find(key);
  if (table == tables.end()) {
    const Watts blocking = blocking_power[static_cast<std::size_t>(node.stage)];
    Choices made = HARPE_TRY(
        choices_of(frontier.profile().points(node.stage, node.chunk, kind), blocking, options));
    table = tables.emplace(key, std::move(made)).first;
  }
  return &table->second;
}

/// Returns how long the node may take and at what cost. Events are set by `add_node`.
Result<UnitActivity> PerseusFrontier::Data::activity_of(const PipelineNode& node) {
  UnitActivity activity;
  if (node.stage < 0) {
    choices.push_back(nullptr);
    activity.shortest = activity.longest = units_of(node.transfer_time);
    return activity;
  }
  choices.push_back(HARPE_TRY(choices_at(node)));
  const std::vector<Choices::Choice>& list = choices.back()->choices;
  if (list.empty()) return activity;
  activity.shortest = list.front().units;
  activity.longest = list.back().units;
  if (list.size() > 1) {
    activity.cost = [curve = choices.back()->curve](std::int64_t units) {
      return curve(static_cast<double>(units));
    };
  } else {
    const Watts blocking = blocking_power[static_cast<std::size_t>(node.stage)];
    fixed_energy = fixed_energy + list.front().energy - blocking * time_of(list.front().units);
  }
  return activity;
}

/// Adds a node between two events of its own, after the beginning and before the end of all.
Status PerseusFrontier::Data::add_node(int place) {
  const int start = 1 + 2 * place, end = start + 1;
  UnitActivity activity =
      HARPE_TRY(activity_of(frontier.pipeline().nodes()[static_cast<std::size_t>(place)]));
  activity.from = start;
  activity.to = end;
  network.activities.push_back(std::move(activity));
  network.dependencies.push_back({.from = 0, .to = start});
  network.dependencies.push_back({.from = end, .to = network.events - 1});
  return ok_status();
}

Status PerseusFrontier::Data::build() {
  const auto count = static_cast<int>(frontier.pipeline().nodes().size());
  network.events = 2 * count + 2;
  for (int place = 0; place < count; ++place) HARPE_TRY(add_node(place));
  for (const Dependency& one : frontier.pipeline().dependencies())
    network.dependencies.push_back(
        {.from = 2 + 2 * one.from, .to = 1 + 2 * one.to, .lag = units_of(one.lag)});
  steps = walk_unit_steps(network);
  return ok_status();
}

/// Returns what each step plans: times in units, energies by the curves.
std::vector<PerseusFrontier::Point> PerseusFrontier::Data::points() const {
  Watts blocking{0};
  for (const Watts power : blocking_power) blocking = blocking + power;
  std::vector<std::int64_t> units;
  double cost = fixed_energy.value;
  for (const UnitActivity& activity : network.activities) {
    units.push_back(activity.longest);
    if (activity.cost) cost += activity.cost(activity.longest);
  }
  std::vector<Point> points;
  for (std::size_t step = 0;; ++step) {
    const Seconds time = time_of(steps.slowest - static_cast<std::int64_t>(step));
    points.push_back({.planned_time = time,
                      .planned_energy = (Joules{cost} + blocking * time) * gpus_per_stage});
    if (step == steps.steps.size()) return points;
    for (const UnitChange& change : steps.steps[step]) {
      const auto at = static_cast<std::size_t>(change.activity);
      cost += network.activities[at].cost(change.units) - network.activities[at].cost(units[at]);
      units[at] = change.units;
    }
  }
}

PerseusFrontier::PerseusFrontier(std::shared_ptr<const Data> data)
    : data_(std::move(data)), points_(data_->points()) {}

Result<PerseusFrontier> PerseusFrontier::find(const Frontier& frontier,
                                              const PerseusOptions& options) {
  auto data = std::make_shared<Data>(frontier, options, frontier.all_max());
  HARPE_TRY(data->build());
  return PerseusFrontier(std::move(data));
}

Result<Plan> PerseusFrontier::plan(std::size_t point, const PlanOptions& pricing) const {
  std::vector<std::int64_t> units;
  for (const UnitActivity& activity : data_->network.activities) units.push_back(activity.longest);
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

}  // namespace harpe::plan
