// What flows prove of a deadline.

#include <algorithm>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/base/check.h"
#include "harpe/base/text.h"
#include "harpe/flow/sweep.h"
#include "harpe/frontier/certificate.h"
#include "harpe/frontier/frontier_data.h"

namespace harpe {
namespace {

// Later than that there is room for nearly every option, and the bound gains nothing.
constexpr double kNearTheFastest = 1.01;

// Of a flow through the network, without starts and ends.
Certificate certificate_of(const Problem& p, const std::vector<std::int64_t>& arc_flow) {
  Certificate certificate;
  certificate.flow_unit = p.flow_unit;
  certificate.time_unit = Seconds{1e-9};
  const std::size_t nodes = p.pipeline.nodes().size();
  const auto dependencies = p.pipeline.dependencies();
  certificate.dependency_flow.assign(dependencies.size(), 0);
  for (std::size_t i = 0; i < nodes; ++i) certificate.node_flow.push_back(arc_flow[p.node_arc[i]]);
  // What flows at a node's start and not through an arc of its own comes from the one dependency
  // that was joined, or from the source; and likewise at its end.
  certificate.source_flow = certificate.node_flow;
  certificate.sink_flow = certificate.node_flow;
  for (std::size_t d = 0; d < dependencies.size(); ++d) {
    if (p.dependency_arc[d] < 0) continue;
    const std::int64_t flow = arc_flow[p.dependency_arc[d]];
    certificate.dependency_flow[d] = flow;
    certificate.source_flow[dependencies[d].to] -= flow;
    certificate.sink_flow[dependencies[d].from] -= flow;
  }
  std::vector<int> ways_in(nodes, 0);
  for (const Dependency& d : dependencies) ways_in[d.to] += !is_implied(p.pipeline, d);
  for (std::size_t d = 0; d < dependencies.size(); ++d) {
    if (p.dependency_arc[d] >= 0 || is_implied(p.pipeline, dependencies[d])) continue;
    const auto [from, to, lag] = dependencies[d];
    const std::int64_t flow =
        ways_in[to] == 1 ? certificate.node_flow[to] : certificate.node_flow[from];
    certificate.dependency_flow[d] = flow;
    certificate.source_flow[to] -= flow;
    certificate.sink_flow[from] -= flow;
  }
  return certificate;
}

Certificate certificate_of(const Problem& p, const flow::State& state) {
  Certificate certificate = certificate_of(p, state.flow);
  certificate.deadline = Seconds{static_cast<double>(state.horizon(p.network)) * 1e-9};
  for (std::size_t i = 0; i < p.pipeline.nodes().size(); ++i) {
    certificate.start.push_back(state.potential[p.start_node[i]]);
    certificate.end.push_back(state.potential[p.end_node[i]]);
  }
  return certificate;
}

// How many of the options of each node fit, fastest first, see `Certificate::longest`.
std::vector<std::size_t> fitting_options(const SearchOrder& layout, std::int64_t deadline,
                                         std::int64_t tolerance) {
  const Problem& problem = layout.problem();
  const Assignment fastest(problem.table.size(), 0);
  EventTimes earliest(problem.network.nodes), latest(problem.network.nodes);
  layout.set_earliest(fastest, earliest);
  layout.set_latest(fastest, deadline, latest);
  std::vector<std::size_t> fitting;
  for (std::size_t i = 0; i < fastest.size(); ++i) {
    const std::int64_t room =
        latest[problem.end_node[i]] - earliest[problem.start_node[i]] + tolerance;
    fitting.push_back(static_cast<std::size_t>(layout.cheapest_within(problem.table[i], room)) + 1);
  }
  return fitting;
}

flow::Network network_of(const Problem& problem, const std::vector<std::size_t>& fitting) {
  flow::Network network = problem.network;
  std::map<std::pair<int, std::size_t>, std::int32_t> curves;  // of a table's first options
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    const auto [known, is_new] = curves.try_emplace(
        {problem.table[i], fitting[i]}, static_cast<std::int32_t>(network.curves.size()));
    if (is_new) {
      OptionTable table = problem.tables[problem.table[i]];
      table.options.resize(fitting[i]);
      network.curves.push_back(curve_of(table, problem.flow_unit));
    }
    network.arcs[problem.node_arc[i]].curve = known->second;
  }
  return network;
}

// What the flow proves of the sum of effective energies (weak duality, see `Certificate`).
Joules proven_by(const Problem& problem, const Certificate& certificate, Seconds deadline,
                 const std::vector<std::size_t>& fitting) {
  Joules sum{0};
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    const Watts flow = certificate.flow_unit * static_cast<double>(certificate.node_flow[i]);
    const auto& options = problem.tables[problem.table[i]].options;
    Joules least{std::numeric_limits<double>::infinity()};
    for (std::size_t k = 0; k < fitting[i]; ++k)
      least = std::min(least, options[k].effective + flow * options[k].point.time);
    sum += least;
    sum -= certificate.flow_unit * static_cast<double>(certificate.source_flow[i]) * deadline;
  }
  const auto dependencies = problem.pipeline.dependencies();
  for (std::size_t d = 0; d < dependencies.size(); ++d) {
    sum += certificate.flow_unit * static_cast<double>(certificate.dependency_flow[d]) *
           dependencies[d].lag;
  }
  return sum;
}

}  // namespace

std::optional<std::pair<Certificate, Joules>> Frontier::Data::fitting_proof(
    Seconds deadline) const {
  if (is_large() || deadline > min_time * kNearTheFastest) return {};
  const std::int64_t end = picoseconds(deadline);
  // Times are rounded to picoseconds here, and are not where the certificate is checked.
  const std::int64_t tolerance = 8 * longest_chain + end / 1'000'000'000'000;
  const std::vector<std::size_t> fitting = fitting_options(layout, end, tolerance);
  const flow::Network network = network_of(problem, fitting);
  const flow::CostCurve fitted = flow::sweep(network);
  const std::int64_t horizon =
      std::clamp(to_nanoseconds(deadline), fitted.shortest, fitted.longest);
  const flow::State state = fitted.at(network, horizon);
  HARPE_CHECK(flow::is_optimal(network, state), "what a certificate says proves its bound");
  Certificate certificate = certificate_of(problem, state);
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    // Up to the first option that does not fit: points that others beat, which are no options, may
    // lie between, and fit.
    const auto& options = problem.tables[problem.table[i]].options;
    const bool all_fit = fitting[i] == options.size();
    certificate.longest.push_back(all_fit ? to_nanoseconds(deadline) + 1
                                          : to_nanoseconds(options[fitting[i]].point.time) - 1);
  }
  const Joules proven = proven_by(problem, certificate, deadline, fitting);
  return std::pair(std::move(certificate), proven);
}

std::optional<std::pair<Certificate, Joules>> Frontier::Data::late_proof(
    Seconds deadline, const LatencyByClock& latency) const {
  const LateCosts costs(problem, latency);
  LateBound bound = climbed_bound(costs, deadline);
  auto proof = bound.proof();
  if (!proof) return {};
  Certificate certificate = certificate_of(problem, proof->flow);
  certificate.deadline = deadline;
  certificate.longest = std::move(proof->longest_nanoseconds);
  certificate.latency = latency;
  return std::pair(std::move(certificate), proof->effective);
}

std::optional<std::pair<Certificate, Joules>> Frontier::Data::tight_proof(
    Seconds deadline, const PlanOptions& options) const {
  auto best = fitting_proof(deadline);
  if (options.switch_latency.longest() > Seconds{0}) {
    auto late = late_proof(deadline, options.switch_latency);
    if (late && (!best || late->second > best->second)) best = std::move(late);
  }
  return best;
}

Joules Frontier::tight_lower_bound(Seconds deadline, const PlanOptions& options) const {
  const auto proof = data_->tight_proof(deadline, options);
  if (!proof) return lower_bound(deadline);
  // Sums of doubles may be off in their last digits, the bound may not.
  const Joules bound = (proof->second + data_->problem.total_blocking_power() * deadline) *
                       (data_->problem.gpus_per_stage * (1 - 1e-12));
  return std::max(bound, lower_bound(deadline));
}

Result<Certificate> Frontier::certificate(Seconds deadline, const PlanOptions& options) const {
  if (!(deadline >= min_time())) {
    return Error::infeasible("no certificate below the fastest iteration, " +
                             shortest(min_time().value) + " s");
  }
  if (auto proof = data_->tight_proof(deadline, options);
      proof && proof->second > data_->effective(deadline)) {
    return std::move(proof->first);
  }
  const Problem& p = data_->problem;
  const std::int64_t horizon = std::clamp(to_nanoseconds(std::min(deadline, max_time())),
                                          data_->curve.shortest, data_->curve.longest);
  const flow::State state = data_->curve.at(p.network, horizon);
  HARPE_CHECK(flow::is_optimal(p.network, state), "what a certificate says proves its bound");
  return certificate_of(p, state);
}

}  // namespace harpe
