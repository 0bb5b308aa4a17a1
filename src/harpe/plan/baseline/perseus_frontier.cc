#include "harpe/plan/baseline/perseus_frontier.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>
#include <map>
#include <queue>
#include <ranges>
#include <string>
#include <tuple>
#include <utility>

#include "harpe/plan/baseline/exponential_fit.h"

namespace harpe::plan {
namespace {

// The walk along a frontier that Perseus publishes (SOSP'24, section 5, and its library lowtime):
// each step shortens the iteration by one unit of time. For comparisons: Harpe's own frontier needs
// neither units nor a fit. Pure.
//
// Model. The duration of an activity is a whole number of units from its shortest to its longest; a
// convex function gives its cost. All activities begin at their longest. A step finds the critical
// activities and, in their graph, the cheapest way to shorten the iteration by one unit: a minimum
// cut with lower bounds. Activities that cross the cut forwards become one unit shorter, activities
// that cross it backwards one unit longer.
//
// Each step starts from the flow of the previous step, which usually needs only a few more paths.
// The minimum cut nearest to the source is the same for every maximum flow.

/// An activity between two events.
struct UnitActivity {
  int from = 0, to = 0;  ///< events
  std::int64_t shortest = 0, longest = 0;
  /// Cost for a number of units from `shortest` to `longest`; empty if both are equal.
  std::function<double(std::int64_t)> cost = {};
};

/// A constraint: event `to` is at least `lag` units after event `from`.
struct UnitDependency {
  int from = 0, to = 0;
  std::int64_t lag = 0;
};

struct UnitNetwork {
  int events = 0;  ///< event 0 is the beginning, event `events` - 1 the end
  std::vector<UnitActivity> activities;
  std::vector<UnitDependency> dependencies;
};

/// One change in a step: an activity and its new number of units.
struct UnitChange {
  int activity = 0;
  std::int64_t units = 0;
};

/// The frontier as steps of one unit each.
struct UnitSteps {
  std::int64_t slowest = 0;                    ///< units of the iteration before the first step
  std::vector<std::vector<UnitChange>> steps;  ///< each shortens the iteration by one unit
};

// The published algorithm counts costs in millionths, and gives arcs that cannot be cut a capacity
// of 10,000.
constexpr double kMillionth = 1e6;
constexpr std::int64_t kUncut = 10'000'000'000;

struct Arc {
  int from = 0, to = 0;
  int activity = -1;  ///< -1: a dependency
  std::int64_t lag = 0;
  std::int64_t low = 0, high = 0, flow = 0;
  bool critical = false;
};

class Walk {
 public:
  explicit Walk(const UnitNetwork& network) : network_(network) {
    for (const UnitActivity& activity : network.activities) {
      units_.push_back(activity.longest);
      arcs_.push_back(
          {.from = activity.from, .to = activity.to, .activity = static_cast<int>(arcs_.size())});
    }
    for (const UnitDependency& one : network.dependencies)
      arcs_.push_back({.from = one.from, .to = one.to, .lag = one.lag});
    leaving_.resize(static_cast<std::size_t>(network.events));
    arriving_.resize(static_cast<std::size_t>(network.events));
    for (std::size_t i = 0; i < arcs_.size(); ++i) {
      leaving_[static_cast<std::size_t>(arcs_[i].from)].push_back(static_cast<int>(i));
      arriving_[static_cast<std::size_t>(arcs_[i].to)].push_back(static_cast<int>(i));
    }
    sort();
  }

  UnitSteps run() {
    UnitSteps result;
    result.slowest = find_critical();
    for (;;) {
      set_bounds();
      if (!make_feasible()) break;
      while (augment(0, sink())) continue;
      std::vector<UnitChange> step = cut();
      if (step.empty()) break;
      for (const UnitChange& change : step)
        units_[static_cast<std::size_t>(change.activity)] = change.units;
      result.steps.push_back(std::move(step));
      find_critical();
    }
    return result;
  }

 private:
  int sink() const { return network_.events - 1; }
  std::int64_t length(const Arc& arc) const {
    return arc.activity < 0 ? arc.lag : units_[static_cast<std::size_t>(arc.activity)];
  }

  void sort() {
    std::vector<std::size_t> missing;
    for (const auto& arcs : arriving_) missing.push_back(arcs.size());
    std::queue<int> ready;
    for (int event = 0; event < network_.events; ++event)
      if (missing[static_cast<std::size_t>(event)] == 0) ready.push(event);
    for (; !ready.empty(); ready.pop()) {
      order_.push_back(ready.front());
      for (const int arc : leaving_[static_cast<std::size_t>(ready.front())]) {
        const int to = arcs_[static_cast<std::size_t>(arc)].to;
        if (--missing[static_cast<std::size_t>(to)] == 0) ready.push(to);
      }
    }
  }

  /// Marks the arcs without slack as critical. Returns the length of the whole network in units.
  std::int64_t find_critical() {
    std::vector<std::int64_t> earliest(order_.size(), 0);
    for (const int event : order_) {
      for (const int arc : leaving_[static_cast<std::size_t>(event)]) {
        const Arc& one = arcs_[static_cast<std::size_t>(arc)];
        std::int64_t& at = earliest[static_cast<std::size_t>(one.to)];
        at = std::max(at, earliest[static_cast<std::size_t>(event)] + length(one));
      }
    }
    const std::int64_t whole = earliest[static_cast<std::size_t>(sink())];
    std::vector<std::int64_t> latest(order_.size(), whole);
    for (const int event : std::views::reverse(order_)) {
      for (const int arc : leaving_[static_cast<std::size_t>(event)]) {
        const Arc& one = arcs_[static_cast<std::size_t>(arc)];
        std::int64_t& at = latest[static_cast<std::size_t>(event)];
        at = std::min(at, latest[static_cast<std::size_t>(one.to)] - length(one));
      }
    }
    for (Arc& arc : arcs_)
      arc.critical = latest[static_cast<std::size_t>(arc.to)] ==
                     earliest[static_cast<std::size_t>(arc.from)] + length(arc);
    return whole;
  }

  /// Returns the change in cost from `units` to one unit less, in millionths, rounded down.
  std::int64_t price(const UnitActivity& activity, std::int64_t units) const {
    const double change = std::abs(activity.cost(units - 1) - activity.cost(units));
    return static_cast<std::int64_t>(std::floor(change * kMillionth));
  }

  void set_bounds() {
    for (Arc& arc : arcs_) {
      arc.low = 0;
      arc.high = arc.critical ? kUncut : 0;
      if (!arc.critical || arc.activity < 0) continue;
      const auto& activity = network_.activities[static_cast<std::size_t>(arc.activity)];
      const std::int64_t units = length(arc);
      const bool is_shortest = units == activity.shortest, is_longest = units == activity.longest;
      if (is_shortest && is_longest) continue;
      if (!is_longest) arc.low = price(activity, units + 1);
      if (!is_shortest) arc.high = price(activity, units) + (is_longest ? 0 : 1);
      arc.high = std::max(arc.high, arc.low);  // for a curve that is not convex
    }
  }

  /// Adapts the flow of the previous step to the bounds of this step.
  /// \returns  false if no flow is feasible
  bool make_feasible() {
    std::vector<std::int64_t> excess(static_cast<std::size_t>(network_.events), 0);
    for (Arc& arc : arcs_) {
      const std::int64_t flow = std::clamp(arc.flow, arc.low, arc.high);
      const std::int64_t more = flow - arc.flow;
      arc.flow = flow;
      excess[static_cast<std::size_t>(arc.to)] += more;
      excess[static_cast<std::size_t>(arc.from)] -= more;
    }
    // The beginning and the end can have any excess.
    excess.front() = excess.back() = 0;
    for (int event = 1; event < sink(); ++event) {
      auto& here = excess[static_cast<std::size_t>(event)];
      while (here > 0 && drain(event, excess)) continue;
      if (here > 0) return false;
    }
    for (int event = 1; event < sink(); ++event) {
      auto& here = excess[static_cast<std::size_t>(event)];
      while (here < 0 && feed(event, excess)) continue;
      if (here < 0) return false;
    }
    return true;
  }

  /// Sends excess of an event to an event with a deficit, or to the beginning or the end. Returns
  /// false if no path exists.
  bool drain(int event, std::vector<std::int64_t>& excess) {
    const auto takes = [&](int other) {
      return other == 0 || other == sink() || excess[static_cast<std::size_t>(other)] < 0;
    };
    const int target = search(event, takes);
    if (target < 0) return false;
    std::int64_t most = excess[static_cast<std::size_t>(event)];
    if (target != 0 && target != sink())
      most = std::min(most, -excess[static_cast<std::size_t>(target)]);
    most = push(event, target, most);
    excess[static_cast<std::size_t>(event)] -= most;
    if (target != 0 && target != sink()) excess[static_cast<std::size_t>(target)] += most;
    return true;
  }

  /// Sends flow from the beginning or the end to an event with a deficit. Returns false if
  /// no path exists.
  bool feed(int event, std::vector<std::int64_t>& excess) {
    for (const int source : {0, sink()}) {
      if (search(source, [&](int other) { return other == event; }) < 0) continue;
      excess[static_cast<std::size_t>(event)] +=
          push(source, event, -excess[static_cast<std::size_t>(event)]);
      return true;
    }
    return false;
  }

  bool augment(int from, int to) {
    if (search(from, [&](int other) { return other == to; }) < 0) return false;
    push(from, to, std::numeric_limits<std::int64_t>::max());
    return true;
  }

  /// Finds the nearest event that satisfies `is_target`, breadth first along arcs that
  /// accept more flow.
  /// \returns  -1 if there is none; `came_by_` then marks all reached events
  template <class IsTarget>
  int search(int from, const IsTarget& is_target) {
    came_by_.assign(static_cast<std::size_t>(network_.events), kUnreached);
    came_by_[static_cast<std::size_t>(from)] = kStart;
    queue_.assign(1, from);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      const int event = queue_[i];
      if (event != from && is_target(event)) return event;
      const auto visit = [&](int other, int by) {
        if (came_by_[static_cast<std::size_t>(other)] != kUnreached) return;
        came_by_[static_cast<std::size_t>(other)] = by;
        queue_.push_back(other);
      };
      for (const int arc : leaving_[static_cast<std::size_t>(event)]) {
        const Arc& one = arcs_[static_cast<std::size_t>(arc)];
        if (one.flow < one.high) visit(one.to, arc);
      }
      for (const int arc : arriving_[static_cast<std::size_t>(event)]) {
        const Arc& one = arcs_[static_cast<std::size_t>(arc)];
        if (one.flow > one.low) visit(one.from, arc);
      }
    }
    return -1;
  }

  /// Pushes up to `most` flow along the path that `search` found. Returns the amount.
  std::int64_t push(int from, int to, std::int64_t most) {
    const auto along = [&](const auto& act) {
      for (int event = to; event != from;) {
        Arc& arc = arcs_[static_cast<std::size_t>(came_by_[static_cast<std::size_t>(event)])];
        const bool forwards = arc.to == event;
        act(arc, forwards);
        event = forwards ? arc.from : arc.to;
      }
    };
    along([&](const Arc& arc, bool forwards) {
      most = std::min(most, forwards ? arc.high - arc.flow : arc.flow - arc.low);
    });
    along([&](Arc& arc, bool forwards) { arc.flow += forwards ? most : -most; });
    return most;
  }

  /// Returns the changes across the cut that the last `search` marked; empty if the walk ends here.
  std::vector<UnitChange> cut() const {
    std::vector<UnitChange> changes;
    bool shortens = false;
    double cost = 0;
    for (const Arc& arc : arcs_) {
      if (!arc.critical) continue;
      const bool starts = came_by_[static_cast<std::size_t>(arc.from)] != kUnreached;
      const bool ends = came_by_[static_cast<std::size_t>(arc.to)] != kUnreached;
      if (starts == ends) continue;
      if (arc.activity < 0) {
        if (starts) return {};
        continue;
      }
      const auto& activity = network_.activities[static_cast<std::size_t>(arc.activity)];
      const std::int64_t units = length(arc);
      if (starts ? units == activity.shortest : units == activity.longest) {
        if (activity.shortest == activity.longest && !starts) continue;
        return {};
      }
      const std::int64_t next = starts ? units - 1 : units + 1;
      cost += activity.cost(next) - activity.cost(units);
      shortens |= starts;
      changes.push_back({.activity = arc.activity, .units = next});
    }
    constexpr double kNothing = 1e-6;
    return shortens && std::abs(cost) >= kNothing ? changes : std::vector<UnitChange>{};
  }

  static constexpr int kUnreached = -1, kStart = -2;
  const UnitNetwork& network_;
  std::vector<std::int64_t> units_;                   // of each activity
  std::vector<Arc> arcs_;                             // activities, then dependencies
  std::vector<std::vector<int>> leaving_, arriving_;  // of each event
  std::vector<int> order_;                            // events in topological order
  std::vector<int> came_by_, queue_;                  // of the newest search: the arc to each event
};

/// Returns the steps from the slowest to the fastest iteration. Requires an acyclic network.
UnitSteps walk_unit_steps(const UnitNetwork& network) {
  return Walk(network).run();
}

/// The choices of an instruction, fastest first, and the curve through them.
struct Choices {
  struct Choice {
    Megahertz clock;
    std::int64_t units = 0;
    Joules energy;
  };
  std::vector<Choice> choices;
  std::function<double(double)> curve = {};  ///< effective joules over units; empty without choices
};

/// Returns the points without knobs that no other such point beats in both time and energy, reduced
/// by the factor `share`.
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

/// Returns the convex piecewise linear function through the ends of at most three points, and
/// through the middle point if it lies below their line.
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
  std::map<std::int64_t, Choices::Choice> by_units;  // the dearest choice for each number of units
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
  std::vector<const Choices*> choices;  // of each node; null for a transfer
  std::map<std::tuple<int, int, InstructionKind>, Choices> tables;
  UnitNetwork network;
  Joules fixed_energy{0};  // effective, of the nodes without a choice, per GPU
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

/// Returns the activity of a node without its events, and records the node's choices.
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

/// Adds a node between two new events, after the beginning and before the end of the network.
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

/// Returns the planned figures of each step: times in whole units, energies from the curves.
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
    // The slowest clock that is at least as fast as planned.
    if (const Choices* choices = data_->choices[i])
      for (const Choices::Choice& choice : choices->choices)
        if (choice.units <= units[i] || clock == Megahertz{}) clock = choice.clock;
    clocks[static_cast<std::size_t>(pipeline.nodes()[i].stage)].push_back(clock);
  }
  return data_->frontier.plan_of_clocks(clocks, Seconds{0}, pricing);
}

Result<Plan> PerseusFrontier::plan_by(Seconds deadline, const PlanOptions& pricing) const {
  // Real times fall with planned times, apart from the rounding of units to clocks.
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
