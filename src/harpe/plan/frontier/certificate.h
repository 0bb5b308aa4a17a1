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

/// Two paths from one event of a pipeline to another. Arcs are its nodes and, after them, its
/// dependencies.
struct CertificateLoop {
  std::array<std::vector<int>, 2> paths;
  friend bool operator==(const CertificateLoop&, const CertificateLoop&) = default;
};

/// What one loop counts less, and another more, of what an arc in both loses: `moved[k]` where the
/// arc's operating point takes `from[k]` or more and less than `from[k + 1]`, nothing below
/// `from[0]`.
struct LossTransfer {
  int arc = -1;
  int giver = -1, taker = -1;       ///< loops
  std::vector<std::int64_t> from;   ///< rising, in `Certificate::time_unit`
  std::vector<std::int64_t> moved;  ///< in `Certificate::loss_unit`
  friend bool operator==(const LossTransfer&, const LossTransfer&) = default;
};

/// Proof of a lower bound at one deadline: a flow through the pipeline's graph (the marginal power
/// that a second more would save, per GPU) and the start and end of every node in the relaxed
/// optimum.
///
/// With flow f_i on node i and g_d on dependency d, conserved at the start and the end of every
/// node, and value F, every plan that ends by `deadline` needs, per GPU, at least
///   sum_i min_k (effective energy_ik + f_i time_ik) + sum_d g_d lag_d - F deadline + deadline
///   sum_s P_s
/// (weak duality), the minimum going over all operating points k of i. `start` and `end` show that
/// the bound is no less than the optimum of the relaxation. Checked by `verify_plan` without the
/// solver.
///
/// Where `longest` is given, operating points that take longer are left out, of all of which no
/// plan that ends by the deadline can use any: they take longer than from the earliest start to the
/// latest end of the node, with every other node at its fastest.
///
/// Where `loops` is given, what the arcs of these loops must lose, as their times do not add up, is
/// added to the bound (loops.h). Of an arc in several loops each counts an even share of what it
/// loses, but for what `transfers` move from one loop to another.
///
/// Where `latency` is given, the bound is one for plans whose settings come up to so late. What an
/// instruction takes then depends on the setting before it, too: the sum of the minima over its
/// computations becomes, for each stage, the minimum over all settings of its list, in which the
/// last comes before the first. There are no loops then, and
/// `start` and `end` are empty.
///
/// Nodes are those of `Pipeline`: instructions stage after stage in list order, then rendezvous
/// transfers, for each part and micro-batch that of the activation it receives, then that of the
/// gradient. Dependencies are ordered by the node they lead to, then by the one they come from; a
/// pair of nodes has one, with the longest of its lags.
struct Certificate {
  Seconds deadline;
  Watts flow_unit;                            ///< of all flows, a power of two
  Seconds time_unit;                          ///< of `start` and `end`
  std::vector<std::int64_t> node_flow;        ///< one a node
  std::vector<std::int64_t> dependency_flow;  ///< one a dependency
  std::vector<std::int64_t> source_flow;   ///< enters at the start of each node, from no dependency
  std::vector<std::int64_t> sink_flow;     ///< leaves at the end of each node, into no dependency
  std::vector<std::int64_t> start, end;    ///< of each node
  std::vector<std::int64_t> longest = {};  ///< of each node, in `time_unit`; may be empty
  std::vector<CertificateLoop> loops = {};
  std::vector<LossTransfer> transfers = {};
  Joules loss_unit{1};                         ///< of what they move, above 0
  std::optional<LatencyByClock> latency = {};  ///< of the plans that the bound holds for
};

/// `harpe.certificate/1`, see docs/formats.md.
std::string certificate_json(const Certificate& certificate);
/// Diagnostics carry line and column. Checks types and ranges; what the flow proves is for
/// `verify_plan`.
Result<Certificate> parse_certificate_json(std::string_view text, const std::string& file);

}  // namespace harpe
