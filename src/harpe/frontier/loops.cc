#include "harpe/frontier/loops.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

#include "harpe/frontier/disjoint_sets.h"

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
      : arcs_(arcs), uses_(arcs.size(), 0), copies_of_(arcs.size(), 0), loops_(loops.size()) {
    for (std::size_t i = 0; i < loops.size(); ++i) add(loops[i], i);
    for (Copy& copy : copies_) copy.share = 1.0 / copies_of_[copy.arc];
  }

  double least() {
    double sum = 0;
    for (std::vector<int>& tree : trees_) {
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
    double share = 1;                // of what the arc loses
    std::vector<int> offered = {};   // choices of the arc
    std::vector<double> below = {};  // least loss of the loops beyond, for each of them
  };
  struct CopiedLoop {
    std::array<std::vector<int>, 2> paths = {};  // of copies
    int to_parent = -1;                          // copy in common with its parent
    std::size_t tree = 0;
  };

  void add(const CertificateLoop& loop, std::size_t i) {
    CopiedLoop& mine = loops_[i];
    mine.tree = trees_.size();
    if (loop.parent >= 0) {
      const CopiedLoop& parent = loops_[loop.parent];
      mine.tree = parent.tree;
      for (const auto& path : parent.paths) {
        for (const int copy : path) {
          if (copies_[copy].arc == loop.common) mine.to_parent = copy;
        }
      }
    } else {
      trees_.emplace_back();
    }
    trees_[mine.tree].push_back(static_cast<int>(i));
    for (std::size_t side = 0; side < 2; ++side) {
      for (const int arc : loop.paths[side]) {
        ++uses_[arc];
        int copy = mine.to_parent;
        if (loop.parent < 0 || arc != loop.common) {
          copy = static_cast<int>(copies_.size());
          copies_.push_back({.arc = arc});
          ++copies_of_[arc];
        }
        mine.paths[side].push_back(copy);
      }
    }
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
  std::vector<int> uses_, copies_of_;  // of each arc
  std::vector<CopiedLoop> loops_;
  std::vector<Copy> copies_;
  std::vector<std::vector<int>> trees_;  // of loops, each after its parent
};

/// Joins loops that have arcs with a choice in common to trees.
class TreeMaker {
 public:
  TreeMaker(const std::vector<CertificateLoop>& loops, std::span<const LossyArc> arcs)
      : loops_(loops), links_(loops.size()), trees_(loops.size()) {
    std::vector<std::vector<int>> with(arcs.size());  // loops with each arc
    for (std::size_t i = 0; i < loops.size(); ++i) {
      for (const auto& path : loops[i].paths) {
        for (const int arc : path) {
          if (arcs[arc].choices.size() > 1) link(static_cast<int>(i), arc, with[arc]);
          with[arc].push_back(static_cast<int>(i));
        }
      }
    }
  }

  /// The loops, each after its parent.
  std::vector<CertificateLoop> in_order() const {
    std::vector<CertificateLoop> ordered;
    std::vector<bool> is_seen(loops_.size(), false);
    for (std::size_t root = 0; root < loops_.size(); ++root) {
      if (is_seen[root]) continue;
      std::vector<int> tree{static_cast<int>(root)};
      const auto first = static_cast<int>(ordered.size());
      is_seen[root] = true;
      ordered.push_back(loops_[root]);
      for (std::size_t i = 0; i < tree.size(); ++i) {
        for (const auto& [other, arc] : links_[tree[i]]) {
          if (is_seen[other]) continue;
          is_seen[other] = true;
          tree.push_back(other);
          ordered.push_back({loops_[other].paths, first + static_cast<int>(i), arc});
        }
      }
    }
    return ordered;
  }

 private:
  void link(int loop, int arc, const std::vector<int>& others) {
    for (const int other : others) {
      if (trees_.root(other) == trees_.root(loop) ||
          trees_.size(other) + trees_.size(loop) > kLargestTree)
        continue;
      trees_.join(other, loop);
      links_[loop].emplace_back(other, arc);
      links_[other].emplace_back(loop, arc);
      return;
    }
  }

  const std::vector<CertificateLoop>& loops_;
  std::vector<std::vector<std::pair<int, int>>> links_;  // of each loop: another, common arc
  DisjointSets trees_;
};

bool is_loop(const EventArcs& events, const std::vector<int>& first,
             const std::vector<int>& second) {
  if (first.front() == second.front() || first.back() == second.back()) return false;
  if (events.head[first.back()] != events.head[second.back()]) return false;
  return first.size() == 1 || second.size() == 1 || events.head[first[0]] != events.head[second[0]];
}

}  // namespace

std::vector<CertificateLoop> find_loops(const EventArcs& events, std::span<const LossyArc> arcs) {
  std::vector<std::vector<int>> out(events.tail.size());  // arcs of each event
  for (std::size_t a = 0; a < events.tail.size(); ++a) {
    if (events.tail[a] >= 0 && arcs[a].flow > Watts{0})
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
        if (is_loop(events, paths[i], paths[j])) loops.push_back({{paths[i], paths[j]}});
      }
    }
  }
  return TreeMaker(loops, arcs).in_order();
}

Joules least_loss(std::span<const CertificateLoop> loops, std::span<const LossyArc> arcs) {
  return Joules{LoopTrees(loops, arcs).least()};
}

}  // namespace harpe
