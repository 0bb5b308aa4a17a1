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

/// One node of the graph: an instruction of the schedule, a piece of an instruction that is split,
/// or (stage -1) a rendezvous transfer. The `instruction` of a transfer is its `send` or, without
/// one, the computation whose output it moves.
struct PipelineNode {
  int stage = -1;
  int position = 0;  ///< in the list of its stage; a piece has the position of its instruction
  int chunk = 0;     ///< of its model part on its stage; 0 if it has no part
  Instruction instruction;
  /// True if the next node is a piece of the same instruction.
  bool fused_with_next = false;
  Seconds transfer_time;  ///< duration of a transfer node; 0 for other nodes
};

/// Returns the instructions that a stage runs for one instruction of the schedule: the instruction
/// itself, or several in a row if it has no costs of its own (`recompute` and `backward` for a
/// `recompute_backward`).
using Split = std::function<std::vector<Instruction>(int stage, const Instruction&)>;

/// A dependency of two nodes: `to` may start `lag` after `from` has ended.
struct Dependency {
  int from = 0;
  int to = 0;
  Seconds lag;
};

/// The start of every node and the makespan, for given durations.
struct Timeline {
  std::vector<Seconds> start;
  Seconds makespan;
};

/// The graph of one iteration.
///
/// Nodes 0 .. instructions() - 1 are the instructions, stage after stage in list order. The
/// transfer nodes of rendezvous mode follow: for each part and micro-batch the transfer of the
/// activation it receives, then of the gradient. Dependencies are those of pipeline parallelism
/// (order within a stage; forward k -> k + 1; last forward -> last backward; backward k + 1 -> k;
/// forward -> backward and recompute; recompute -> backward; backward -> weight; send -> its recv)
/// and those of rendezvous transfers (see `Transfers`). An overlapped block has the dependencies of
/// both its halves. If an instruction is split, its first piece has the instruction's predecessors
/// and its last piece its successors.
class Pipeline {
 public:
  /// Fails if the schedule is not valid, the transfers do not match its parts, or order and
  /// dependencies form a cycle (the message lists the cycle).
  /// \param split  if empty, every instruction is one node
  static Result<Pipeline> build(Schedule schedule, Transfers transfers = {},
                                const Split& split = {});

  /// Returns the schedule, with no instruction split.
  const Schedule& schedule() const { return schedule_; }
  const Transfers& transfers() const { return transfers_; }
  std::span<const PipelineNode> nodes() const { return nodes_; }
  /// Returns the number of nodes that are not transfers.
  int instructions() const { return instructions_; }
  std::span<const Dependency> dependencies() const { return dependencies_; }
  /// Returns all nodes in topological order; ties by stage, then position.
  std::span<const int> order() const { return order_; }

  /// Returns the earliest starts. `durations` has one entry per node. O(nodes + dependencies).
  Timeline earliest(std::span<const Seconds> durations) const;

  /// Returns the maximum number of activations that each stage holds, in units of one chunk's: +1
  /// at a forward, -1 at the (full) backward or weight that frees it.
  std::vector<int> peak_activations() const;

 private:
  Pipeline() = default;
  Status sort();
  /// Returns a cycle of nodes as text. `missing` has the number of unmet dependencies of each node.
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
