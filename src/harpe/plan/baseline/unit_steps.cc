#include "harpe/plan/baseline/unit_steps.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <queue>
#include <ranges>

namespace harpe::plan {
namespace {

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

  /// Marks the arcs without slack. \returns the units of the whole
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

  /// Returns the cost of one unit less than `units`, in millionths, rounded down.
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
      arc.high = std::max(arc.high, arc.low);  // a curve that is not convex
    }
  }

  /// Brings the flow of the step before within the bounds of this one.
  /// \returns  false if no flow is
  bool make_feasible() {
    std::vector<std::int64_t> excess(static_cast<std::size_t>(network_.events), 0);
    for (Arc& arc : arcs_) {
      const std::int64_t flow = std::clamp(arc.flow, arc.low, arc.high);
      const std::int64_t more = flow - arc.flow;
      arc.flow = flow;
      excess[static_cast<std::size_t>(arc.to)] += more;
      excess[static_cast<std::size_t>(arc.from)] -= more;
    }
    // Beginning and end exchange what they like.
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

  /// Sends some excess of an event to one that lacks it, or to beginning or end.
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

  /// Brings an event what it lacks, from beginning or end.
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

  /// Looks for the nearest event of a kind along arcs that take more flow, breadth first.
  /// \returns  -1 if there is none; `came_by_` then has all that were reached
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

  /// Sends as much as the path that `search` has found takes. \returns how much
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

  /// Returns the changes across the cut that `search` has left; empty if the walk ends here.
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
  std::vector<int> order_;                            // of events
  std::vector<int> came_by_, queue_;                  // of the newest search: the arc to each event
};

}  // namespace

UnitSteps walk_unit_steps(const UnitNetwork& network) {
  return Walk(network).run();
}

}  // namespace harpe::plan
