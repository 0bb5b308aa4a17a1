// The check of a certificate's loops. Shares no code with the search for them (loops.h).

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/verify_parts.h"

namespace harpe::plan::verifying {
namespace {

/// The events of the starts and ends of nodes. A start and an end share an event if they can have
/// the same time: an end can be as late as the start of everything that waits for it, a start as
/// early as the last end that it waits for.
class Events {
 public:
  Events(const RulesGraph& graph, std::span<const LoopArc> arcs) {
    const std::size_t nodes = graph.nodes.size();
    before_.resize(nodes);
    after_.resize(nodes);
    for (std::size_t d = 0; d < graph.edges.size(); ++d) {
      const RulesGraph::Edge& edge = graph.edges[d];
      if (follows_from_order(graph, edge) && arcs[nodes + d].flow == 0) continue;
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

  /// Returns the event at the tail or head of an arc; -1 if both are the same event or the arc is
  /// left out.
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

  /// Returns true if exactly these starts wait for each of these ends, and for no other end,
  /// without a lag.
  bool wait_for_each_other(const std::vector<int>& ends, const std::vector<int>& starts) const {
    return std::ranges::all_of(ends, [&](int end) { return after_[end] == starts; }) &&
           std::ranges::all_of(starts, [&](int start) { return before_[start] == ends; }) &&
           std::ranges::none_of(ends, [&](int end) {
             return std::ranges::any_of(starts, [&](int start) { return is_late(end, start); });
           });
  }

  // Events: 2 i + 1 is the start of node i, 2 i + 2 its end, 0 the first event and -2 the last.
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

  std::vector<std::vector<int>> before_, after_;  // per node
  std::vector<std::pair<int, int>> late_;         // dependencies with a lag
  std::vector<std::size_t> kept_;
  std::vector<int> start_, end_, tail_, head_;
};

// Limits that keep sums within `Fixed`: a loop has at most four arcs.
constexpr std::int64_t kMostLoss = std::int64_t{1} << 60;  ///< J of one arc; replaces larger losses
constexpr double kMostPrice = 0x1p20;  ///< W of one path: 2^60 J over the longest time, 2^40 s

/// A possible time of a path and its least loss.
struct PathTime {
  /// Rounded. If rounding makes the shorter path look longer, its wait counts as negative, and the
  /// loop proves less.
  double time = 0;
  Fixed loss = 0;
  Fixed at_my_price = 0, at_other_price = 0;  ///< price of waiting times `time`, J
};
/// The most by which the sum of two arcs, each rounded down, is below the true sum.
constexpr Fixed kRounding = 2;

class LoopChecker {
 public:
  LoopChecker(std::span<const LoopArc> arcs, const Certificate& certificate)
      : arcs_(arcs), certificate_(certificate), uses_(arcs.size(), 0), choices_(arcs.size()) {
    for (const CertificateLoop& loop : certificate.loops) {
      for (const auto& path : loop.paths) {
        for (const int arc : path) ++uses_[arc];
      }
    }
    for (std::size_t arc = 0; arc < arcs.size(); ++arc) {
      if (uses_[arc] == 0) continue;
      for (const LoopArc::Choice& choice : arcs[arc].choices) {
        const Exact share = std::min(choice.loss.divided_down(uses_[arc]), Exact::of(kMostLoss, 0));
        choices_[arc].push_back({choice.time.value, share.count_down(kFixedBits),
                                 Exact::product(certificate.flow_unit.value, choice.time.value)});
      }
    }
    for (const LossTransfer& transfer : certificate.transfers) {
      moved_[{transfer.giver, transfer.arc}].push_back({&transfer, -1});
      moved_[{transfer.taker, transfer.arc}].push_back({&transfer, 1});
    }
  }

  Exact lost() const {
    Exact sum;
    for (std::size_t i = 0; i < certificate_.loops.size(); ++i) {
      const auto& [first, second] = certificate_.loops[i].paths;
      const auto loop = static_cast<int>(i);
      const std::int64_t my_price = price_of(first), other_price = price_of(second);
      sum += Exact::of(least(times_of(loop, first, my_price, other_price),
                             times_of(loop, second, my_price, other_price)),
                       kFixedBits);
    }
    return sum;
  }

 private:
  /// One operating point of an arc.
  struct Choice {
    double time;        ///< s
    Fixed loss;         ///< the share of each loop that has the arc
    Exact priced_time;  ///< J of one unit of flow over the time
  };

  /// Returns the loss that transfers add to the loss of an arc in a loop, negative if the loop
  /// gives. Giver and taker compare times in the same way, so that the losses moved add up to 0.
  Fixed moved_to(int loop, int arc, double time) const {
    const auto moved = moved_.find({loop, arc});
    if (moved == moved_.end()) return 0;
    std::int64_t units = 0;
    for (const auto& [transfer, sign] : moved->second) {
      const auto starts_by_then = [&](std::int64_t from) {
        return certificate_.time_unit.value * static_cast<double>(from) <= time;
      };
      const auto next = std::ranges::partition_point(transfer->from, starts_by_then);
      if (next != transfer->from.begin())
        units += sign * transfer->moved[next - transfer->from.begin() - 1];
    }
    return (Exact(certificate_.loss_unit.value) * units).count_down(kFixedBits);
  }

  std::vector<PathTime> times_of(int loop, const std::vector<int>& path, std::int64_t my_price,
                                 std::int64_t other_price) const {
    std::vector<PathTime> times(1);
    for (const int arc : path) {
      std::vector<PathTime> longer;
      longer.reserve(times.size() * choices_[arc].size());
      for (const Choice& choice : choices_[arc]) {
        const Fixed loss = choice.loss + moved_to(loop, arc, choice.time);
        const Fixed mine = (choice.priced_time * my_price).count_down(kFixedBits);
        const Fixed other = (choice.priced_time * other_price).count_down(kFixedBits);
        for (const PathTime& so_far : times) {
          longer.push_back({so_far.time + choice.time, so_far.loss + loss,
                            so_far.at_my_price + mine, so_far.at_other_price + other});
        }
      }
      times = std::move(longer);
    }
    std::ranges::sort(times, {}, &PathTime::time);
    return times;
  }

  /// Returns the price of waiting on a path, in units of flow, rounded down: the least of its arcs,
  /// because a path waits where that is cheapest. The price of an arc is divided among its loops.
  std::int64_t price_of(const std::vector<int>& path) const {
    auto least =
        static_cast<std::int64_t>(std::min(kMostPrice / certificate_.flow_unit.value, 0x1p62));
    for (const int arc : path) least = std::min(least, arcs_[arc].flow / uses_[arc]);
    return least;
  }

  /// Returns the least loss of both paths together. The shorter one waits for the longer one.
  static Fixed least(const std::vector<PathTime>& mine, const std::vector<PathTime>& other) {
    constexpr Fixed kNone = static_cast<Fixed>(1) << 125;
    const std::size_t n = other.size();
    // The least that the other path adds among its first j times, with a wait, or among the rest.
    std::vector<Fixed> up_to(n + 1, kNone), from(n + 1, kNone);
    for (std::size_t j = 0; j < n; ++j)
      up_to[j + 1] = std::min(up_to[j], other[j].loss - other[j].at_other_price - kRounding);
    for (std::size_t j = n; j-- > 0;)
      from[j] = std::min(from[j + 1], other[j].loss + other[j].at_my_price);
    Fixed least = kNone;
    for (const PathTime& path : mine) {
      const auto longer = std::ranges::upper_bound(other, path.time, {}, &PathTime::time);
      const auto j = static_cast<std::size_t>(longer - other.begin());
      least = std::min(least, path.loss + std::min(up_to[j] + path.at_other_price,
                                                   from[j] - path.at_my_price - kRounding));
    }
    return least;
  }

  struct Moved {
    const LossTransfer* transfer;
    int sign;
  };
  std::span<const LoopArc> arcs_;
  const Certificate& certificate_;
  std::vector<int> uses_;                                    // of each arc
  std::vector<std::vector<Choice>> choices_;                 // of each arc in a loop
  std::map<std::pair<int, int>, std::vector<Moved>> moved_;  // of each loop and arc
};

/// Returns the error in a loop; nullopt if the loop is valid.
std::optional<std::string> fault(const Events& events, std::span<const LoopArc> arcs,
                                 const CertificateLoop& loop) {
  const auto& paths = loop.paths;
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
  return {};
}

/// The check of transfers between loops. Any amount may be moved, because one loop counts more what
/// the other one counts less, up to a limit beyond which sums would lose significant digits.
class TransferChecker {
 public:
  TransferChecker(std::span<const LoopArc> arcs, const Certificate& certificate)
      : loops_(certificate.loops) {
    constexpr double kMostMoved = 1e4;        // times the largest loss of an arc
    constexpr double kWholeDoubles = 0x1p53;  // doubles count exactly up to it
    constexpr double kMostJoules = 0x1p55;    // far below the limits of `Fixed`
    Exact most;
    for (const LoopArc& arc : arcs) {
      for (const LoopArc::Choice& choice : arc.choices) most = std::max(most, choice.loss);
    }
    most_units_ = std::min({kMostMoved * (most.rounded_up() / certificate.loss_unit.value),
                            kWholeDoubles, kMostJoules / certificate.loss_unit.value});
  }

  /// Returns the error in the next transfer; nullopt if the transfer is valid.
  std::optional<std::string> fault(const LossTransfer& transfer) {
    if (transfer.giver == transfer.taker || !is_in(transfer.giver, transfer.arc) ||
        !is_in(transfer.taker, transfer.arc))
      return "not from one loop of its arc to another";
    if (transfer.from.size() != transfer.moved.size() ||
        std::ranges::adjacent_find(transfer.from, std::greater_equal()) != transfer.from.end())
      return "its times do not rise, one for each loss";
    double most = 0;
    for (const std::int64_t units : transfer.moved)
      most = std::max(most, std::abs(static_cast<double>(units)));
    for (const int loop : {transfer.giver, transfer.taker}) {
      double& moved = moved_[{loop, transfer.arc}];
      moved += most;
      if (!(moved <= most_units_)) return "it moves too much";
    }
    return {};
  }

 private:
  bool is_in(int loop, int arc) const {
    if (loop < 0 || static_cast<std::size_t>(loop) >= loops_.size()) return false;
    return std::ranges::any_of(loops_[loop].paths, [&](const std::vector<int>& path) {
      return std::ranges::find(path, arc) != path.end();
    });
  }

  std::span<const CertificateLoop> loops_;
  double most_units_ = 0;
  std::map<std::pair<int, int>, double> moved_;  // most units, per loop and arc
};

}  // namespace

Exact lost_by_loops(const RulesGraph& graph, std::span<const LoopArc> arcs,
                    const Certificate& certificate, Diagnostics& diagnostics) {
  const Events events(graph, arcs);
  const std::span<const CertificateLoop> loops = certificate.loops;
  for (std::size_t i = 0; i < loops.size(); ++i) {
    if (const auto what = fault(events, arcs, loops[i])) {
      diagnostics.add("certificate: loop " + std::to_string(i) + ": " + *what);
      return Exact();
    }
  }
  TransferChecker transfers(arcs, certificate);
  for (std::size_t i = 0; i < certificate.transfers.size(); ++i) {
    if (const auto what = transfers.fault(certificate.transfers[i])) {
      diagnostics.add("certificate: transfer " + std::to_string(i) + ": " + *what);
      return Exact();
    }
  }
  return LoopChecker(arcs, certificate).lost();
}

}  // namespace harpe::plan::verifying
