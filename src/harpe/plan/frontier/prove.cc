// Lower bounds and certificates of a frontier at a deadline.

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

// Relative to the fastest iteration. At later deadlines nearly every option fits, so leaving out
// the others does not raise the bound.
constexpr double kNearTheFastest = 1.01;

// Means of the flow at the deadline and flows of relaxed optima before and after it are tried. In a
// mean more arcs have a flow, so the losses of loops may rise by more than the bound of the
// relaxation falls.
constexpr double kReach = 0.012;
constexpr int kOptima = 9;
// Sum of the shares of a mean: a power of two, so that means are whole numbers of a smaller unit.
constexpr std::int64_t kShares = 64;

// Choices per arc when loops share losses to compare flows.
constexpr std::size_t kChoicesAtAGlance = 8;
// Choices per arc and passes over the loops for the most promising flow, each times the number of
// events: fewer in large pipelines, where they would take seconds.
constexpr std::int64_t kChoicesOfAll = 25'000;
constexpr std::int64_t kPassesOverLoops = 24'000;

// Returns the certificate of a flow through the network, without starts and ends.
Certificate certificate_of(const plan::Problem& p, const std::vector<std::int64_t>& arc_flow) {
  Certificate certificate;
  certificate.flow_unit = p.flow_unit;
  certificate.time_unit = Seconds{1e-9};
  const std::size_t nodes = p.pipeline.nodes().size();
  const auto dependencies = p.pipeline.dependencies();
  certificate.dependency_flow.assign(dependencies.size(), 0);
  for (std::size_t i = 0; i < nodes; ++i) certificate.node_flow.push_back(arc_flow[p.node_arc[i]]);
  // The flow into a node's start that does not pass through the arc of a dependency passes through
  // the one dependency that was joined, or enters from the source. The same holds at a node's end.
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

// Returns the number of options of each node that fit, fastest first, see `Certificate::longest`.
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
  std::map<std::pair<int, std::size_t>, std::int32_t> curves;  // by table and number of options
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

// Returns the lower bound of the sum of effective energies that the flow proves by weak duality,
// see `Certificate`.
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

// Returns nodes and dependencies with their flow in a certificate, and their possible times, each
// with its loss at the price of the flow.
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

/// A search for the certificate with the highest bound, loops included.
class ProofSearch {
 public:
  /// \param start  the proof to improve on
  ProofSearch(const plan::Problem& problem, Seconds deadline, Proof start)
      : problem_(problem),
        deadline_(deadline),
        events_(events_of(problem.pipeline)),
        best_(std::move(start)) {}

  /// Offers a flow. Returns true if it promises the highest bound so far; `finish` uses the most
  /// promising flow.
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

  /// Computes the bound of the most promising flow. Returns true if it exceeds that of `start`.
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
  std::vector<std::size_t> fitting_;  // of `promising_`
};

// Means of the flows of relaxed optima.
class FlowMeans {
 public:
  FlowMeans(const plan::Problem& problem, const std::vector<plan::flow::State>& optima) {
    for (const plan::flow::State& state : optima) flows_.push_back(certificate_of(problem, state));
  }

  // Returns true if no mean overflows an integer, here or in the check of a certificate.
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

/// A proof of the least effective energy of plans that end by a deadline.
class DeadlineProof {
 public:
  DeadlineProof(const Frontier::Data& data, Seconds deadline)
      : data_(data), problem_(data.problem), deadline_(deadline) {}

  /// Returns the proof with the highest bound of all that are tried.
  Proof best(const PlanOptions& options) const;

 private:
  /// Returns the certificate of the relaxed optimum.
  Certificate relaxed_certificate() const;
  /// Returns the certificate without the options that do not fit, and sets `fitting` to the number
  /// of options of each node that do. Returns nullopt if the deadline is too late for a gain.
  std::optional<Certificate> fitting_certificate(std::vector<std::size_t>& fitting) const;
  /// Passes means of the flows of relaxed optima near the deadline to `is_better`.
  void offer_means(const std::function<bool(Certificate)>& is_better) const;
  /// Returns a proof for plans with late settings; nullopt if no such plan ends by the deadline.
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

std::optional<Certificate> DeadlineProof::fitting_certificate(
    std::vector<std::size_t>& fitting) const {
  if (deadline_ > data_.min_time * kNearTheFastest) return {};
  const std::int64_t end = data_.picoseconds(deadline_);
  // Times are rounded to picoseconds here, but not in the check of the certificate.
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
    // The limit is just below the first option that does not fit: above the last option that fits
    // there may be points that also fit but are no options, because others beat them.
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
  // The estimate with few choices was too high. The flow of the relaxed optimum is tried alone.
  ProofSearch own(problem_, deadline_, search.best());
  own.offer(relaxed, all);
  own.finish(choices, rounds);
  return own.best();
}

// Starts from the flow at the deadline and moves to better means, in decreasing steps.
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
  // The sums of doubles have rounding errors, but the bound must not be too high.
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
