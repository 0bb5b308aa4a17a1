#pragma once
/// \file
/// A planning problem in the order in which the searches for plans go over it.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/frontier/problem.h"

namespace harpe {

/// One option (an index into its table) for every pipeline node.
using Assignment = std::vector<int>;

/// A problem laid out for passes along the pipeline and against it. Refers to the problem.
class SearchOrder {
 public:
  /// An arc of the network, seen from one end.
  struct Arc {
    std::int32_t event;  ///< at the other end
    std::int32_t node;   ///< pipeline node, or -1 for an arc that only waits
    std::int64_t lag;    ///< picoseconds, of an arc that only waits
    std::int32_t network_arc;
    std::int32_t table;
  };

  explicit SearchOrder(const Problem& problem);

  const Problem& problem() const { return problem_; }
  /// All events (network nodes), each after everything it waits for.
  std::span<const std::int32_t> order() const { return order_; }
  /// Of an event in `order`.
  std::int32_t place(std::int32_t event) const { return place_[event]; }
  std::span<const Arc> out(std::int32_t event) const { return row(first_out_, out_, event); }
  std::span<const Arc> in(std::int32_t event) const { return row(first_in_, in_, event); }
  /// Times of the options of a table (picoseconds, rising) and their costs (falling).
  std::span<const std::int64_t> times(std::int32_t table) const {
    return row(first_option_, times_, table);
  }
  /// The same times in the network's nanoseconds, rounded down.
  std::span<const std::int64_t> nanoseconds(std::int32_t table) const {
    return row(first_option_, nanoseconds_, table);
  }
  std::span<const std::int64_t> costs(std::int32_t table) const {
    return row(first_option_, costs_, table);
  }

 private:
  template <class T>
  static std::span<const T> row(const std::vector<std::int32_t>& first, const std::vector<T>& all,
                                std::int32_t i) {
    return {all.data() + first[i], all.data() + first[i + 1]};
  }
  const Problem& problem_;
  std::vector<std::int32_t> order_, place_, first_out_, first_in_, first_option_;
  std::vector<Arc> out_, in_;
  std::vector<std::int64_t> times_, nanoseconds_, costs_;
};

}  // namespace harpe
