#pragma once
/// \file
/// Certificates: proofs of lower bounds, and their files.
///
///   const auto certificate = frontier.certificate(plan.iteration_time);
///   if (certificate.ok()) save(harpe::certificate_json(*certificate));  // for verify_plan

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/instruction/setting.h"

namespace harpe {

/// Two paths between the same two events of a pipeline, as arc numbers. Arcs are the pipeline's
/// nodes, followed by its dependencies.
struct CertificateLoop {
  std::array<std::vector<int>, 2> paths;
  friend bool operator==(const CertificateLoop&, const CertificateLoop&) = default;
};

/// A part of the loss of an arc that moves from one loop of the arc to another: `moved[k]` if the
/// arc's operating point takes at least `from[k]` and less than `from[k + 1]`, 0 if it takes less
/// than `from[0]`.
struct LossTransfer {
  int arc = -1;
  int giver = -1, taker = -1;       ///< the loop that counts less and the loop that counts more
  std::vector<std::int64_t> from;   ///< rising, in `Certificate::time_unit`
  std::vector<std::int64_t> moved;  ///< in `Certificate::loss_unit`
  friend bool operator==(const LossTransfer&, const LossTransfer&) = default;
};

/// Proof of a lower bound at one deadline: a flow through the pipeline's graph (the power per GPU
/// that one more second would save) and the start and end of every node in the relaxed optimum.
///
/// Let f_i be the flow on node i, g_d the flow on dependency d and F the value of the flow, which
/// is conserved at the start and the end of every node. Then every plan that ends by `deadline`
/// needs, per GPU, at least
///   sum_i min_k (effective energy_ik + f_i time_ik) + sum_d g_d lag_d - F deadline + deadline
///   sum_s P_s
/// (weak duality), where the minimum is over all operating points k of i. `start` and `end` show
/// that the bound reaches the optimum of the relaxation. `verify_plan` checks both and uses no
/// solver for it.
///
/// If `longest` is given, operating points that take longer are left out. No plan that ends by the
/// deadline can use any of them: they take longer than from the earliest start to the latest end of
/// the node with every other node at its fastest point.
///
/// If `loops` is given, the least losses of the arcs of these loops, whose times do not add up, are
/// added to the bound (loops.h). The loss of an arc in several loops is divided evenly among them,
/// except for the parts that `transfers` move from one loop to another.
///
/// If `latency` is given, the bound holds for plans whose settings are up to that late. The cost of
/// an instruction then depends on the setting before it, too. For each stage, the sum of the minima
/// over its computations becomes the minimum over all choices of settings for its list, in which
/// the last instruction precedes the first. `loops`, `start` and `end` are empty in this case.
///
/// Nodes are the nodes of `Pipeline`: instructions stage after stage in list order, then rendezvous
/// transfers, for each part and micro-batch first the transfer of the activation that it receives,
/// then that of the gradient. Dependencies are ordered by the node they lead to, then by the node
/// they start from. Two nodes have at most one dependency, with the longest of its lags.
struct Certificate {
  Seconds deadline;
  Watts flow_unit;                            ///< unit of all flows, a power of two
  Seconds time_unit;                          ///< unit of `start`, `end` and `longest`
  std::vector<std::int64_t> node_flow;        ///< one per node
  std::vector<std::int64_t> dependency_flow;  ///< one per dependency
  std::vector<std::int64_t> source_flow;      ///< flow from the source into the start of each node
  std::vector<std::int64_t> sink_flow;        ///< flow from the end of each node to the sink
  std::vector<std::int64_t> start, end;       ///< one per node
  std::vector<std::int64_t> longest = {};  ///< longest time per node, in `time_unit`; may be empty
  std::vector<CertificateLoop> loops = {};
  std::vector<LossTransfer> transfers = {};
  Joules loss_unit{1};                         ///< unit of `LossTransfer::moved`, above 0
  std::optional<LatencyByClock> latency = {};  ///< latency of the plans that the bound holds for
};

/// Returns the certificate in the format `harpe.certificate/1`, see docs/formats.md.
std::string certificate_json(const Certificate& certificate);
/// Parses `harpe.certificate/1`. Checks types and ranges; `verify_plan` checks the proof.
/// Diagnostics have line and column.
Result<Certificate> parse_certificate_json(std::string_view text, const std::string& file);

}  // namespace harpe
