#include "harpe/frontier/loops.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

namespace harpe {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
// Loops from an event with more arcs would be many and share all they lose.
constexpr std::size_t kMostWaysOut = 8;
// Larger trees find hardly more (0.1288 in place of 0.1283 % for 16 stages and 64 micro-batches),
// and smaller ones rule choices out that lose more than all of them.
constexpr int kLargestTree = 16;
// Choices of an arc with which the least of a tree is bounded from above first.
constexpr std::size_t kFewChoices = 5;

class DisjointSets {
 public:
  explicit DisjointSets(std::size_t n) : parent_(n), size_(n, 1) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int root(int i) {
    while (parent_[i] != i) i = parent_[i] = parent_[parent_[i]];
    return i;
  }
  int size(int i) { return size_[root(i)]; }
  void join(int a, int b) {
    a = root(a);
    b = root(b);
    if (a == b) return;
    parent_[b] = a;
    size_[a] += size_[b];
  }

 private:
  std::vector<int> parent_, size_;
};

/// Finds which starts and ends of nodes are one event.
class EventMerger {
 public:
  EventMerger(std::size_t nodes, std::span<const Dependency> dependencies,
              const std::vector<bool>& left_out)
      : dependencies_(dependencies),
        left_out_(left_out),
        into_(nodes),
        out_of_(nodes),
        events_(2 * nodes) {
    for (std::size_t d = 0; d < dependencies.size(); ++d) {
      if (left_out[d]) continue;
      out_of_[dependencies[d].from].push_back(static_cast<int>(d));
      into_[dependencies[d].to].push_back(static_cast<int>(d));
    }
  }

  EventArcs merge() {
    std::vector<bool> is_done(into_.size(), false);
    for (std::size_t from = 0; from < into_.size(); ++from) {
      if (!is_done[from]) merge_around(static_cast<int>(from), is_done);
    }
    merge_outermost();
    EventArcs arcs;
    for (int i = 0; i < static_cast<int>(into_.size()); ++i) add(arcs, start_of(i), end_of(i));
    for (std::size_t d = 0; d < dependencies_.size(); ++d) {
      const Dependency& dependency = dependencies_[d];
      if (left_out_[d]) {
        add(arcs, 0, 0);
      } else {
        add(arcs, end_of(dependency.from), start_of(dependency.to));
      }
    }
    return arcs;
  }

 private:
  static int start_of(int node) { return 2 * node; }
  static int end_of(int node) { return 2 * node + 1; }

  void add(EventArcs& arcs, int from, int to) {
    const int tail = events_.root(from), head = events_.root(to);
    arcs.tail.push_back(tail == head ? -1 : tail);
    arcs.head.push_back(tail == head ? -1 : head);
  }

  // All starts that wait for the end of a node, all ends that these wait for, and so on.
  void merge_around(int from, std::vector<bool>& is_done) {
    std::vector<int> ends{from}, starts;
    is_done[from] = true;
    std::size_t links = 0;
    bool has_lag = false;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      for (const int d : out_of_[ends[i]]) {
        ++links;
        has_lag |= dependencies_[d].lag > Seconds{0};
        const int to = dependencies_[d].to;
        if (std::ranges::find(starts, to) != starts.end()) continue;
        starts.push_back(to);
        for (const int back : into_[to]) {
          const int other = dependencies_[back].from;
          if (is_done[other]) continue;
          is_done[other] = true;
          ends.push_back(other);
        }
      }
    }
    if (starts.empty()) return;
    const bool all_wait_for_all = !has_lag && links == ends.size() * starts.size();
    for (const int end : ends) {
      for (const int d : out_of_[end]) {
        const Dependency& dependency = dependencies_[d];
        const bool is_only = out_of_[end].size() == 1 || into_[dependency.to].size() == 1;
        if (all_wait_for_all || (is_only && !(dependency.lag > Seconds{0})))
          events_.join(end_of(end), start_of(dependency.to));
      }
    }
  }

  void merge_outermost() {
    int first = -1, last = -1;
    for (int i = 0; i < static_cast<int>(into_.size()); ++i) {
      if (into_[i].empty()) {
        if (first >= 0) events_.join(first, start_of(i));
        first = start_of(i);
      }
      if (out_of_[i].empty()) {
        if (last >= 0) events_.join(last, end_of(i));
        last = end_of(i);
      }
    }
  }

  std::span<const Dependency> dependencies_;
  const std::vector<bool>& left_out_;
  std::vector<std::vector<int>> into_, out_of_;  // dependencies at each node
  DisjointSets events_;
};

/// A choice of one or two arcs of a path, or the remainder of a path.
struct Point {
  double time = 0, loss = 0;
  int choice = -1;  // of the arc that is told of
};

void sort_by_time(std::vector<Point>& points) {
  std::ranges::sort(points, [](const Point& a, const Point& b) {
    return std::tie(a.time, a.loss, a.choice) < std::tie(b.time, b.loss, b.choice);
  });
}

/// The least loss of all loops, tree by tree.
class LoopTrees {
 public:
  LoopTrees(std::span<const CertificateLoop> loops, std::span<const LossyArc> arcs)
      : arcs_(arcs),
        uses_(arcs.size(), 0),
        copies_of_(arcs.size()),
        sets_(loops.size()),
        loops_(loops.size()) {
    for (const CertificateLoop& loop : loops) {
      for (const auto& path : loop) {
        for (const int arc : path) ++uses_[arc];
      }
    }
    for (std::size_t i = 0; i < loops.size(); ++i) link(static_cast<int>(i), loops[i]);
    for (Copy& copy : copies_) copy.share = 1.0 / static_cast<double>(copies_of_[copy.arc].size());
  }

  double least() {
    double sum = 0;
    std::vector<bool> is_seen(loops_.size(), false);
    for (std::size_t root = 0; root < loops_.size(); ++root) {
      if (is_seen[root]) continue;
      const std::vector<int> tree = unfold(static_cast<int>(root), is_seen);
      // No answer has a choice that loses more by itself than a whole other answer.
      offer_few(tree);
      const double most = least_of(tree);
      offer_up_to(tree, most);
      sum += least_of(tree);
    }
    return sum;
  }

 private:
  /// An arc in some loops of one tree. There it has one choice.
  struct Copy {
    int arc;
    std::vector<int> loops;
    double share = 1;                // of what the arc loses
    std::vector<int> offered;        // choices of the arc
    std::vector<double> below = {};  // least loss of the loops beyond, for each of them
  };
  struct CopiedLoop {
    std::array<std::vector<int>, 2> paths;  // of copies
    int to_parent = -1;                     // copy in common with the loop it is handed on to
  };

  void link(int loop, const CertificateLoop& of) {
    for (std::size_t side = 0; side < 2; ++side) {
      for (const int arc : of[side]) {
        int joined = -1;
        for (const int copy : copies_of_[arc]) {
          const int tree = copies_[copy].loops.front();
          if (arcs_[arc].choices.size() < 2 || sets_.root(tree) == sets_.root(loop) ||
              sets_.size(tree) + sets_.size(loop) > kLargestTree)
            continue;
          sets_.join(tree, loop);
          joined = copy;
          break;
        }
        if (joined < 0) {
          joined = static_cast<int>(copies_.size());
          copies_.push_back({.arc = arc, .loops = {}, .offered = {}});
          copies_of_[arc].push_back(joined);
        }
        copies_[joined].loops.push_back(loop);
        loops_[loop].paths[side].push_back(joined);
      }
    }
  }

  /// The loops of a tree, each before those that hand on to it.
  std::vector<int> unfold(int root, std::vector<bool>& is_seen) {
    std::vector<int> tree{root};
    is_seen[root] = true;
    for (std::size_t i = 0; i < tree.size(); ++i) {
      for (const auto& path : loops_[tree[i]].paths) {
        for (const int copy : path) {
          for (const int other : copies_[copy].loops) {
            if (is_seen[other]) continue;
            is_seen[other] = true;
            loops_[other].to_parent = copy;
            tree.push_back(other);
          }
        }
      }
    }
    return tree;
  }

  template <class Offer>
  void for_copies(const std::vector<int>& tree, const Offer& offer) {
    for (const int loop : tree) {
      for (const auto& path : loops_[loop].paths) {
        for (const int copy : path) offer(copies_[copy], arcs_[copies_[copy].arc].choices);
      }
    }
  }

  void offer_few(const std::vector<int>& tree) {
    for_copies(tree, [&](Copy& copy, const std::vector<ArcChoice>& choices) {
      copy.offered.resize(choices.size());
      std::iota(copy.offered.begin(), copy.offered.end(), 0);
      std::ranges::sort(copy.offered, [&](int a, int b) {
        return std::pair(choices[a].loss, a) < std::pair(choices[b].loss, b);
      });
      if (copy.offered.size() > kFewChoices) copy.offered.resize(kFewChoices);
    });
  }

  void offer_up_to(const std::vector<int>& tree, double most) {
    for_copies(tree, [&](Copy& copy, const std::vector<ArcChoice>& choices) {
      copy.offered.clear();
      for (std::size_t k = 0; k < choices.size(); ++k) {
        if (copy.share * choices[k].loss.value <= most) copy.offered.push_back(static_cast<int>(k));
      }
    });
  }

  double least_of(const std::vector<int>& tree) {
    for_copies(tree, [](Copy& copy, const auto&) { copy.below.assign(copy.offered.size(), 0); });
    for (std::size_t i = tree.size(); i-- > 1;) hand_on(loops_[tree[i]]);
    double least = kInfinity;
    const CopiedLoop& root = loops_[tree.front()];
    merge(combine(root.paths[0], -1), combine(root.paths[1], -1), wait_price(root.paths[0]),
          wait_price(root.paths[1]), [&](int, double loss) { least = std::min(least, loss); });
    return least;
  }

  /// Adds to the arc in common what the loop loses at least for each choice of it.
  void hand_on(const CopiedLoop& loop) {
    const bool is_first = std::ranges::find(loop.paths[0], loop.to_parent) != loop.paths[0].end();
    const auto& own = loop.paths[is_first ? 0 : 1];
    const auto& other = loop.paths[is_first ? 1 : 0];
    Copy& copy = copies_[loop.to_parent];
    std::vector<double> least(copy.offered.size(), kInfinity);
    merge(combine(own, loop.to_parent), combine(other, -1), wait_price(own), wait_price(other),
          [&](int choice, double loss) { least[choice] = std::min(least[choice], loss); });
    for (std::size_t k = 0; k < least.size(); ++k) copy.below[k] += least[k];
  }

  /// Everything that the arcs of a path can be together, by rising time. Of copy `told` no loss
  /// counts; each point tells its choice.
  std::vector<Point> combine(const std::vector<int>& path, int told) const {
    std::vector<Point> points{{}};
    for (const int c : path) {
      const Copy& copy = copies_[c];
      const auto& choices = arcs_[copy.arc].choices;
      std::vector<Point> longer;
      longer.reserve(points.size() * copy.offered.size());
      for (const Point& point : points) {
        for (std::size_t k = 0; k < copy.offered.size(); ++k) {
          const ArcChoice& choice = choices[copy.offered[k]];
          Point next = point;
          next.time += choice.time.value;
          if (c == told) {
            next.choice = static_cast<int>(k);
          } else {
            next.loss += copy.share * choice.loss.value + copy.below[k];
          }
          longer.push_back(next);
        }
      }
      points = std::move(longer);
    }
    sort_by_time(points);
    return points;
  }

  /// A path waits where that costs least.
  double wait_price(const std::vector<int>& path) const {
    double least = kInfinity;
    for (const int c : path) {
      const int arc = copies_[c].arc;
      least = std::min(least, arcs_[arc].flow.value / uses_[arc]);
    }
    return least;
  }

  /// Tells for each of `own` the least loss together with any of `other`: the shorter waits.
  template <class Tell>
  static void merge(const std::vector<Point>& own, const std::vector<Point>& other,
                    double own_price, double other_price, const Tell& tell) {
    // Of those that are longer than what is to come: the least of loss + price x time.
    std::vector<double> longer(other.size() + 1, kInfinity);
    for (std::size_t i = other.size(); i-- > 0;)
      longer[i] = std::min(longer[i + 1], other[i].loss + own_price * other[i].time);
    double shorter = kInfinity;
    std::size_t next = 0;
    for (const Point& point : own) {
      for (; next < other.size() && other[next].time <= point.time; ++next)
        shorter = std::min(shorter, other[next].loss - other_price * other[next].time);
      tell(point.choice, point.loss + std::min(shorter + other_price * point.time,
                                               longer[next] - own_price * point.time));
    }
  }

  std::span<const LossyArc> arcs_;
  std::vector<int> uses_;                    // of each arc, by loops
  std::vector<std::vector<int>> copies_of_;  // of each arc
  DisjointSets sets_;                        // of loops: trees
  std::vector<CopiedLoop> loops_;
  std::vector<Copy> copies_;
};

}  // namespace

EventArcs event_arcs(std::size_t nodes, std::span<const Dependency> dependencies,
                     const std::vector<bool>& left_out) {
  return EventMerger(nodes, dependencies, left_out).merge();
}

std::vector<CertificateLoop> find_loops(const EventArcs& events, std::span<const Watts> flow) {
  std::vector<std::vector<int>> out(events.tail.size());  // arcs of each event
  for (std::size_t a = 0; a < events.tail.size(); ++a) {
    if (events.tail[a] >= 0 && flow[a] > Watts{0})
      out[events.tail[a]].push_back(static_cast<int>(a));
  }
  std::vector<CertificateLoop> loops;
  for (const std::vector<int>& first : out) {
    if (first.size() < 2 || first.size() > kMostWaysOut) continue;
    std::vector<std::vector<int>> paths;
    for (const int a : first) {
      paths.push_back({a});
      const auto& second = out[events.head[a]];
      if (second.size() > kMostWaysOut) continue;
      for (const int b : second) paths.push_back({a, b});
    }
    for (std::size_t i = 0; i < paths.size(); ++i) {
      for (std::size_t j = i + 1; j < paths.size(); ++j) {
        CertificateLoop loop{paths[i], paths[j]};
        if (events.head[paths[i].back()] == events.head[paths[j].back()] && is_loop(events, loop))
          loops.push_back(std::move(loop));
      }
    }
  }
  return loops;
}

bool is_loop(const EventArcs& events, const CertificateLoop& loop) {
  const auto is_path = [&](const std::vector<int>& path) {
    const auto is_arc = [&](int a) {
      return a >= 0 && static_cast<std::size_t>(a) < events.tail.size() && events.tail[a] >= 0;
    };
    if (path.empty() || path.size() > 2 || !std::ranges::all_of(path, is_arc)) return false;
    return path.size() == 1 || events.head[path[0]] == events.tail[path[1]];
  };
  const auto& [first, second] = loop;
  if (!is_path(first) || !is_path(second)) return false;
  if (first.front() == second.front() || first.back() == second.back()) return false;
  if (events.tail[first.front()] != events.tail[second.front()] ||
      events.head[first.back()] != events.head[second.back()])
    return false;
  return first.size() == 1 || second.size() == 1 || events.head[first[0]] != events.head[second[0]];
}

Joules least_loss(std::span<const CertificateLoop> loops, std::span<const LossyArc> arcs) {
  return Joules{LoopTrees(loops, arcs).least()};
}

}  // namespace harpe
