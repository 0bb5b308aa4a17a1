#pragma once
/// \file
/// Parametric minimum cut, which shortens the horizon of a network from breakpoint to breakpoint
/// at least cost.
///
/// A saturated cut divides the nodes into a fixed side with the source and a moving side with the
/// sink. While the horizon shrinks, the moving side moves with the sink: arcs across the cut from
/// the fixed to the moving side get shorter, arcs in the other direction get longer (an instruction
/// slows down where others speed up). The next breakpoint is the horizon at which an arc across the
/// cut reaches another length of its curve. The arc then opens: it may carry more flow. After that,
/// either an augmenting path through the arc exists, or part of one side changes to the other side.
///
/// Each side has a spanning tree, rooted at source or sink, as in a network simplex method. When an
/// arc across the cut opens, the engine looks up its path to both roots in the trees. If no arc on
/// the path is blocked, the flow rises. If an arc is blocked, the subtree behind it is attached to
/// the other tree by the open arc, which moves the cut to the blocked arc.
///
/// Cost. A step to the next horizon at which an arc across the cut reaches a length passes over all
/// arcs across the cut twice: O(cut). Then each arc that opens costs its tree path and, if the path
/// is blocked, the nodes that change sides (see `SideTrees`). The cut of a pipeline has one to
/// three arcs per stage for any number of micro-batches. The passes therefore take only a fiftieth
/// of the time, and a heap of distances would cost more for arcs that enter and leave than it
/// saves. The engine searches the network only if more than nodes + 1000 changes of sides in a row
/// neither raise the flow nor shorten the horizon. It then maximises the flow and rebuilds the
/// trees by searches of O(nodes + arcs) each, after which the flow or the horizon must change. This
/// makes the method finite for all trees.

#include <cstdint>
#include <limits>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/flow/side_trees.h"

namespace harpe::plan::flow {

/// A horizon at which the slope of the cost changes: the flow rises to `value`. The shortest
/// horizon, at which the flow is unbounded, is not a breakpoint.
struct Breakpoint {
  std::int64_t horizon = 0;
  std::int64_t value = 0;
  friend bool operator==(const Breakpoint&, const Breakpoint&) = default;
};

enum class Stop : unsigned char {
  kFastest,  ///< no shorter horizon exists
  kLimit,    ///< a limit was reached
};

/// Limits of a run: it stops exactly at `horizon`, with the flow of longer horizons, or after
/// `steps` more steps.
struct Limits {
  std::int64_t horizon = std::numeric_limits<std::int64_t>::min();
  std::int64_t steps = std::numeric_limits<std::int64_t>::max();
};

/// The incremental engine. Holds a reference to the network.
class ParametricCut {
 public:
  /// `state` must be optimal for `network` (see `is_optimal`). O(nodes + arcs).
  ParametricCut(const Network& network, const State& state, const Division& division = {});

  /// Shortens the horizon until a limit is reached, and appends to `breakpoints` each horizon at
  /// which the flow rises (one entry per horizon). May be called again. See above for the cost.
  Stop run(const Limits& limits, std::vector<Breakpoint>& breakpoints);

  /// Returns the optimum at the present horizon. O(nodes + arcs).
  State state() const;
  std::int64_t horizon() const { return start_ - offset_; }
  std::int64_t value() const { return value_; }
  /// Returns the number of horizons at which an arc across the cut reached a length of its curve.
  std::int64_t steps() const { return steps_; }

 private:
  /// The variable data of an arc, stored with its ends because both are read together when arcs
  /// enter and leave the cut.
  struct ArcLength {
    std::int64_t length;  ///< length at offset `since`
    std::int64_t since;
    std::int32_t step;   ///< see `step_at`
    std::int32_t place;  ///< index in `crossing_`; -1 if not across the cut
    std::int32_t tail, head;
  };
  /// An arc across the cut and the distance by which the horizon may shrink until the arc reaches
  /// another length of its curve.
  struct Crossing {
    std::int64_t distance;
    std::int32_t arc;
  };

  /// The bottlenecks of the tree path through an arc across the cut: for each root, the least
  /// residual capacity on the way there and the first node whose arc to the parent has it.
  struct Path {
    std::int64_t to_source = kUnbounded;
    std::int64_t to_sink = kUnbounded;
    std::int32_t at_source = -1;
    std::int32_t at_sink = -1;
  };

  /// The visited part of one half of a tree path.
  struct Half {
    std::int32_t at = -1;      ///< node
    std::int32_t reverse = 0;  ///< 1 if the flow runs against the walk to the root
    std::int32_t narrowest = -1;
    bool ended = false;  ///< true at the root or at a blocked arc
    std::int64_t least = kUnbounded;
  };

  // Return the ends of an arc in the direction of its code.
  std::int32_t from(std::int32_t code) const {
    const ArcLength& arc = length_[code >> 1];
    return (code & 1) ? arc.head : arc.tail;
  }
  std::int32_t to(std::int32_t code) const { return from(code ^ 1); }
  // Returns the code of an arc across the cut in the direction from the fixed to the moving side.
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
  std::vector<std::int64_t> residual_;  // residual capacity of each code
  std::vector<ArcLength> length_;
  std::vector<Crossing> crossing_;
  std::vector<std::int32_t> path_;  // codes of the last path, in the direction of the flow
  std::size_t path_size_ = 0;
  std::vector<std::int32_t> fresh_;           // arcs that entered the cut or reached a length
  std::vector<std::int32_t> pending_;         // arcs across the cut that may be open
  std::vector<std::int32_t> entering_;        // scratch
  std::vector<std::int32_t> spanning_codes_;  // see `plant`
  std::int64_t start_ = 0;
  std::int64_t offset_ = 0;
  std::int64_t value_ = 0;
  std::int64_t steps_ = 0;
  std::int64_t stalled_ = 0;  // changes of sides since flow or horizon last changed
};

}  // namespace harpe::plan::flow
