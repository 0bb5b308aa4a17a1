#include "harpe/plan/frontier/late_bound.h"

#include <algorithm>
#include <cmath>

namespace harpe::plan {
namespace {

// Largest flow, in `Problem::flow_unit`: more is beyond the integers of a certificate.
constexpr double kMostFlowUnits = 0x1p56;

/// Returns an approximation of e^x from basic operations only, which is the same with every
/// compiler. Limits x to [-3, 3].
double growth(double x) {
  const double y = 1 + std::clamp(x, -3.0, 3.0) / 8;
  const double y2 = y * y, y4 = y2 * y2;
  return y4 * y4;
}

bool is_computation(const PipelineNode& node) {
  return node.stage >= 0 && !is_fixed_time(node.instruction.kind);
}

}  // namespace

LateBound::LateBound(const SearchOrder& layout, const LateCosts& costs, Seconds deadline,
                     std::int64_t tolerance)
    : layout_(layout),
      costs_(costs),
      problem_(layout.problem()),
      round_(costs, LateRound::Late::kFirst),
      deadline_(deadline.value),
      lag_(problem_.network.arcs.size(), 0),
      length_(problem_.network.arcs.size(), 0),
      setting_(problem_.table.size(), 0),
      event_(problem_.network.nodes),
      weight_(problem_.network.arcs.size()),
      inflow_(problem_.network.nodes) {
  const auto dependencies = problem_.pipeline.dependencies();
  for (std::size_t d = 0; d < dependencies.size(); ++d) {
    if (problem_.dependency_arc[d] >= 0)
      lag_[problem_.dependency_arc[d]] = dependencies[d].lag.value;
  }
  leave_out(tolerance);
}

void LateBound::leave_out(std::int64_t tolerance) {
  const Assignment fastest(problem_.table.size(), 0);
  EventTimes earliest(problem_.network.nodes), latest(problem_.network.nodes);
  const auto end = static_cast<std::int64_t>(std::min(deadline_ * 1e12, kMostPicoseconds));
  layout_.set_earliest(fastest, earliest);
  layout_.set_latest(fastest, end, latest);
  const std::int64_t all = to_nanoseconds(Seconds{deadline_}) + 1;
  const auto nodes = problem_.pipeline.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const std::int64_t room =
        latest[problem_.end_node[i]] - earliest[problem_.start_node[i]] + tolerance;
    longest_nanoseconds_.push_back(
        is_computation(nodes[i]) ? std::clamp<std::int64_t>(room / 1000 + 1, 0, all) : all);
    longest_.push_back(Seconds{1e-9}.value * static_cast<double>(longest_nanoseconds_.back()));
  }
}

double LateBound::evaluate(Flow& flow, Ends ends) {
  flow.price.clear();
  for (const std::int32_t arc : problem_.node_arc) flow.price.push_back(flow.arc[arc]);
  return flow.proves = proven_by(flow, ends, longest_, round_, setting_);
}

double LateBound::proven_by(const Flow& flow, Ends ends, std::span<const double> longest,
                            LateRound& round, std::vector<int>& setting) const {
  const auto nodes = problem_.pipeline.nodes();
  double sum = -flow.value * deadline_;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (is_computation(nodes[i])) continue;
    const Option& only = problem_.tables[problem_.table[i]].options.front();
    sum += only.effective.value + flow.price[i] * only.point.time.value;
  }
  const int stages = static_cast<int>(costs_.stages().size());
  for (int stage = 0; stage < stages; ++stage) {
    const double least = ends == Ends::kMeet
                             ? round.cheapest(stage, flow.price, longest, setting)
                             : round.cheapest_open(stage, flow.price, longest, setting);
    if (least >= LateCosts::kNever) return LateCosts::kNever;
    sum += least;
  }
  for (std::size_t a = 0; a < lag_.size(); ++a) sum += flow.arc[a] * lag_[a];
  return sum;
}

Joules LateBound::proves_of_any() const {
  if (best_.arc.empty()) return Joules{best_.proves};
  const std::vector<double> no_limit(longest_.size(), LateCosts::kNever);
  LateRound round(costs_);
  std::vector<int> setting(setting_.size());
  return Joules{proven_by(best_, Ends::kOpen, no_limit, round, setting)};
}

void LateBound::offer(const flow::State& state) {
  const double unit = problem_.flow_unit.value;
  Flow flow;
  for (const std::int64_t units : state.flow) flow.arc.push_back(unit * static_cast<double>(units));
  flow.value = unit * static_cast<double>(state.value);
  if (evaluate(flow, Ends::kOpen) > best_.proves) best_ = std::move(flow);
}

// Sets the lengths of the arcs at the choices of the last evaluation.
void LateBound::set_lengths() {
  length_ = lag_;
  const auto nodes = problem_.pipeline.nodes();
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (!is_computation(nodes[i]))
      length_[problem_.node_arc[i]] =
          problem_.tables[problem_.table[i]].options.front().point.time.value;
  }
  std::vector<double> time(problem_.table.size(), 0);
  for (const LateCosts::Stage& stage : costs_.stages()) {
    costs_.set_times(stage, setting_, time);
    for (const int node : stage.nodes) length_[problem_.node_arc[node]] = time[node];
  }
}

// Returns the flow blended with a little flow on every arc, because steps leave a flow of 0 at 0.
LateBound::Flow LateBound::blended(const Flow& flow) const {
  constexpr double kShare = 0.02;
  Flow blend = flow;
  std::vector<double> in(problem_.network.nodes, 0.0);
  in[problem_.network.source] = std::max(flow.value, problem_.flow_unit.value);
  blend.value = (1 - kShare) * flow.value + kShare * in[problem_.network.source];
  for (const std::int32_t u : layout_.order()) {
    const auto out = layout_.out(u);
    for (const auto& arc : out) {
      const double part = in[u] / static_cast<double>(out.size());
      in[arc.event] += part;
      double& mixed = blend.arc[arc.network_arc];
      mixed = (1 - kShare) * mixed + kShare * part;
    }
  }
  return blend;
}

// The flow of a path from source to sink is the product of the shares by which its events divide
// their inflow. It grows with the excess of its length over the deadline, arc by arc, and the
// shares are computed again.
void LateBound::step(Flow& flow, double rate) {
  set_lengths();
  const auto order = layout_.order();
  const std::int32_t source = problem_.network.source, sink = problem_.network.sink;
  // Lengths are relative to feasible times of the events, so that factors stay near 1.
  std::fill(event_.begin(), event_.end(), 0.0);
  std::fill(inflow_.begin(), inflow_.end(), 0.0);
  inflow_[source] = flow.value;
  for (const std::int32_t u : order) {
    for (const auto& arc : layout_.out(u)) {
      event_[arc.event] = std::max(event_[arc.event], event_[u] + length_[arc.network_arc]);
      inflow_[arc.event] += flow.arc[arc.network_arc];
    }
  }
  const double scale = event_[sink] > 0 ? deadline_ / event_[sink] : 1.0;
  std::vector<double>& grown = inflow_;  // reused, from the sink on: growth factor of the inflow
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int32_t u = order[i];
    if (u == sink) {
      grown[u] = 1;
      continue;
    }
    double sum = 0;
    for (const auto& arc : layout_.out(u)) {
      const double longer = length_[arc.network_arc] - scale * (event_[arc.event] - event_[u]);
      const double share = inflow_[u] > 0 ? flow.arc[arc.network_arc] / inflow_[u] : 0;
      weight_[arc.network_arc] = share * growth(rate * longer) * grown[arc.event];
      sum += weight_[arc.network_arc];
    }
    grown[u] = sum;
    if (!(sum > 0)) continue;
    for (const auto& arc : layout_.out(u)) weight_[arc.network_arc] /= sum;
  }
  flow.value = std::min(flow.value * grown[source], kMostFlowUnits * problem_.flow_unit.value);
  std::fill(inflow_.begin(), inflow_.end(), 0.0);
  inflow_[source] = flow.value;
  for (const std::int32_t u : order) {
    for (const auto& arc : layout_.out(u)) {
      flow.arc[arc.network_arc] = inflow_[u] * weight_[arc.network_arc];
      inflow_[arc.event] += flow.arc[arc.network_arc];
    }
  }
}

void LateBound::climb(int steps) {
  if (best_.arc.empty() || best_.proves >= LateCosts::kNever) return;
  double time = 0;
  for (const int table : problem_.table)
    time += problem_.tables[table].options.front().point.time.value;
  if (!(time > 0)) return;
  // With ten times this rate, the first 40 steps fail in most pipelines. Near the fastest
  // iteration, where flows must grow far, the rate rises by itself.
  constexpr double kRate = 0.2;
  constexpr double kSmaller = 0.7, kLarger = 1.15;
  constexpr int kPatience = 6;
  double rate = kRate * static_cast<double>(problem_.table.size()) / time;
  Flow centre = blended(best_);
  evaluate(centre, Ends::kOpen);
  Flow flow = centre;
  for (int i = 0, idle = 0; i < steps; ++i) {
    step(flow, rate);
    if (evaluate(flow, Ends::kOpen) > centre.proves) {
      centre = flow;
      rate *= kLarger;
      idle = 0;
    } else if (++idle == kPatience) {
      rate *= kSmaller;
      idle = 0;
      flow = centre;
      evaluate(flow, Ends::kOpen);  // sets its choices
    }
  }
  if (centre.proves > best_.proves) best_ = std::move(centre);
  if (!costs_.outlasts()) return;
  LateRound round(costs_);
  best_.proves = proven_by(best_, Ends::kOpen, longest_, round, setting_);
}

std::optional<LateBound::Proof> LateBound::proof() {
  if (best_.arc.empty() || best_.proves >= LateCosts::kNever) return std::nullopt;
  const double unit = problem_.flow_unit.value;
  // Rounds to whole units from event to event, so that flow is conserved.
  Proof proof{.flow = std::vector<std::int64_t>(best_.arc.size(), 0),
              .longest_nanoseconds = longest_nanoseconds_,
              .effective = {}};
  std::vector<std::int64_t> in(problem_.network.nodes, 0);
  in[problem_.network.source] = std::llround(std::min(best_.value / unit, kMostFlowUnits));
  Flow rounded{.arc = std::vector<double>(best_.arc.size(), 0.0), .price = {}};
  rounded.value = unit * static_cast<double>(in[problem_.network.source]);
  for (const std::int32_t u : layout_.order()) {
    std::int64_t left = in[u];
    const auto out = layout_.out(u);
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::int32_t arc = out[i].network_arc;
      const std::int64_t wanted = std::llround(best_.arc[arc] / unit);
      const std::int64_t given =
          i + 1 == out.size() ? left : std::clamp<std::int64_t>(wanted, 0, left);
      proof.flow[arc] = given;
      rounded.arc[arc] = unit * static_cast<double>(given);
      in[out[i].event] += given;
      left -= given;
    }
  }
  for (const std::int32_t arc : problem_.node_arc) rounded.price.push_back(rounded.arc[arc]);
  LateRound round(costs_);
  proof.effective = Joules{proven_by(rounded, Ends::kMeet, longest_, round, setting_)};
  return proof;
}

}  // namespace harpe::plan
