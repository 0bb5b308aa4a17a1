#include <algorithm>
#include <span>
#include <vector>

#include "harpe/plan/frontier/disjoint_sets.h"
#include "harpe/plan/frontier/loops.h"

namespace harpe::plan {
namespace {

/// A merger of the starts and ends of nodes that are one event.
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

  // Merges events among all starts that wait for the end of a node, all ends that these starts wait
  // for, and so on.
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

}  // namespace

EventArcs event_arcs(std::size_t nodes, std::span<const Dependency> dependencies,
                     const std::vector<bool>& left_out) {
  return EventMerger(nodes, dependencies, left_out).merge();
}

}  // namespace harpe::plan
