#pragma once
/// \file
/// The graph of a plan by the rules of pipeline parallelism, through which the flow of its
/// certificate must run. Built from the schedule independently of `Pipeline`, which it checks.

#include <optional>
#include <string>
#include <vector>

#include "harpe/plan/frontier/planned_schedule.h"

namespace harpe::plan {

/// The nodes and dependencies that `Certificate` describes, in the same order.
struct RulesGraph {
  struct Node {
    int stage = -1;                             ///< -1 for a rendezvous transfer
    const PlannedInstruction* entry = nullptr;  ///< entry in the plan; null for a transfer
    /// First of the entries that belong to `entry`: the `switch` before it, or itself.
    const PlannedInstruction* opening = nullptr;
    Seconds transfer_time = {};  ///< time of a transfer
    int part = 0;                ///< part that receives a transfer
    int micro_batch = 0;         ///< micro-batch of a transfer
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

/// Returns the graph of a plan without nodes for the `switch` entries that the plan adds: waiting
/// for clocks only adds time and cost, so the bound of the pipeline without it holds. The graph
/// refers to the plan.
RulesGraph make_rules_graph(const Plan& plan, const PlannedSchedule& planned);

/// Returns the nodes in topological order; nullopt if the graph has a cycle.
std::optional<std::vector<int>> topological_order(const RulesGraph& graph);

/// Returns text such as "stage 1 backward of micro-batch 3", with the chunk if there are several;
/// for a transfer, its micro-batch and the part that receives it.
std::string describe(const RulesGraph::Node& node, bool has_chunks);
std::string describe(int stage, const PlannedInstruction& entry, bool has_chunks);

}  // namespace harpe::plan
