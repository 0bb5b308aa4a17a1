#include <limits>
#include <map>
#include <optional>
#include <tuple>
#include <utility>

#include "harpe/plan/frontier/verify_parts.h"

namespace harpe::plan::verifying {
namespace {

constexpr double kOptimalityTolerance = 1e-6;  // relative, for whole nanoseconds

/// Time and effective energy of one choice for a node.
struct Choice {
  Seconds time;
  Joules cost;  ///< rounded, for the check of the relaxed optimum
  Exact exact_cost;
};

/// Returns the lower convex hull of the Pareto-optimal choices, fastest first.
std::vector<Choice> lower_hull_of(std::vector<Choice> choices) {
  std::ranges::sort(choices, [](const Choice& a, const Choice& b) {
    return a.time != b.time ? a.time < b.time : a.cost < b.cost;
  });
  std::vector<Choice> hull;
  for (const Choice& c : choices) {
    if (!hull.empty() && c.cost >= hull.back().cost) continue;
    while (hull.size() > 1) {
      const Choice& a = hull[hull.size() - 2];
      const Choice& b = hull.back();
      const bool b_is_below = (b.cost - a.cost).value * (c.time - a.time).value <
                              (c.cost - a.cost).value * (b.time - a.time).value;
      if (b_is_below) break;
      hull.pop_back();
    }
    hull.push_back(c);
  }
  return hull;
}

/// Returns the least cost of a node that may take `time` and mix its choices.
Joules relaxed_cost(const std::vector<Choice>& hull, Seconds time) {
  if (time <= hull.front().time) return hull.front().cost;
  for (std::size_t k = 1; k < hull.size(); ++k) {
    if (time >= hull[k].time) continue;
    const double part = (time - hull[k - 1].time) / (hull[k].time - hull[k - 1].time);
    return hull[k - 1].cost + part * (hull[k].cost - hull[k - 1].cost);
  }
  return hull.back().cost;
}

class CertificateVerifier {
 public:
  CertificateVerifier(const CheckedPlan& checked, const Certificate& certificate,
                      Verification& found, Diagnostics& diagnostics)
      : checked_(checked),
        plan_(checked.plan),
        profile_(checked.profile),
        graph_(checked.graph),
        certificate_(certificate),
        found_(found),
        diagnostics_(diagnostics) {}

  void verify() {
    if (!sizes_fit() || !is_conserved()) return;
    collect_choices();
    if (!certificate_.longest.empty() && !leave_out_too_long()) return;
    if (!certificate_.loops.empty()) find_lost();
    if (certificate_.latency) {
      check_late_changes(plan_, profile_, *certificate_.latency, diagnostics_);
      find_least_of_late_stages();
    }
    if (diagnostics_.empty()) prove();
    if (!certificate_.start.empty()) check_optimality();
  }

 private:
  void prove() {
    const Exact proven = bound(checked_.period);
    if (proven > checked_.energy) {
      // Weak duality excludes this for a plan whose energy was recomputed.
      diagnostics_.add("certificate: its bound is above the energy of the plan itself");
      return;
    }
    found_.proven_bound = Joules{proven.rounded_down()};
    const bool claims = plan_.lower_bound != Joules{0};
    if (claims && plan_.lower_bound > *found_.proven_bound &&
        !close(plan_.lower_bound.value, found_.proven_bound->value)) {
      diagnostics_.add("the claimed lower bound is " + text(plan_.lower_bound) +
                       ", but the certificate proves only " + text(*found_.proven_bound));
    }
  }

  template <class Node>
  std::string describe(Node node) const {
    return harpe::plan::describe(graph_.nodes[node], plan_.chunks > 1);
  }

  bool sizes_fit() {
    const std::size_t errors_before = diagnostics_.count();
    const std::size_t nodes = graph_.nodes.size();
    const std::size_t dependencies = graph_.edges.size();
    const auto expect = [&](const char* what, std::size_t found, std::size_t wanted) {
      if (found == wanted) return;
      diagnostics_.add("certificate: " + std::string(what) + " has " + std::to_string(found) +
                       " entries, but the graph of the schedule needs " + std::to_string(wanted));
    };
    expect("node flow", certificate_.node_flow.size(), nodes);
    expect("source flow", certificate_.source_flow.size(), nodes);
    expect("sink flow", certificate_.sink_flow.size(), nodes);
    expect("dependency flow", certificate_.dependency_flow.size(), dependencies);
    if (!certificate_.longest.empty()) expect("longest", certificate_.longest.size(), nodes);
    expect("start", certificate_.start.size(),
           certificate_.start.empty() && certificate_.end.empty() ? 0 : nodes);
    expect("end", certificate_.end.size(),
           certificate_.start.empty() && certificate_.end.empty() ? 0 : nodes);
    for (const double unit : {certificate_.flow_unit.value, certificate_.time_unit.value,
                              certificate_.loss_unit.value, certificate_.deadline.value}) {
      if (unit > 0 && fits(unit)) continue;
      diagnostics_.add("certificate: units and deadline must be positive, from 1e-18 to 1e12");
    }
    if (certificate_.latency) {
      for (const LatencyByClock::Entry& entry : certificate_.latency->entries()) {
        if (fits(entry.latency.value)) continue;
        diagnostics_.add("certificate: a latency must be 0 or from 1e-18 to 1e12 s");
      }
    }
    for (const auto* times : {&certificate_.longest, &certificate_.start, &certificate_.end}) {
      // Below 2^63, so that sums of two do not overflow.
      constexpr std::int64_t kMost = std::int64_t{1} << 62;
      if (std::ranges::all_of(*times, [](std::int64_t t) { return t >= -kMost && t <= kMost; }))
        continue;
      diagnostics_.add("certificate: a time is out of range");
    }
    for (const auto* flows : {&certificate_.node_flow, &certificate_.source_flow,
                              &certificate_.sink_flow, &certificate_.dependency_flow}) {
      // Sums of all flows must fit into 63 bits.
      const std::int64_t most = std::numeric_limits<std::int64_t>::max() /
                                static_cast<std::int64_t>(2 * (nodes + dependencies) + 1);
      const auto fits = [&](std::int64_t flow) { return flow >= 0 && flow <= most; };
      if (!std::ranges::all_of(*flows, fits)) {
        diagnostics_.add("certificate: a flow is negative or out of range");
        break;
      }
    }
    return diagnostics_.count() == errors_before;
  }

  /// Returns true if the flow into each node's start equals the flow through it and out of its end.
  bool is_conserved() {
    std::vector<std::int64_t> in = certificate_.source_flow;
    std::vector<std::int64_t> out = certificate_.sink_flow;
    for (std::size_t d = 0; d < graph_.edges.size(); ++d) {
      in[graph_.edges[d].to] += certificate_.dependency_flow[d];
      out[graph_.edges[d].from] += certificate_.dependency_flow[d];
    }
    bool conserved = true;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i] == certificate_.node_flow[i] && out[i] == certificate_.node_flow[i]) continue;
      conserved = false;
      diagnostics_.add("certificate: at " + describe(i) + " the flow is not conserved: " +
                       std::to_string(in[i]) + " in, " + std::to_string(certificate_.node_flow[i]) +
                       " through, " + std::to_string(out[i]) + " out");
    }
    return conserved;
  }

  void collect_choices() {
    for (const RulesGraph::Node& node : graph_.nodes) {
      auto& choices = choices_.emplace_back();
      if (node.entry == nullptr) {
        // Both ends of a transfer draw blocking power, so it has no effective energy.
        choices.push_back({node.transfer_time, Joules{0}, Exact()});
        continue;
      }
      const PlannedInstruction& i = *node.entry;
      const Watts power = plan_.blocking_power[node.stage];
      const auto add = [&](Seconds time, Joules energy) {
        choices.push_back({time, energy - power * time, effective(energy, power, time)});
      };
      auto points = profile_.points(node.stage, i.chunk, i.kind);
      if (is_fixed_time(i.kind)) points = points.first(std::min<std::size_t>(points.size(), 1));
      for (const OperatingPoint& point : points) add(point.time, point.energy);
      if (points.empty()) add(i.time, i.energy);
    }
  }

  /// Removes the choices that the certificate leaves out. It may leave out a choice only if it
  /// takes longer than from the earliest start of its node to its latest end.
  bool leave_out_too_long() {
    const std::size_t nodes = choices_.size();
    const Exact deadline = std::max(checked_.period, Exact(certificate_.deadline.value));
    const std::optional<std::vector<int>> order = topological_order(graph_);
    if (!order) return diagnostics_.add("certificate: its graph has a cycle"), false;
    std::vector<Exact> fastest, start(nodes), end(nodes, deadline);
    for (const auto& choices : choices_)
      fastest.emplace_back(std::ranges::min(choices, {}, &Choice::time).time.value);
    std::vector<std::vector<const RulesGraph::Edge*>> out(nodes);
    for (const RulesGraph::Edge& edge : graph_.edges) out[edge.from].push_back(&edge);
    for (const int from : *order) {
      for (const RulesGraph::Edge* edge : out[from]) {
        start[edge->to] =
            std::max(start[edge->to], start[from] + fastest[from] + Exact(edge->lag.value));
      }
    }
    for (std::size_t n = order->size(); n-- > 0;) {
      const int from = (*order)[n];
      for (const RulesGraph::Edge* edge : out[from]) {
        end[from] = std::min(end[from], end[edge->to] - fastest[edge->to] - Exact(edge->lag.value));
      }
    }
    for (std::size_t i = 0; i < nodes; ++i) {
      const Exact longest = *longest_of(i);
      const Exact room = std::max(fastest[i], end[i] - start[i]);
      const auto add_too_soon = [&](Seconds time) {
        diagnostics_.add("certificate: it leaves out " + text(time) + " for " + describe(i) +
                         ", which has " + text(Seconds{room.rounded_up()}));
      };
      std::erase_if(choices_[i], [&](const Choice& choice) {
        const Exact time(choice.time.value);
        if (time <= longest) return false;
        if (time <= room) add_too_soon(choice.time);
        return true;
      });
      if (certificate_.latency && is_computation(i)) {
        const std::vector<Exact>& times = late_times_of(i);
        const auto left_out = std::ranges::upper_bound(times, longest);
        if (left_out != times.end() && *left_out <= room)
          add_too_soon(Seconds{left_out->rounded_up()});
      }
      if (choices_[i].empty()) {
        diagnostics_.add("certificate: it leaves out all choices of " + describe(i));
        return false;
      }
    }
    return diagnostics_.empty();
  }

  bool is_computation(std::size_t node) const {
    const PlannedInstruction* const entry = graph_.nodes[node].entry;
    return entry != nullptr && !is_fixed_time(entry->kind) &&
           !profile_.points(graph_.nodes[node].stage, entry->chunk, entry->kind).empty();
  }
  /// Returns the late times of a computation. They are equal for all micro-batches of a stage's
  /// chunk and kind.
  const std::vector<Exact>& late_times_of(std::size_t node) {
    const int stage = graph_.nodes[node].stage;
    const PlannedInstruction& i = *graph_.nodes[node].entry;
    const auto [at, is_new] = late_times_.try_emplace({stage, i.chunk, i.kind});
    if (is_new) {
      at->second = late_times(profile_.points(stage, i.chunk, i.kind), plan_.blocking_power[stage],
                              *certificate_.latency);
    }
    return at->second;
  }
  std::optional<Exact> longest_of(std::size_t node) const {
    if (certificate_.longest.empty()) return std::nullopt;
    return Exact(certificate_.time_unit.value) * certificate_.longest[node];
  }
  LateInstruction late_instruction(std::size_t node) const {
    return {.entry = graph_.nodes[node].entry,
            .flow = certificate_.node_flow[node],
            .longest = longest_of(node)};
  }
  /// Returns the joules of a flow over a time.
  Exact price(std::int64_t flow, Seconds time) const {
    return Exact::product(certificate_.flow_unit.value, time.value) * flow;
  }
  Exact least_of(std::size_t node) const {
    std::optional<Exact> least;
    for (const Choice& k : choices_[node]) {
      const Exact cost = k.exact_cost + price(certificate_.node_flow[node], k.time);
      if (!least || cost < *least) least = cost;
    }
    return *least;  // every node has a choice
  }

  /// Returns the bound that flow and loops prove by weak duality, see `Certificate`.
  Exact bound(const Exact& deadline) const {
    Exact sum = lost_ + late_;
    std::int64_t total_flow = 0;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      total_flow += certificate_.source_flow[i];
      if (certificate_.latency && is_computation(i)) continue;
      sum += least_of(i);
    }
    for (std::size_t d = 0; d < graph_.edges.size(); ++d)
      sum += price(certificate_.dependency_flow[d], graph_.edges[d].lag);
    sum -= Exact::product(deadline, certificate_.flow_unit.value) * total_flow;
    Exact blocking;
    for (const Watts power : plan_.blocking_power)
      blocking += Exact::product(deadline, power.value);
    return whole_pipeline(plan_, sum, blocking);
  }

  /// Sets the least total loss of the arcs of all loops.
  void find_lost() {
    std::vector<LoopArc> arcs;
    if (certificate_.latency) {
      diagnostics_.add("certificate: loops prove nothing about plans with late settings");
      return;
    }
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      LoopArc& arc = arcs.emplace_back();
      arc.flow = certificate_.node_flow[i];
      const Exact least = least_of(i);
      for (const Choice& k : choices_[i])
        arc.choices.push_back({k.time, k.exact_cost + price(arc.flow, k.time) - least});
    }
    for (std::size_t d = 0; d < graph_.edges.size(); ++d)
      arcs.push_back({{{graph_.edges[d].lag, Exact()}}, certificate_.dependency_flow[d]});
    lost_ = lost_by_loops(graph_, arcs, certificate_, diagnostics_);
  }

  /// Sets the least cost of all stages with late settings. The nodes of a stage are in list order.
  void find_least_of_late_stages() {
    std::vector<std::vector<LateInstruction>> lists(plan_.stages);
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      if (is_computation(i)) lists[graph_.nodes[i].stage].push_back(late_instruction(i));
    }
    for (int stage = 0; stage < plan_.stages; ++stage) {
      const auto least = least_of_late_stage(plan_, profile_, certificate_, stage, lists[stage]);
      if (!least) {
        return diagnostics_.add(
            "certificate: it proves nothing about stage " + std::to_string(stage) +
            ", whose energies are out of range or whose settings are all left out");
      }
      late_ += *least;
    }
  }

  /// Checks that starts and ends are a solution of the relaxation at the certificate's deadline,
  /// and cost no more than the proven bound.
  void check_optimality() {
    const auto at = [&](std::int64_t time) {
      return certificate_.time_unit * static_cast<double>(time);
    };
    const Seconds tolerance =
        certificate_.time_unit * 1.001;  // the solver rounds down to whole units
    const std::size_t errors_before = diagnostics_.count();
    Joules cost{0};
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      const std::vector<Choice> hull = lower_hull_of(choices_[i]);
      const Seconds time = at(certificate_.end[i]) - at(certificate_.start[i]);
      if (certificate_.start[i] < 0 || time + tolerance < hull.front().time ||
          at(certificate_.end[i]) > certificate_.deadline + tolerance) {
        diagnostics_.add("certificate: start and end of " + describe(i) +
                         " leave it too little time, or are outside the iteration");
      }
      cost += relaxed_cost(hull, time);
    }
    for (const RulesGraph::Edge& d : graph_.edges) {
      if (at(certificate_.start[d.to]) + tolerance >= at(certificate_.end[d.from]) + d.lag)
        continue;
      diagnostics_.add("certificate: " + describe(d.to) + " starts before " + describe(d.from) +
                       " lets it: " + std::string(sentence(d.rule)));
    }
    Joules blocking{0};
    for (const Watts power : plan_.blocking_power) blocking += power * certificate_.deadline;
    found_.relaxed_optimum = (cost + blocking) * plan_.gpus_per_stage;
    const Joules proven{bound(Exact(certificate_.deadline.value)).rounded_down()};
    const Joules gap = *found_.relaxed_optimum - proven;
    if (diagnostics_.count() == errors_before &&
        gap.value > kOptimalityTolerance * std::abs(proven.value)) {
      diagnostics_.add("certificate: its starts and ends cost " + text(*found_.relaxed_optimum) +
                       ", but its flow proves " + text(proven) + ": they are not optimal");
    }
  }

  const CheckedPlan& checked_;
  const Plan& plan_;
  const Profile& profile_;
  const RulesGraph& graph_;
  const Certificate& certificate_;
  Verification& found_;
  Diagnostics& diagnostics_;
  std::vector<std::vector<Choice>> choices_;  // per node
  Exact lost_;                                // loss of the arcs of loops
  std::map<std::tuple<int, int, InstructionKind>, std::vector<Exact>> late_times_;
  Exact late_;  // least cost of all stages, if settings are late
};

}  // namespace

void verify_certificate(const CheckedPlan& plan, const Certificate& certificate,
                        Verification& found, Diagnostics& diagnostics) {
  CertificateVerifier(plan, certificate, found, diagnostics).verify();
}

}  // namespace harpe::plan::verifying
