// What a certificate's loops add to the bound. Shares no code with what finds them (loops.h).

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/frontier/verify_parts.h"

namespace harpe::verifying {
namespace {

/// Starts and ends of nodes by the events that they may be taken for: an end may be as late as the
/// start of all that waits for it, a start as early as the last end that it waits for.
class Events {
 public:
  Events(const RulesGraph& graph, std::span<const LoopArc> arcs) {
    const std::size_t nodes = graph.nodes.size();
    before_.resize(nodes);
    after_.resize(nodes);
    for (std::size_t d = 0; d < graph.edges.size(); ++d) {
      const RulesGraph::Edge& edge = graph.edges[d];
      if (follows_from_order(graph, edge) && !(arcs[nodes + d].flow > Watts{0})) continue;
      before_[edge.to].push_back(edge.from);
      after_[edge.from].push_back(edge.to);
      if (edge.lag > Seconds{0}) late_.emplace_back(edge.from, edge.to);
      kept_.push_back(d);
    }
    for (auto* lists : {&before_, &after_}) {
      for (auto& list : *lists) std::ranges::sort(list);
    }
    std::ranges::sort(late_);
    for (std::size_t i = 0; i < nodes; ++i) number(static_cast<int>(i));
    tail_.assign(arcs.size(), -1);
    head_.assign(arcs.size(), -1);
    for (std::size_t i = 0; i < nodes; ++i) set(i, start_[i], end_[i]);
    for (const std::size_t d : kept_)
      set(nodes + d, end_[graph.edges[d].from], start_[graph.edges[d].to]);
  }

  /// Of an arc; -1 for one that lies within an event.
  int tail(int arc) const { return tail_[arc]; }
  int head(int arc) const { return head_[arc]; }

 private:
  static bool follows_from_order(const RulesGraph& graph, const RulesGraph::Edge& edge) {
    const int stage = graph.nodes[edge.from].stage;
    return stage >= 0 && stage == graph.nodes[edge.to].stage && edge.to - edge.from > 1 &&
           !(edge.lag > Seconds{0});
  }

  bool is_late(int from, int to) const {
    return std::ranges::binary_search(late_, std::pair(from, to));
  }

  /// Whether all that wait for one of these ends wait for all of them, and for nothing else.
  bool wait_for_each_other(const std::vector<int>& ends, const std::vector<int>& starts) const {
    return std::ranges::all_of(ends, [&](int end) { return after_[end] == starts; }) &&
           std::ranges::all_of(starts, [&](int start) { return before_[start] == ends; }) &&
           std::ranges::none_of(ends, [&](int end) {
             return std::ranges::any_of(starts, [&](int start) { return is_late(end, start); });
           });
  }

  // Events: start of node i 2 i + 1, end 2 i + 2, the first and the last of all 0 and -2.
  void number(int i) {
    const auto own_start = [](int node) { return 2 * node + 1; };
    const auto own_end = [](int node) { return 2 * node + 2; };
    const std::vector<int>&before = before_[i], &after = after_[i];
    start_.push_back(own_start(i));
    end_.push_back(own_end(i));
    if (before.empty()) {
      start_[i] = 0;
    } else if (wait_for_each_other(before, after_[before.front()]) ||
               (before.size() == 1 && !is_late(before.front(), i))) {
      start_[i] = own_end(before.front());
    }
    if (after.empty()) {
      end_[i] = -2;
    } else if (const int next = after.front(); wait_for_each_other(before_[next], after)) {
      end_[i] = own_end(before_[next].front());
    } else if (after.size() == 1 && !is_late(i, next)) {
      end_[i] = own_start(next);
    }
  }

  void set(std::size_t arc, int from, int to) {
    if (from == to) return;
    tail_[arc] = from;
    head_[arc] = to;
  }

  std::vector<std::vector<int>> before_, after_;  // nodes, of each node
  std::vector<std::pair<int, int>> late_;         // dependencies with a lag
  std::vector<std::size_t> kept_;
  std::vector<int> start_, end_, tail_, head_;
};

/// The times that a path can take, rising, and what it loses at least with them.
struct PathTime {
  double time = 0, loss = 0;
  std::size_t choice = 0;  ///< of the arc in common with the parent
};

class LoopChecker {
 public:
  LoopChecker(std::span<const LoopArc> arcs, std::span<const CertificateLoop> loops)
      : arcs_(arcs), loops_(loops), uses_(arcs.size(), 0), trees_(arcs.size(), 0) {
    for (const CertificateLoop& loop : loops) {
      for (const auto& path : loop.paths) {
        for (const int arc : path) {
          ++uses_[arc];
          trees_[arc] += loop.parent < 0 || arc != loop.common;
        }
      }
    }
    handed_on_.resize(loops.size());
  }

  /// Children come after their parents.
  double lost() {
    double sum = 0;
    for (std::size_t i = loops_.size(); i-- > 0;) {
      const CertificateLoop& loop = loops_[i];
      const std::size_t choices = loop.parent < 0 ? 1 : arcs_[loop.common].choices.size();
      std::vector<double> least(choices, std::numeric_limits<double>::infinity());
      const bool common_is_second =
          loop.parent >= 0 && std::ranges::find(loop.paths[1], loop.common) != loop.paths[1].end();
      const auto& mine = loop.paths[common_is_second ? 1 : 0];
      const auto& other = loop.paths[common_is_second ? 0 : 1];
      weigh(times_of(i, mine), times_of(i, other), price_of(mine), price_of(other), least);
      if (loop.parent < 0) {
        sum += least.front();
      } else {
        // To the loop nearest to the root that has the same arc at the same point.
        std::size_t top = static_cast<std::size_t>(loop.parent);
        while (loops_[top].parent >= 0 && loops_[top].common == loop.common)
          top = static_cast<std::size_t>(loops_[top].parent);
        handed_on_[top].push_back({loop.common, std::move(least)});
      }
    }
    return sum;
  }

 private:
  struct HandedOn {
    int arc;
    std::vector<double> least;  // of each choice
  };

  std::vector<PathTime> times_of(std::size_t i, const std::vector<int>& path) const {
    const CertificateLoop& loop = loops_[i];
    std::vector<PathTime> times(1);
    for (const int arc : path) {
      const auto& choices = arcs_[arc].choices;
      const bool is_common = loop.parent >= 0 && arc == loop.common;
      std::vector<PathTime> longer;
      for (std::size_t k = 0; k < choices.size(); ++k) {
        // What is lost at an arc in common is counted once, nearest to the root.
        double loss = is_common ? 0 : choices[k].loss.value / trees_[arc];
        for (const HandedOn& below : handed_on_[i]) {
          if (below.arc == arc) loss += below.least[k];
        }
        for (const PathTime& so_far : times) {
          longer.push_back({so_far.time + choices[k].time.value, so_far.loss + loss,
                            is_common ? k : so_far.choice});
        }
      }
      times = std::move(longer);
    }
    std::ranges::sort(times, {}, &PathTime::time);
    return times;
  }

  /// A path waits where that costs least; the price of waiting at an arc is shared among its loops.
  double price_of(const std::vector<int>& path) const {
    double least = std::numeric_limits<double>::infinity();
    for (const int arc : path) least = std::min(least, arcs_[arc].flow.value / uses_[arc]);
    return least;
  }

  /// The least for each choice of `mine`: the shorter path waits for the longer.
  static void weigh(const std::vector<PathTime>& mine, const std::vector<PathTime>& other,
                    double my_price, double other_price, std::vector<double>& least) {
    const std::size_t n = other.size();
    constexpr double kNone = std::numeric_limits<double>::infinity();
    std::vector<double> up_to(n + 1, kNone), from(n + 1, kNone);
    for (std::size_t j = 0; j < n; ++j)
      up_to[j + 1] = std::min(up_to[j], other[j].loss - other_price * other[j].time);
    for (std::size_t j = n; j-- > 0;)
      from[j] = std::min(from[j + 1], other[j].loss + my_price * other[j].time);
    for (const PathTime& path : mine) {
      const auto longer = std::ranges::upper_bound(other, path.time, {}, &PathTime::time);
      const auto j = static_cast<std::size_t>(longer - other.begin());
      const double loss =
          path.loss + std::min(up_to[j] + other_price * path.time, from[j] - my_price * path.time);
      least[path.choice] = std::min(least[path.choice], loss);
    }
  }

  std::span<const LoopArc> arcs_;
  std::span<const CertificateLoop> loops_;
  std::vector<int> uses_, trees_;  // of each arc: loops, and those that share no point of it
  std::vector<std::vector<HandedOn>> handed_on_;
};

/// What is wrong with a loop, if anything.
std::optional<std::string> fault(const Events& events, std::span<const LoopArc> arcs,
                                 std::span<const CertificateLoop> loops, std::size_t i) {
  const auto& [paths, parent, common] = loops[i];
  const auto has = [](const CertificateLoop& loop, int arc) {
    return std::ranges::any_of(
        loop.paths, [&](const auto& path) { return std::ranges::find(path, arc) != path.end(); });
  };
  for (const auto& path : paths) {
    if (path.empty() || path.size() > 2) return "a path has one or two arcs";
    for (const int arc : path) {
      if (arc < 0 || static_cast<std::size_t>(arc) >= arcs.size() || events.tail(arc) == -1)
        return "there is no arc " + std::to_string(arc) + " between two events";
    }
    if (path.size() == 2 && events.head(path[0]) != events.tail(path[1]))
      return "a path is interrupted";
  }
  const auto& [first, second] = paths;
  for (const int arc : first) {
    if (std::ranges::find(second, arc) != second.end()) return "its paths have an arc in common";
  }
  if (first.front() == first.back() && first.size() == 2) return "a path has an arc twice";
  if (second.front() == second.back() && second.size() == 2) return "a path has an arc twice";
  if (events.tail(first.front()) != events.tail(second.front()) ||
      events.head(first.back()) != events.head(second.back()))
    return "its paths do not lead from the same event to the same event";
  if (parent < 0) return {};
  if (static_cast<std::size_t>(parent) >= i || !has(loops[parent], common) ||
      !has(loops[i], common))
    return "its parent is no earlier loop with that arc";
  return {};
}

}  // namespace

Joules lost_by_loops(const RulesGraph& graph, std::span<const LoopArc> arcs,
                     std::span<const CertificateLoop> loops, Diagnostics& diagnostics) {
  const Events events(graph, arcs);
  for (std::size_t i = 0; i < loops.size(); ++i) {
    if (const auto what = fault(events, arcs, loops, i)) {
      diagnostics.add("certificate: loop " + std::to_string(i) + ": " + *what);
      return Joules{0};
    }
  }
  return Joules{LoopChecker(arcs, loops).lost()};
}

}  // namespace harpe::verifying
