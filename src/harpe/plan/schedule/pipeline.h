#pragma once
/// \file
/// A schedule with its dependencies: the directed acyclic graph of one training iteration.
///
///   const auto pipeline = harpe::Pipeline::build(schedule, {.forward = times, .backward = times});
///   if (pipeline.ok()) show(pipeline->peak_activations());

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/transfers.h"

namespace harpe {

/// One node of the graph: an instruction of the schedule, one of the parts that it is split into,
/// or (stage -1) the rendezvous transfer of what it gives or, a `send`, sends.
struct PipelineNode {
  int stage = -1;
  int position = 0;  ///< in the list of its stage: that of the whole where it is one of its parts
  int chunk = 0;     ///< of its part on its stage; 0 where it has no part
  Instruction instruction;
  /// The next node is a part of the same whole.
  bool fused_with_next = false;
  Seconds transfer_time;  ///< of a transfer node; else 0
};

/// What an instruction on a stage runs as: itself, or several in a row where it has no costs of its
/// own (a `recompute_backward` as `recompute` and `backward`).
using Split = std::function<std::vector<Instruction>(int stage, const Instruction&)>;

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
/// nodes of rendezvous mode follow, for each part and micro-batch that of the activation it
/// receives, then that of the gradient. Dependencies are those of pipeline parallelism (order
/// within a stage; forward k -> k + 1; last forward -> last backward; backward k + 1 -> k; forward
/// -> backward and recompute; recompute -> backward; backward -> weight; send -> its recv), an
/// overlapped block having those of both its halves, and those of rendezvous transfers (`Transfers`
/// says between which instructions they go). They are between wholes: what an instruction that is
/// split waits for its first part waits for, and what waits for it waits for its last part.
class Pipeline {
 public:
  /// Fails when the schedule is not valid, transfers do not fit its parts, or order and
  /// dependencies form a circle (the message walks the circle).
  /// \param split  without it, every instruction is one node
  static Result<Pipeline> build(Schedule schedule, Transfers transfers = {},
                                const Split& split = {});

  /// Of wholes, however they are split.
  const Schedule& schedule() const { return schedule_; }
  const Transfers& transfers() const { return transfers_; }
  std::span<const PipelineNode> nodes() const { return nodes_; }
  /// Nodes that are no transfers.
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
  /// Walks a circle of nodes that wait for each other, `missing` of the dependencies of each.
  std::string circle(std::span<const int> missing) const;
  Schedule schedule_;
  Transfers transfers_;
  std::vector<PipelineNode> nodes_;
  int instructions_ = 0;
  std::vector<Dependency> dependencies_;  // by `to`, then `from`; at most one for a pair
  std::vector<int> first_dependency_;     // of each node
  std::vector<int> order_;
};

}  // namespace harpe
