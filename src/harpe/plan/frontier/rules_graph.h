#pragma once
/// \file
/// The graph that the rules of pipeline parallelism make of a plan: what its certificate has to be
/// a flow through. Made from the schedule apart from `Pipeline`, which it serves to check.

#include <optional>
#include <string>
#include <vector>

#include "harpe/plan/frontier/planned_schedule.h"

namespace harpe::plan {

/// Nodes and dependencies are those that `Certificate` describes, in its order.
struct RulesGraph {
  struct Node {
    int stage = -1;                             ///< -1: a rendezvous transfer
    const PlannedInstruction* entry = nullptr;  ///< in the plan; of a transfer, none
    /// Where the entry begins: itself, or the `switch` ahead of it.
    const PlannedInstruction* opening = nullptr;
    Seconds transfer_time = {};  ///< of a transfer
    int part = 0;                ///< of a transfer: that it goes to
    int micro_batch = 0;         ///< of a transfer
  };
  struct Edge {
    int from = 0;
    int to = 0;
    Seconds lag;
    Rule rule = Rule::kOrder;
  };
  std::vector<Node> nodes;
  std::vector<Edge> edges;
};

/// Without the plan's `switch` entries: waiting for clocks only adds time and cost, so the bound is
/// that of the pipeline without it. Refers to the plan.
RulesGraph make_rules_graph(const Plan& plan, const PlannedSchedule& planned);

/// The nodes, each behind all that it waits for; none if they wait for each other in a circle.
std::optional<std::vector<int>> topological_order(const RulesGraph& graph);

/// "stage 1 backward of micro-batch 3", with its chunk where there are several; a transfer by what
/// it is of.
std::string describe(const RulesGraph::Node& node, bool has_chunks);
std::string describe(int stage, const PlannedInstruction& entry, bool has_chunks);

}  // namespace harpe::plan
