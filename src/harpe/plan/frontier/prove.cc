// What flows prove of a deadline.

#include <algorithm>
#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "harpe/base/check.h"
#include "harpe/base/text.h"
#include "harpe/plan/flow/sweep.h"
#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/frontier_data.h"
#include "harpe/plan/frontier/loops.h"
#include "harpe/plan/frontier/loss_sharing.h"

namespace harpe {
namespace {

/// A certificate and the sum of effective energies, per GPU, that it proves.
struct Proof {
  Certificate certificate;
  Joules effective;
};

// Later than that there is room for nearly every option, and the bound gains nothing.
constexpr double kNearTheFastest = 1.01;

// Flows of relaxed optima before and after the deadline are tried in a mean with its own: more arcs
// have a flow then, and what loops lose may rise by more than what the relaxation proves falls.
constexpr double kReach = 0.012;
constexpr int kOptima = 9;
// Shares of a mean. A power of two, so that it is whole in a smaller unit.
constexpr std::int64_t kShares = 64;

// Choices of each arc that take part where loops share what arcs lose while flows are compared.
constexpr std::size_t kChoicesAtAGlance = 8;
// Then, next to the best flow, of all arcs together, and how often loops hand on: fewer of both in
// large pipelines, for which they would take seconds.
constexpr std::int64_t kChoicesOfAll = 25'000;
constexpr std::int64_t kPassesOverLoops = 24'000;

// Of a flow through the network, without starts and ends.
Certificate certificate_of(const plan::Problem& p, const std::vector<std::int64_t>& arc_flow) {
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
  for (const Dependency& d : dependencies) ways_in[d.to] += !plan::is_implied(p.pipeline, d);
  for (std::size_t d = 0; d < dependencies.size(); ++d) {
    if (p.dependency_arc[d] >= 0 || plan::is_implied(p.pipeline, dependencies[d])) continue;
    const auto [from, to, lag] = dependencies[d];
    const std::int64_t flow =
        ways_in[to] == 1 ? certificate.node_flow[to] : certificate.node_flow[from];
    certificate.dependency_flow[d] = flow;
    certificate.source_flow[to] -= flow;
    certificate.sink_flow[from] -= flow;
  }
  return certificate;
}

Certificate certificate_of(const plan::Problem& p, const plan::flow::State& state) {
  Certificate certificate = certificate_of(p, state.flow);
  certificate.deadline = Seconds{static_cast<double>(state.horizon(p.network)) * 1e-9};
  for (std::size_t i = 0; i < p.pipeline.nodes().size(); ++i) {
    certificate.start.push_back(state.potential[p.start_node[i]]);
    certificate.end.push_back(state.potential[p.end_node[i]]);
  }
  return certificate;
}

// How many of the options of each node fit, fastest first, see `Certificate::longest`.
std::vector<std::size_t> fitting_options(const plan::SearchOrder& layout, std::int64_t deadline,
                                         std::int64_t tolerance) {
  const plan::Problem& problem = layout.problem();
  const plan::Assignment fastest(problem.table.size(), 0);
  plan::EventTimes earliest(problem.network.nodes), latest(problem.network.nodes);
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

plan::flow::Network network_of(const plan::Problem& problem,
                               const std::vector<std::size_t>& fitting) {
  plan::flow::Network network = problem.network;
  std::map<std::pair<int, std::size_t>, std::int32_t> curves;  // of a table's first options
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    const auto [known, is_new] = curves.try_emplace(
        {problem.table[i], fitting[i]}, static_cast<std::int32_t>(network.curves.size()));
    if (is_new) {
      plan::OptionTable table = problem.tables[problem.table[i]];
      table.options.resize(fitting[i]);
      network.curves.push_back(plan::curve_of(table, problem.flow_unit));
    }
    network.arcs[problem.node_arc[i]].curve = known->second;
  }
  return network;
}

// What the flow proves of the sum of effective energies (weak duality, see `Certificate`).
Joules proven_by(const plan::Problem& problem, const Certificate& certificate, Seconds deadline,
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

plan::EventArcs events_of(const Pipeline& pipeline) {
  const auto dependencies = pipeline.dependencies();
  std::vector<bool> left_out;
  for (const Dependency& d : dependencies) left_out.push_back(plan::is_implied(pipeline, d));
  return plan::event_arcs(pipeline.nodes().size(), dependencies, left_out);
}

// What nodes and dependencies can be and lose then, next to the flow of a certificate.
std::vector<plan::LossyArc> lossy_arcs(const plan::Problem& problem,
                                       const std::vector<std::size_t>& fitting,
                                       const Certificate& certificate) {
  const auto flow_of = [&](std::int64_t units) {
    return certificate.flow_unit * static_cast<double>(units);
  };
  std::vector<plan::LossyArc> arcs;
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    plan::LossyArc& arc = arcs.emplace_back();
    arc.flow = flow_of(certificate.node_flow[i]);
    const auto options = std::span(problem.tables[problem.table[i]].options).first(fitting[i]);
    Joules least{std::numeric_limits<double>::infinity()};
    for (const plan::Option& k : options)
      least = std::min(least, k.effective + arc.flow * k.point.time);
    for (const plan::Option& k : options)
      arc.choices.push_back({k.point.time, k.effective + arc.flow * k.point.time - least});
  }
  const auto dependencies = problem.pipeline.dependencies();
  for (std::size_t d = 0; d < dependencies.size(); ++d)
    arcs.push_back({{{dependencies[d].lag, Joules{0}}}, flow_of(certificate.dependency_flow[d])});
  return arcs;
}

/// Looks for the certificate that proves most, loops included.
class ProofSearch {
 public:
  /// \param start  what the others have to be better than
  ProofSearch(const plan::Problem& problem, Seconds deadline, Proof start)
      : problem_(problem),
        deadline_(deadline),
        events_(events_of(problem.pipeline)),
        best_(std::move(start)) {}

  /// Whether this flow promises to prove most. Of those that are offered, `finish` takes that one.
  bool offer(Certificate certificate, const std::vector<std::size_t>& fitting) {
    const std::vector<plan::LossyArc> arcs = lossy_arcs(problem_, fitting, certificate);
    certificate.loops = plan::find_loops(events_, arcs);
    plan::LossSharing sharing(certificate.loops, arcs, kChoicesAtAGlance);
    sharing.improve();
    const Joules promise = proven_by(problem_, certificate, deadline_, fitting) + sharing.least();
    if (promise <= promise_) return false;
    promise_ = promise;
    promising_ = std::move(certificate);
    fitting_ = fitting;
    return true;
  }

  /// Works out what the most promising flow proves. Returns whether that is more than at the start.
  bool finish(std::size_t choices, int rounds) {
    const std::vector<plan::LossyArc> arcs = lossy_arcs(problem_, fitting_, promising_);
    plan::LossSharing sharing(promising_.loops, arcs, choices);
    for (int i = 0; i < rounds; ++i) sharing.improve();
    sharing.write_transfers(promising_);
    const Joules proven =
        proven_by(problem_, promising_, deadline_, fitting_) + plan::least_loss(promising_, arcs);
    if (proven <= best_.effective) return false;
    best_ = {std::move(promising_), proven};
    return true;
  }

  Proof best() { return std::move(best_); }

 private:
  const plan::Problem& problem_;
  Seconds deadline_;
  plan::EventArcs events_;
  Proof best_;
  Joules promise_{-std::numeric_limits<double>::infinity()};
  Certificate promising_;
  std::vector<std::size_t> fitting_;  // of that one
};

// Means of the flows of relaxed optima.
class FlowMeans {
 public:
  FlowMeans(const plan::Problem& problem, const std::vector<plan::flow::State>& optima) {
    for (const plan::flow::State& state : optima) flows_.push_back(certificate_of(problem, state));
  }

  // Whether the integers hold all means, also where a certificate is checked.
  bool fit() const {
    const auto numbers = static_cast<std::int64_t>(flows_.front().node_flow.size() +
                                                   flows_.front().dependency_flow.size());
    const std::int64_t most =
        std::numeric_limits<std::int64_t>::max() / ((2 * numbers + 1) * kShares);
    return std::ranges::all_of(flows_, [&](const Certificate& c) {
      return std::ranges::all_of(kFlows, [&](const auto flows) {
        return std::ranges::all_of(c.*flows, [&](std::int64_t f) { return f <= most; });
      });
    });
  }

  Certificate mean(const std::vector<std::int64_t>& shares) const {
    Certificate sum = flows_.front();
    sum.flow_unit = sum.flow_unit / static_cast<double>(kShares);
    for (const auto flows : kFlows) {
      (sum.*flows).assign((flows_.front().*flows).size(), 0);
      for (std::size_t k = 0; k < flows_.size(); ++k) {
        for (std::size_t i = 0; i < (sum.*flows).size() && shares[k] > 0; ++i)
          (sum.*flows)[i] += shares[k] * (flows_[k].*flows)[i];
      }
    }
    return sum;
  }

 private:
  static constexpr std::vector<std::int64_t> Certificate::* kFlows[] = {
      &Certificate::node_flow, &Certificate::dependency_flow, &Certificate::source_flow,
      &Certificate::sink_flow};
  std::vector<Certificate> flows_;
};

/// Proves how little effective energy a plan can need that ends by a deadline.
class DeadlineProof {
 public:
  DeadlineProof(const Frontier::Data& data, Seconds deadline)
      : data_(data), problem_(data.problem), deadline_(deadline) {}

  /// Returns, of all proofs that are tried, the one that proves most.
  Proof best(const PlanOptions& options) const;

 private:
  /// Returns the certificate of the relaxed optimum.
  Certificate relaxed_certificate() const;
  /// Returns the certificate that leaves out options which do not fit, and how many options of each
  /// node do; nullopt if that gains nothing.
  std::optional<Certificate> fitting_certificate(std::vector<std::size_t>& fitting) const;
  /// Offers means of the flows of relaxed optima near the deadline.
  void offer_means(const std::function<bool(Certificate)>& is_better) const;
  /// Returns a proof for plans whose clocks come late; nullopt if none ends by the deadline.
  std::optional<Proof> late_proof(const LatencyByClock& latency) const;

  const Frontier::Data& data_;
  const plan::Problem& problem_;
  Seconds deadline_;
};

Certificate DeadlineProof::relaxed_certificate() const {
  const std::int64_t end =
      std::clamp(plan::to_nanoseconds(std::min(deadline_, data_.seconds(data_.curve.longest))),
                 data_.curve.shortest, data_.curve.longest);
  const plan::flow::State state = data_.curve.at(problem_.network, end);
  HARPE_CHECK(plan::flow::is_optimal(problem_.network, state),
              "what a certificate says proves its bound");
  return certificate_of(problem_, state);
}

// Without the options that are too long.
std::optional<Certificate> DeadlineProof::fitting_certificate(
    std::vector<std::size_t>& fitting) const {
  if (deadline_ > data_.min_time * kNearTheFastest) return {};
  const std::int64_t end = data_.picoseconds(deadline_);
  // Times are rounded to picoseconds here, and are not where the certificate is checked.
  const std::int64_t tolerance = 8 * data_.longest_chain + end / 1'000'000'000'000;
  fitting = fitting_options(data_.layout, end, tolerance);
  const plan::flow::Network network = network_of(problem_, fitting);
  const plan::flow::CostCurve fitted = plan::flow::sweep(network);
  const std::int64_t horizon =
      std::clamp(plan::to_nanoseconds(deadline_), fitted.shortest, fitted.longest);
  const plan::flow::State state = fitted.at(network, horizon);
  HARPE_CHECK(plan::flow::is_optimal(network, state), "what a certificate says proves its bound");
  Certificate certificate = certificate_of(problem_, state);
  for (std::size_t i = 0; i < fitting.size(); ++i) {
    // Up to the first option that does not fit: points that others beat, which are no options, may
    // lie between, and fit.
    const auto& options = problem_.tables[problem_.table[i]].options;
    const bool all_fit = fitting[i] == options.size();
    certificate.longest.push_back(all_fit
                                      ? plan::to_nanoseconds(deadline_) + 1
                                      : plan::to_nanoseconds(options[fitting[i]].point.time) - 1);
  }
  return certificate;
}

Proof DeadlineProof::best(const PlanOptions& options) const {
  std::vector<std::size_t> all;
  for (const int t : problem_.table) all.push_back(problem_.tables[t].options.size());
  const Certificate relaxed = relaxed_certificate();
  Proof best{relaxed, proven_by(problem_, relaxed, deadline_, all)};
  if (options.switch_latency.longest() > Seconds{0}) {
    auto late = late_proof(options.switch_latency);
    if (late && late->effective > best.effective) best = std::move(*late);
  }
  if (data_.is_large()) return best;
  ProofSearch search(problem_, deadline_, std::move(best));
  search.offer(relaxed, all);
  std::vector<std::size_t> fitting;
  if (auto certificate = fitting_certificate(fitting))
    search.offer(std::move(*certificate), fitting);
  offer_means([&](Certificate mean) {
    mean.deadline = relaxed.deadline;
    mean.start = relaxed.start;
    mean.end = relaxed.end;
    return search.offer(std::move(mean), all);
  });
  const auto choices = static_cast<std::size_t>(plan::passes(data_.layout, kChoicesOfAll, 16, 24));
  const int rounds = plan::passes(data_.layout, kPassesOverLoops, 4, 40);
  if (search.finish(choices, rounds)) return search.best();
  // A glance at few choices promised too much.
  ProofSearch own(problem_, deadline_, search.best());
  own.offer(relaxed, all);
  own.finish(choices, rounds);
  return own.best();
}

// Goes from the flow at the deadline to better means, in smaller and smaller steps.
void DeadlineProof::offer_means(const std::function<bool(Certificate)>& is_better) const {
  std::vector<std::int64_t> horizons{data_.horizon(deadline_)};
  for (int i = 0; i < kOptima; ++i)
    horizons.push_back(data_.horizon(deadline_ * (1 + kReach * (1 - 2.0 * i / (kOptima - 1)))));
  std::ranges::sort(horizons, std::greater());
  const FlowMeans flows(problem_, data_.curve.at(problem_.network, horizons));
  if (!flows.fit()) return;
  const auto own = static_cast<std::size_t>(std::ranges::find(horizons, data_.horizon(deadline_)) -
                                            horizons.begin());
  std::vector<std::int64_t> shares(horizons.size(), 0);
  shares[own] = kShares;
  int left = plan::passes(data_.layout, 50'000, 8, 24);
  for (std::int64_t step = kShares / 2; step >= kShares / 8; step /= 2) {
    for (std::size_t far = 1; far < shares.size(); ++far) {
      for (const std::size_t to : {own + far, own - far}) {
        const auto from = std::ranges::max_element(shares) - shares.begin();
        if (to >= shares.size() || shares[from] < step || left-- <= 0) continue;
        shares[from] -= step;
        shares[to] += step;
        if (is_better(flows.mean(shares))) continue;
        shares[from] += step;
        shares[to] -= step;
      }
    }
  }
}

std::optional<Proof> DeadlineProof::late_proof(const LatencyByClock& latency) const {
  const plan::LateCosts costs(problem_, latency);
  plan::LateBound bound = data_.climbed_bound(costs, deadline_);
  auto proof = bound.proof();
  if (!proof) return {};
  Certificate certificate = certificate_of(problem_, proof->flow);
  certificate.deadline = deadline_;
  certificate.longest = std::move(proof->longest_nanoseconds);
  certificate.latency = latency;
  return Proof{std::move(certificate), proof->effective};
}

}  // namespace

Joules Frontier::tight_lower_bound(Seconds deadline, const PlanOptions& options) const {
  const Joules proven = DeadlineProof(*data_, deadline).best(options).effective;
  // Sums of doubles may be off in their last digits, the bound may not.
  const Joules bound = (proven + data_->problem.total_blocking_power() * deadline) *
                       (data_->problem.gpus_per_stage * (1 - 1e-12));
  return std::max(bound, lower_bound(deadline));
}

Result<Certificate> Frontier::certificate(Seconds deadline, const PlanOptions& options) const {
  if (!(deadline >= min_time())) {
    return Error::infeasible("no certificate below the fastest iteration, " +
                             shortest(min_time().value) + " s");
  }
  return DeadlineProof(*data_, deadline).best(options).certificate;
}

}  // namespace harpe
