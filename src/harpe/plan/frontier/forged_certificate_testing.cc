// Certificates made without a solver: conserved flows, longest times, loops, latencies.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <utility>

#include "harpe/plan/frontier/forged_case_testing.h"
#include "harpe/plan/frontier/loops.h"
#include "harpe/plan/frontier/planned_work_testing.h"
#include "harpe/plan/frontier/rules_graph.h"

namespace harpe::plan {
namespace {

/// Nodes and dependencies from an event without a predecessor to an event without a successor.
struct FlowPath {
  std::vector<int> nodes;
  std::vector<int> dependencies;  ///< between one node and the next
};

/// Forges certificates on the graph of a plan, through which the flow of a certificate runs.
class CertificateForger {
 public:
  static std::optional<CertificateForger> make(ForgedCase& forged, const SmallProblem& problem,
                                               Dice& dice) {
    if (static_cast<int>(forged.plan.instructions.size()) != forged.plan.stages) return {};
    if (static_cast<int>(forged.plan.blocking_power.size()) != forged.plan.stages) return {};
    if (!validate(forged.plan.transfers, forged.schedule.parts()).ok()) return {};
    Diagnostics diagnostics;
    const Profile profile = rows_of_chunks(forged.profile, forged.schedule);
    auto planned = line_up(forged.plan, forged.schedule, profile, diagnostics);
    if (!planned) return {};
    RulesGraph graph = make_rules_graph(forged.plan, *planned);
    auto order = topological_order(graph);
    if (!order) return {};
    return CertificateForger(forged, problem, dice, std::move(graph), *std::move(order));
  }

  void forge() {
    Certificate& made = certificate_.emplace();
    made.deadline = plan_.iteration_time;
    made.time_unit = Seconds{1e-9 * problem_.time_unit};
    made.flow_unit = Watts{std::exp2(std::floor(std::log2(problem_.power_unit)) - 20)};
    made.loss_unit =
        Joules{made.flow_unit.value * std::exp2(std::floor(std::log2(problem_.time_unit)))};
    made.node_flow.assign(graph_.nodes.size(), 0);
    made.source_flow = made.sink_flow = made.node_flow;
    made.dependency_flow.assign(graph_.edges.size(), 0);
    if (dice_.one_in(2)) {
      for (int n = dice_.below(6); n > 0; --n) add(random_path(), some_flow());
    } else {
      climb(4 + dice_.below(60));
    }
    if (!problem_.with_loops && dice_.one_in(2)) made.latency = problem_.latency;
    if (dice_.one_in(2)) set_longest();
    if (!made.latency && dice_.one_in(2)) add_loops();
  }

  void mutate() {
    Certificate& c = *certificate_;
    if (problem_.with_loops && !dice_.one_in(3)) return mutate_some_loops();
    switch (dice_.below(11)) {
      case 0:
      case 1:
        return add(random_path(), some_flow());
      case 2:
        remove(carrying_path(), 1 + dice_.below(4));
        return;
      case 3: {
        const FlowPath path = carrying_path();
        const std::int64_t moved = remove(path, 1 + dice_.below(4));
        return add(random_path(), moved);
      }
      case 4:
        return scale_flows();
      case 5:
        c.start.clear();
        return c.end.clear();
      case 6:
      case 7:
        return set_longest();
      case 8:
        return c.longest.clear();
      case 9:
        return mutate_some_loops();
      default:
        return mutate_latency();
    }
  }

  void mutate_some_loops() {
    switch (dice_.below(4)) {
      case 0:
        return add_loops();
      case 1:
        return mutate_loops();
      default:
        return move_loss();
    }
  }

  /// Adds flow along a path that begins or ends too late or too early, or has a gap.
  void leak() {
    const FlowPath path = random_path();
    const std::int64_t units = some_flow();
    if (!certificate_ || !fits()) return;
    Certificate& c = *certificate_;
    add(path, units);
    const int way = dice_.below(6);
    if (way <= 1) c.source_flow[path.nodes.front()] -= units;
    if (way == 1) c.node_flow[path.nodes.front()] -= units;
    if (way == 2 || way == 3) c.sink_flow[path.nodes.back()] -= units;
    if (way == 3) c.node_flow[path.nodes.back()] -= units;
    if (way == 4) c.node_flow[dice_.pick(path.nodes)] -= units;
    if (way == 5 && !path.dependencies.empty())
      c.dependency_flow[dice_.pick(path.dependencies)] -= units;
  }

 private:
  CertificateForger(ForgedCase& forged, const SmallProblem& problem, Dice& dice, RulesGraph graph,
                    std::vector<int> order)
      : plan_(forged.plan),
        profile_(rows_of_chunks(forged.profile, forged.schedule)),
        certificate_(forged.certificate),
        problem_(problem),
        dice_(dice),
        graph_(std::move(graph)),
        order_(std::move(order)),
        out_(graph_.nodes.size()) {
    for (std::size_t d = 0; d < graph_.edges.size(); ++d)
      out_[graph_.edges[d].from].push_back(static_cast<int>(d));
  }

  bool fits() const {
    const Certificate& c = *certificate_;
    const std::size_t nodes = graph_.nodes.size();
    return c.node_flow.size() == nodes && c.source_flow.size() == nodes &&
           c.sink_flow.size() == nodes && c.dependency_flow.size() == graph_.edges.size();
  }

  /// Returns a flow of about the power that a slower instruction may save.
  std::int64_t some_flow() {
    const double watts =
        problem_.power_unit * std::exp2(dice_.between(0, 12)) - problem_.power_unit;
    const double units = watts / certificate_->flow_unit.value;
    return static_cast<std::int64_t>(std::clamp(units, 0.0, 0x1p50));
  }

  FlowPath random_path() {
    FlowPath path;
    int node = dice_.below(static_cast<int>(graph_.nodes.size()));
    if (!dice_.one_in(3)) node = order_.front();
    path.nodes.push_back(node);
    while (!out_[node].empty() && !dice_.one_in(40)) {
      const int d = dice_.pick(out_[node]);
      path.dependencies.push_back(d);
      path.nodes.push_back(node = graph_.edges[d].to);
    }
    return path;
  }

  /// Returns a path that carries flow; empty if there is none.
  FlowPath carrying_path() {
    const Certificate& c = *certificate_;
    FlowPath path;
    if (!fits()) return path;
    std::vector<int> sources;
    for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
      if (c.source_flow[i] > 0) sources.push_back(static_cast<int>(i));
    }
    if (sources.empty()) return path;
    for (int node = dice_.pick(sources);;) {
      path.nodes.push_back(node);
      std::vector<int> ways;
      for (const int d : out_[node]) {
        if (c.dependency_flow[d] > 0) ways.push_back(d);
      }
      if (ways.empty() || (c.sink_flow[node] > 0 && dice_.one_in(2))) return path;
      const int d = dice_.pick(ways);
      path.dependencies.push_back(d);
      node = graph_.edges[d].to;
    }
  }

  void add(const FlowPath& path, std::int64_t units) {
    if (path.nodes.empty() || !fits()) return;
    Certificate& c = *certificate_;
    c.source_flow[path.nodes.front()] += units;
    c.sink_flow[path.nodes.back()] += units;
    for (const int node : path.nodes) c.node_flow[node] += units;
    for (const int d : path.dependencies) c.dependency_flow[d] += units;
  }
  /// Removes a part of the least flow along the path. Returns the removed flow.
  std::int64_t remove(const FlowPath& path, int part) {
    if (path.nodes.empty()) return 0;
    const Certificate& c = *certificate_;
    std::int64_t least =
        std::min(c.source_flow[path.nodes.front()], c.sink_flow[path.nodes.back()]);
    for (const int node : path.nodes) least = std::min(least, c.node_flow[node]);
    for (const int d : path.dependencies) least = std::min(least, c.dependency_flow[d]);
    least = std::max<std::int64_t>(0, least / part);
    add(path, -least);
    return least;
  }

  void scale_flows() {
    if (dice_.one_in(2)) {
      static constexpr std::array kFactors{0.5, 2.0, 1.0 / 3, 1.0000001, 4096.0, 1e-6};
      certificate_->flow_unit.value *= dice_.pick(kFactors);
      return;
    }
    const int factor = dice_.below(4);
    for (auto* const flows : {&certificate_->node_flow, &certificate_->source_flow,
                              &certificate_->sink_flow, &certificate_->dependency_flow}) {
      for (std::int64_t& flow : *flows) {
        if (std::abs(flow) < (std::int64_t{1} << 52)) flow *= factor;
      }
    }
  }

  /// An operating point of a node.
  struct Choice {
    Seconds time;
    Joules effective;
  };
  std::vector<Choice> choices_of(std::size_t node) const {
    const RulesGraph::Node& n = graph_.nodes[node];
    if (n.entry == nullptr) return {{n.transfer_time, Joules{0}}};
    const Watts power = plan_.blocking_power[n.stage];
    auto points = profile_.points(n.stage, n.entry->chunk, n.entry->kind);
    if (points.empty()) return {{n.entry->time, n.entry->energy - power * n.entry->time}};
    if (is_fixed_time(n.entry->kind)) points = points.first(1);
    std::vector<Choice> choices;
    for (const OperatingPoint& point : points)
      choices.push_back({point.time, effective_energy(point, power)});
    return choices;
  }
  Joules cost_of(const Choice& choice, std::int64_t flow) const {
    return choice.effective + certificate_->flow_unit * static_cast<double>(flow) * choice.time;
  }

  /// Adds flow along the longest path while it is longer than the deadline, and removes flow while
  /// it is shorter. The path is the longest at the best choices for the prices of the flow.
  void climb(int steps) {
    std::int64_t step = some_flow();
    for (int n = 0; n < steps; ++n, step -= step / 16) {
      std::vector<Seconds> time;
      for (std::size_t i = 0; i < graph_.nodes.size(); ++i) {
        const auto choices = choices_of(i);
        const std::int64_t flow = certificate_->node_flow[i];
        time.push_back(std::ranges::min(choices, {}, [&](const Choice& choice) {
                         return cost_of(choice, flow);
                       }).time);
      }
      const FlowPath longest = longest_path(time);
      if (length_ > plan_.iteration_time) {
        add(longest, step);
      } else {
        remove(carrying_path(), 2);
      }
    }
  }
  FlowPath longest_path(const std::vector<Seconds>& time) {
    std::vector<Seconds> end = time;
    std::vector<int> by(time.size(), -1);
    int last = order_.front();
    for (const int node : order_) {
      if (end[node] > end[last]) last = node;
      for (const int d : out_[node]) {
        const int to = graph_.edges[d].to;
        const Seconds then = end[node] + graph_.edges[d].lag + time[to];
        if (then < end[to]) continue;
        end[to] = then;
        by[to] = d;
      }
    }
    length_ = end[last];
    FlowPath path{.nodes = {last}, .dependencies = {}};
    for (int d = by[last]; d >= 0; d = by[graph_.edges[d].from]) {
      path.dependencies.push_back(d);
      path.nodes.push_back(graph_.edges[d].from);
    }
    std::ranges::reverse(path.nodes);
    std::ranges::reverse(path.dependencies);
    return path;
  }

  /// Returns the longest possible time of each node if all others take their fastest choices.
  std::vector<Seconds> rooms() const {
    const std::size_t nodes = graph_.nodes.size();
    std::vector<Seconds> fastest, start(nodes), end(nodes, plan_.iteration_time), room;
    for (std::size_t i = 0; i < nodes; ++i)
      fastest.push_back(std::ranges::min(choices_of(i), {}, &Choice::time).time);
    for (const int node : order_) {
      for (const int d : out_[node]) {
        const int to = graph_.edges[d].to;
        start[to] = std::max(start[to], start[node] + fastest[node] + graph_.edges[d].lag);
      }
    }
    for (std::size_t n = nodes; n-- > 0;) {
      const int node = order_[n];
      for (const int d : out_[node]) {
        const int to = graph_.edges[d].to;
        end[node] = std::min(end[node], end[to] - fastest[to] - graph_.edges[d].lag);
      }
    }
    for (std::size_t i = 0; i < nodes; ++i) room.push_back(std::max(fastest[i], end[i] - start[i]));
    return room;
  }

  void set_longest() {
    Certificate& c = *certificate_;
    const std::vector<Seconds> room = rooms();
    const bool everywhere = c.longest.size() != room.size() || dice_.one_in(2);
    if (everywhere) c.longest.assign(room.size(), std::int64_t{1} << 61);
    for (std::size_t i = 0; i < room.size(); ++i) {
      if (!dice_.one_in(everywhere ? 2 : 8)) continue;
      const auto choices = choices_of(i);
      const Seconds longest = dice_.one_in(12) ? dice_.pick(choices).time : room[i];
      const double units = std::floor(longest / c.time_unit) + (dice_.one_in(8) ? -1 : 1);
      c.longest[i] = static_cast<std::int64_t>(std::clamp(units, 0.0, 0x1p61));
    }
  }

  /// Adds some of the pairs of paths of one or two arcs between the same two events as loops.
  void add_loops() {
    if (!fits()) return;
    std::vector<Dependency> dependencies;
    std::vector<bool> left_out;
    for (std::size_t d = 0; d < graph_.edges.size(); ++d) {
      const RulesGraph::Edge& edge = graph_.edges[d];
      const int stage = graph_.nodes[edge.from].stage;
      dependencies.push_back({edge.from, edge.to, edge.lag});
      left_out.push_back(stage >= 0 && stage == graph_.nodes[edge.to].stage &&
                         edge.to - edge.from > 1 && edge.lag == Seconds{0} &&
                         certificate_->dependency_flow[d] == 0);
    }
    const EventArcs events = event_arcs(graph_.nodes.size(), dependencies, left_out);
    std::map<std::pair<int, int>, std::vector<std::vector<int>>> paths;  // by both end events
    const bool to_anywhere = dice_.one_in(8);                            // gives invalid loops
    const auto add_path = [&](std::vector<int> path) {
      const int end = to_anywhere ? 0 : events.head[path.back()];
      paths[{events.tail[path.front()], end}].push_back(std::move(path));
    };
    const auto arcs = static_cast<int>(events.tail.size());
    for (int a = 0; a < arcs; ++a) {
      if (events.tail[a] == events.head[a]) continue;
      add_path({a});
      for (int b = 0; b < arcs; ++b) {
        if (events.head[a] == events.tail[b] && events.tail[b] != events.head[b]) add_path({a, b});
      }
    }
    certificate_->transfers.clear();
    certificate_->loops.clear();
    const int share = 1 + dice_.below(4);
    for (const auto& [between, some] : paths) {
      for (std::size_t k = 1; k < some.size(); ++k) {
        const auto& other = some[static_cast<std::size_t>(dice_.below(static_cast<int>(k)))];
        const bool disjoint = std::ranges::none_of(
            some[k], [&](int arc) { return std::ranges::find(other, arc) != other.end(); });
        if (disjoint && dice_.one_in(share)) certificate_->loops.push_back({{some[k], other}});
      }
    }
    if (dice_.one_in(3)) copy_loop(1 + dice_.below(8));
  }

  /// Repeats a loop. Each copy then counts a smaller share of the loss of its arcs.
  void copy_loop(int times) {
    auto& loops = certificate_->loops;
    if (loops.empty()) return;
    const CertificateLoop loop = dice_.pick(loops);
    loops.insert(loops.end(), static_cast<std::size_t>(times), loop);
  }

  void mutate_loops() {
    auto& loops = certificate_->loops;
    const auto arcs = static_cast<int>(graph_.nodes.size() + graph_.edges.size());
    if (loops.empty() || dice_.one_in(8)) {
      loops.push_back({{std::vector<int>{dice_.below(arcs)}, std::vector<int>{dice_.below(arcs)}}});
      return;
    }
    CertificateLoop& loop = dice_.pick(loops);
    auto& path = loop.paths[static_cast<std::size_t>(dice_.below(2))];
    switch (dice_.below(5)) {
      case 0:
        return copy_loop(1 + dice_.below(8));
      case 1:
        return std::swap(loop.paths[0], loop.paths[1]);
      case 2:
        if (path.size() == 1) path.push_back(dice_.below(arcs));
        return;
      case 3:
        dice_.pick(path) = dice_.below(arcs);
        return;
      default:
        path = dice_.pick(loops).paths[static_cast<std::size_t>(dice_.below(2))];
    }
  }

  /// Moves a share of the loss of an arc from one loop to another.
  void move_loss() {
    Certificate& c = *certificate_;
    if (!fits() || c.loops.size() < 2) return add_loops();
    const int giver = dice_.below(static_cast<int>(c.loops.size()));
    const auto& path = c.loops[giver].paths[static_cast<std::size_t>(dice_.below(2))];
    if (path.empty()) return;
    LossTransfer transfer{.arc = dice_.pick(path), .giver = giver, .from = {}, .moved = {}};
    std::vector<int> takers;
    for (std::size_t i = 0; i < c.loops.size(); ++i) {
      for (const auto& other : c.loops[i].paths) {
        const bool shares = std::ranges::find(other, transfer.arc) != other.end();
        if (shares && static_cast<int>(i) != giver) takers.push_back(static_cast<int>(i));
      }
    }
    if (takers.empty() || transfer.arc < 0 || transfer.arc >= static_cast<int>(graph_.nodes.size()))
      return;
    transfer.taker = dice_.pick(takers);
    const std::int64_t flow = c.node_flow[transfer.arc];
    auto choices = choices_of(transfer.arc);
    std::ranges::sort(choices, {}, &Choice::time);
    const Choice& best =
        *std::ranges::min_element(choices, {}, [&](const Choice& k) { return cost_of(k, flow); });
    for (const Choice& choice : choices) {
      const double from = std::floor(choice.time / c.time_unit) - dice_.below(2);
      const double loss = (cost_of(choice, flow) - cost_of(best, flow)) / c.loss_unit;
      if (!(from > 0 && from < 0x1p61 && loss < 0x1p50)) continue;
      const auto units = static_cast<std::int64_t>(from);
      if (!transfer.from.empty() && transfer.from.back() >= units) continue;
      transfer.from.push_back(units);
      transfer.moved.push_back(static_cast<std::int64_t>(loss * dice_.between(-1, 1)));
    }
    c.transfers.push_back(std::move(transfer));
  }

  void mutate_latency() {
    Certificate& c = *certificate_;
    if (!c.latency || dice_.one_in(4)) {
      c.latency = dice_.one_in(2) ? problem_.latency : LatencyByClock{};
      return c.loops.clear();
    }
    static constexpr std::array kFactors{0.0, 0.5, 0.999, 1.0000000001, 2.0};
    const double factor = dice_.pick(kFactors);
    std::vector<LatencyByClock::Entry> entries(c.latency->entries().begin(),
                                               c.latency->entries().end());
    for (LatencyByClock::Entry& entry : entries) entry.latency = entry.latency * factor;
    c.latency = LatencyByClock(std::move(entries));
  }

  const Plan& plan_;
  Profile profile_;
  std::optional<Certificate>& certificate_;
  const SmallProblem& problem_;
  Dice& dice_;
  RulesGraph graph_;
  std::vector<int> order_;
  std::vector<std::vector<int>> out_;  // dependencies of each node
  Seconds length_;                     // of the longest path found last
};

}  // namespace

void forge_certificate(ForgedCase& forged, const SmallProblem& problem, Dice& dice) {
  if (auto forger = CertificateForger::make(forged, problem, dice)) forger->forge();
}

void mutate_certificate(ForgedCase& forged, const SmallProblem& problem, Dice& dice) {
  if (!forged.certificate) return forge_certificate(forged, problem, dice);
  if (auto forger = CertificateForger::make(forged, problem, dice)) forger->mutate();
}

void leak_flow(ForgedCase& forged, const SmallProblem& problem, Dice& dice) {
  if (auto forger = CertificateForger::make(forged, problem, dice)) forger->leak();
}

}  // namespace harpe::plan
