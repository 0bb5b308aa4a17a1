#include "harpe/plan/frontier/rules_graph.h"

#include <algorithm>
#include <tuple>

namespace harpe::plan {
namespace {

class GraphMaker {
 public:
  GraphMaker(const Plan& plan, const PlannedSchedule& planned)
      : plan_(plan), planned_(planned), rules_(planned.schedule, plan.transfers) {}

  RulesGraph make() {
    add_nodes();
    const auto& lists = planned_.schedule.lists;
    for (int stage = 0; stage < planned_.schedule.stages; ++stage) {
      for (int n = 0; n < static_cast<int>(lists[stage].size()); ++n) {
        for (const Wait& wait : rules_.waits({stage, n})) add_wait({stage, n}, wait);
      }
    }
    add_transfers();
    // Keeps one edge for each pair of nodes, with the longest lag.
    std::ranges::sort(graph_.edges, [](const Edge& a, const Edge& b) {
      return std::tie(a.to, a.from, b.lag, a.rule) < std::tie(b.to, b.from, a.lag, b.rule);
    });
    const auto same_pair = [](const Edge& a, const Edge& b) {
      return a.to == b.to && a.from == b.from;
    };
    const auto repeated = std::ranges::unique(graph_.edges, same_pair);
    graph_.edges.erase(repeated.begin(), repeated.end());
    return std::move(graph_);
  }

 private:
  using Edge = RulesGraph::Edge;
  struct Transfer {
    int part;  ///< the part that receives
    int micro_batch;
    bool gradient;
    Position from, to;
    Seconds time;
  };
  struct NodeRange {
    int first, last;
    int sent_by = -1;  ///< node of the blocking transfer of a `send`; -1 if none
  };

  const NodeRange& nodes_of(Position at) const { return range_[at.stage][at.index]; }

  void add_nodes() {
    for (int stage = 0; stage < planned_.schedule.stages; ++stage) {
      auto& ranges = range_.emplace_back();
      const auto& list = planned_.schedule.lists[stage];
      for (int n = 0; n < static_cast<int>(list.size()); ++n) {
        const int first = static_cast<int>(graph_.nodes.size());
        const PlannedInstruction* opening = nullptr;
        for (int e = planned_.first[stage][n]; e < planned_.first[stage][n + 1]; ++e) {
          const PlannedInstruction& entry = plan_.instructions[stage][e];
          const bool is_added_switch =
              entry.kind == InstructionKind::kSwitch && list[n].kind != InstructionKind::kSwitch;
          if (opening == nullptr) opening = &entry;
          if (is_added_switch) continue;
          graph_.nodes.push_back({.stage = stage, .entry = &entry, .opening = opening});
          opening = nullptr;
        }
        const int last = static_cast<int>(graph_.nodes.size()) - 1;
        for (int node = first; node < last; ++node) add_edge(node, node + 1, {}, Rule::kOrder);
        ranges.push_back({first, last});
      }
    }
  }

  void add_edge(int from, int to, Seconds lag, Rule rule) {
    graph_.edges.push_back({.from = from, .to = to, .lag = lag, .rule = rule});
  }

  void add_wait(Position at, const Wait& wait) {
    const Seconds time = travel_time(wait, plan_.transfers);
    const bool blocking = is_blocking(wait, plan_.transfers);
    add_edge(nodes_of(wait.from).last, nodes_of(at).first, blocking ? Seconds{0} : time, wait.rule);
    if (!blocking) return;
    const Instruction& receives = rules_.instruction(at);
    const bool by_second_half = wait.gradient && receives.kind == InstructionKind::kForwardBackward;
    transfers_.push_back(
        {.part = by_second_half ? receives.backward_part : receives.part,
         .micro_batch = by_second_half ? receives.backward_micro_batch : receives.micro_batch,
         .gradient = wait.gradient,
         .from = wait.from,
         .to = at,
         .time = time});
  }

  void add_transfers() {
    std::ranges::sort(transfers_, {}, [](const Transfer& t) {
      return std::tuple(t.part, t.micro_batch, t.gradient);
    });
    int node = static_cast<int>(graph_.nodes.size());
    const int first = node;
    for (const Transfer& t : transfers_) {
      graph_.nodes.push_back(
          {.transfer_time = t.time, .part = t.part, .micro_batch = t.micro_batch});
      if (rules_.instruction(t.from).kind == InstructionKind::kSend) {
        range_[t.from.stage][t.from.index].sent_by = node;
      }
      ++node;
    }
    node = first;
    for (const Transfer& t : transfers_) add_transfer_edges(t, node++);
  }

  void add_transfer_edges(const Transfer& t, int node) {
    constexpr Rule kRule = Rule::kBlocking;
    add_edge(nodes_of(t.from).last, node, {}, kRule);
    add_edge(node, nodes_of(t.to).first, {}, kRule);
    if (t.to.index > 0) {
      const NodeRange& before = nodes_of({t.to.stage, t.to.index - 1});
      add_edge(before.last, node, {}, kRule);
      // A send ends with its own transfer.
      if (before.sent_by >= 0) add_edge(before.sent_by, node, {}, kRule);
    }
    const auto& sender = range_[t.from.stage];
    const std::size_t after = static_cast<std::size_t>(t.from.index) + 1;
    if (after < sender.size()) add_edge(node, sender[after].first, {}, kRule);
  }

  const Plan& plan_;
  const PlannedSchedule& planned_;
  ScheduleRules rules_;
  RulesGraph graph_;
  std::vector<std::vector<NodeRange>> range_;  ///< nodes of each instruction of the schedule
  std::vector<Transfer> transfers_;
};

}  // namespace

RulesGraph make_rules_graph(const Plan& plan, const PlannedSchedule& planned) {
  return GraphMaker(plan, planned).make();
}

std::optional<std::vector<int>> topological_order(const RulesGraph& graph) {
  std::vector<std::vector<int>> behind(graph.nodes.size());
  std::vector<int> waits_for(graph.nodes.size(), 0);
  for (const RulesGraph::Edge& edge : graph.edges) {
    behind[edge.from].push_back(edge.to);
    ++waits_for[edge.to];
  }
  std::vector<int> order;
  for (std::size_t i = 0; i < waits_for.size(); ++i) {
    if (waits_for[i] == 0) order.push_back(static_cast<int>(i));
  }
  for (std::size_t n = 0; n < order.size(); ++n) {
    for (const int to : behind[order[n]]) {
      if (--waits_for[to] == 0) order.push_back(to);
    }
  }
  if (order.size() < graph.nodes.size()) return std::nullopt;
  return order;
}

std::string describe(int stage, const PlannedInstruction& entry, bool has_chunks) {
  std::string text = "stage " + std::to_string(stage) + " " + std::string(name(entry.kind));
  if (entry.micro_batch >= 0) text += " of micro-batch " + std::to_string(entry.micro_batch);
  if (has_chunks) text += " on chunk " + std::to_string(entry.chunk);
  return text;
}

std::string describe(const RulesGraph::Node& node, bool has_chunks) {
  if (node.entry != nullptr) return describe(node.stage, *node.entry, has_chunks);
  return "transfer of micro-batch " + std::to_string(node.micro_batch) + " to part " +
         std::to_string(node.part);
}

}  // namespace harpe::plan
