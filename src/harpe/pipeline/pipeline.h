#pragma once
/// \file
/// A schedule with its dependencies: the directed acyclic graph of one training iteration.

#include <span>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/schedule/schedule.h"
#include "harpe/schedule/transfers.h"

namespace harpe {

/// One node of the graph: an instruction of the schedule, or (stage -1, kind `send`) a rendezvous
/// transfer.
struct PipelineNode {
  int stage = -1;
  int position = 0;  ///< in the list of its stage
  int chunk = 0;     ///< of its part on its stage; 0 where it has no part
  Instruction instruction;
  Seconds transfer_time;  ///< of a transfer node; else 0
};

/// `to` may start `lag` after `from` has ended.
struct Dependency {
  int from = 0;
  int to = 0;
  Seconds lag;
};

/// Start of every node and the makespan, for given durations.
struct Timeline {
  std::vector<Seconds> start;
  Seconds makespan;
};

/// The graph of one iteration.
///
/// Nodes 0 .. instructions() - 1 are the instructions, stage after stage in list order; transfer
/// nodes of rendezvous mode follow. Dependencies are those of pipeline parallelism (order within a
/// stage; forward k -> k + 1; last forward -> last backward; backward k + 1 -> k; forward ->
/// backward and recompute; recompute -> backward; backward -> weight; send -> its recv), an
/// overlapped block having those of both its halves.
class Pipeline {
 public:
  /// Fails when the schedule is not valid, transfers do not fit its parts, or order and
  /// dependencies form a circle (the message walks the circle).
  static Result<Pipeline> build(Schedule schedule, Transfers transfers = {});

  const Schedule& schedule() const { return schedule_; }
  const Transfers& transfers() const { return transfers_; }
  std::span<const PipelineNode> nodes() const { return nodes_; }
  int instructions() const { return instructions_; }
  std::span<const Dependency> dependencies() const { return dependencies_; }
  /// All nodes, each after everything it depends on; ties by stage, then position.
  std::span<const int> order() const { return order_; }

  /// Earliest starts. `durations` has one entry a node. O(nodes + dependencies).
  Timeline earliest(std::span<const Seconds> durations) const;

  /// Most activations held at once on each stage, in units of one chunk's: +1 at a forward, -1 at
  /// the (full) backward or weight that frees it.
  std::vector<int> peak_activations() const;

 private:
  Pipeline() = default;
  Status sort();
  Schedule schedule_;
  Transfers transfers_;
  std::vector<PipelineNode> nodes_;
  int instructions_ = 0;
  std::vector<Dependency> dependencies_;  // by `to`, then `from`; at most one for a pair
  std::vector<int> first_dependency_;     // of each node
  std::vector<int> order_;
};

}  // namespace harpe
