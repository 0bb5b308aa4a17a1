#pragma once
/// \file
/// Shortens the horizon of a network from breakpoint to breakpoint, at least cost.
///
/// The nodes are split by a cut whose arcs carry all the flow they can: a fixed side with the
/// source, and a moving side with the sink. While the horizon shrinks, the moving side moves with
/// the sink: arcs across the cut from fixed to moving side get shorter, arcs across it the other
/// way get longer (an instruction is slowed down where others speed up). The next breakpoint is
/// where an arc across the cut reaches another length of its curve; there it opens, that is, it may
/// carry more flow. Then either an augmenting path leads through it, or part of one side goes over
/// to the other.
///
/// Each side keeps a spanning tree, rooted at source or sink, in the manner of a network simplex
/// method. When an arc across the cut opens, its path to both roots is looked up in the trees:
/// without a blocked arc on it, the flow rises; and the subtree behind a blocked arc is hung to the
/// other tree by the open arc, which moves the cut to where it is blocked.
///
/// Cost. A step, to the next horizon at which an arc across the cut reaches a length, passes over
/// all arcs across the cut, twice: O(cut). Then each arc that opens costs its tree path and, where
/// that is blocked, what changes sides (see `SideTrees`). The cut of a pipeline has one to three
/// arcs a stage, whatever the number of micro-batches, so that the passes take a fiftieth of the
/// time, and a heap of distances would not repay its upkeep by arcs that enter and leave. Nothing
/// is searched, except when more changes of sides in a row than there are nodes (and 1000) bring
/// neither flow nor a shorter horizon: then the flow is maximised and the trees are rebuilt by
/// searches of O(nodes + arcs) each, after which one of the two must follow. That makes the method
/// finite whatever the trees look like.

#include <cstdint>
#include <limits>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/flow/side_trees.h"

namespace harpe::plan::flow {

/// Where the slope of the cost changes: at `horizon` the flow rises to `value`. The shortest
/// horizon, where it rises without bound, is not one.
struct Breakpoint {
  std::int64_t horizon = 0;
  std::int64_t value = 0;
  friend bool operator==(const Breakpoint&, const Breakpoint&) = default;
};

enum class Stop : unsigned char {
  kFastest,  ///< no shorter horizon exists
  kLimit,    ///< a limit was reached
};

/// When to stop: exactly at `horizon`, with the flow of longer horizons, or after so many more
/// steps.
struct Limits {
  std::int64_t horizon = std::numeric_limits<std::int64_t>::min();
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
};

/// The incremental engine. Holds a reference to the network.
class ParametricCut {
 public:
  /// `state` must be optimal for `network` (see `is_optimal`). O(nodes + arcs).
  ParametricCut(const Network& network, const State& state, const Division& division = {});

  /// Goes on until a limit, appending to `breakpoints` wherever the flow rises (one entry a
  /// horizon). May be called again. A step costs what is said above.
  Stop run(const Limits& limits, std::vector<Breakpoint>& breakpoints);

  /// The optimum at the present horizon. O(nodes + arcs).
  State state() const;
  std::int64_t horizon() const { return start_ - offset_; }
  std::int64_t value() const { return value_; }
  /// Distinct horizons at which an arc across the cut reached a length of its curve.
  std::int64_t steps() const { return steps_; }

 private:
  /// What changes of an arc, and its ends beside it: read together where arcs enter and leave the
  /// cut.
  struct ArcLength {
    std::int64_t length;  ///< as of offset `since`
    std::int64_t since;
    std::int32_t step;   ///< see `step_at`
    std::int32_t place;  ///< in `crossing_`, or -1
    std::int32_t tail, head;
  };
  /// An arc across the cut and how far the horizon may shrink until it reaches another length of
  /// its curve.
  struct Crossing {
    std::int64_t distance;
    std::int32_t arc;
  };

  /// Where the tree path through an arc across the cut takes the least more flow: on the way to
  /// each root, the nearest node whose arc to the parent does.
  struct Path {
    std::int64_t to_source = kUnbounded;
    std::int64_t to_sink = kUnbounded;
    std::int32_t at_source = -1;
    std::int32_t at_sink = -1;
  };

  /// A half of it, as far as it was followed.
  struct Half {
    std::int32_t at = -1;      ///< node
    std::int32_t reverse = 0;  ///< 1 where flow goes against it
    std::int32_t narrowest = -1;
    bool ended = false;  ///< at the root, or where an arc is blocked
    std::int64_t least = kUnbounded;
  };

  // Ends of an arc in the direction of its code.
  std::int32_t from(std::int32_t code) const {
    const ArcLength& arc = length_[code >> 1];
    return (code & 1) ? arc.head : arc.tail;
  }
  std::int32_t to(std::int32_t code) const { return from(code ^ 1); }
  // The direction of an arc across the cut, from the fixed to the moving side.
  std::int32_t outward(std::int32_t arc) const {
    return 2 * arc + (fixed(length_[arc].tail) ? 0 : 1);
  }
  bool fixed(std::int32_t v) const { return trees_.fixed(v); }
  std::int64_t present_length(std::int32_t arc) const;
  void enter_cut(std::int32_t arc);
  void leave_cut(std::int32_t arc);
  void watch(std::int32_t arc);
  void reach(std::int32_t arc);
  void move_cut(std::int32_t code, const Path& path, std::int64_t blocked);
  void change_sides(std::int32_t subtree_root, std::int32_t new_root, std::int32_t code,
                    std::int32_t parent);
  bool settle();
  void follow(Half& half, std::size_t steps);
  Path look(std::int32_t code);
  void send(std::int32_t code, std::int64_t amount);
  void raise_value(std::int64_t amount);
  void augment(std::int32_t code, std::int64_t amount);
  bool rebuild();
  void span(std::vector<std::int32_t>& queue, bool open_only);
  bool advance(std::int64_t limit);
  void plant();

  const Network& network_;
  SideTrees trees_;
  std::vector<std::int64_t> residual_;  // how much more flow a code can take
  std::vector<ArcLength> length_;
  std::vector<Crossing> crossing_;
  std::vector<std::int32_t> path_;  // codes of the path looked at last, as flow goes
  std::size_t path_size_ = 0;
  std::vector<std::int32_t> fresh_;     // arcs that joined the cut since the horizon last moved
  std::vector<std::int32_t> pending_;   // arcs across the cut that may be open
  std::vector<std::int32_t> entering_;  // scratch
  std::vector<std::int32_t> spanning_codes_;  // see `plant`
  std::int64_t start_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t value_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t stalled_ = 0;  // changes of sides since flow or horizon last changed
};

}  // namespace harpe::plan::flow
