#pragma once
/// \file
/// What the parts of `verify_plan` have in common. For verify.cc, verify_certificate.cc and
/// verify_loops.cc only.

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/plan/frontier/exact.h"
#include "harpe/plan/frontier/rules_graph.h"
#include "harpe/plan/frontier/verify.h"

namespace harpe::plan::verifying {

inline constexpr double kTolerance = 1e-9;  // relative, for sums in another order

inline bool close(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

// Finer than tolerances, without the digits that sums add.
inline std::string text(Seconds time) {
  return shortest(time.value, 12) + " s";
}
inline std::string text(Joules energy) {
  return shortest(energy.value, 9) + " J";
}

/// Joules in units of 2^-62, where exact sums would take too long: in loops and for late settings.
/// Terms are rounded down and limited, so that the certificate proves less, and sums stay below
/// 2^64 J.
using Fixed = WideInteger;
inline constexpr int kFixedBits = 62;

/// A plan with what the verifier computed of it before it reads the certificate.
struct CheckedPlan {
  const Plan& plan;
  const Profile& profile;
  const RulesGraph& graph;
  /// From the start of an iteration to that of the next: the makespan, or the plan's own time if
  /// that is longer (the pipeline waits for another).
  Exact period;
  Exact energy;  ///< of one iteration, whole pipeline
};

/// Energy of a point less that of blocking for its time, per GPU.
inline Exact effective(Joules energy, Watts blocking, Seconds time) {
  return Exact(energy.value) - Exact::product(blocking.value, time.value);
}

/// The sum of effective energies of one GPU a stage, plus blocking for the iteration, x GPUs.
/// `blocking` is the sum over stages of blocking power x the iteration's time.
inline Exact whole_pipeline(const Plan& plan, const Exact& effective, const Exact& blocking) {
  return (effective + blocking) * plan.gpus_per_stage;
}

/// A node or dependency: what it can take, and what it loses then against its best choice at the
/// price of its flow.
struct LoopArc {
  struct Choice {
    Seconds time;
    Exact loss;
  };
  std::vector<Choice> choices;
  std::int64_t flow = 0;  ///< in `Certificate::flow_unit`
};
/// What the arcs of a certificate's loops (nodes, then edges) must lose together; 0 where a loop is
/// none or a transfer leads nowhere, which it adds to `diagnostics`.
Exact lost_by_loops(const RulesGraph& graph, std::span<const LoopArc> arcs,
                    const Certificate& certificate, Diagnostics& diagnostics);

/// Adds to `found` what the certificate proves for the plan, and to `diagnostics` what does not
/// hold.
void verify_certificate(const CheckedPlan& plan, const Certificate& certificate,
                        Verification& found, Diagnostics& diagnostics);

/// A computation of a stage, for the check of a bound of late settings (verify_late.cc).
struct LateInstruction {
  const PlannedInstruction* entry = nullptr;
  std::int64_t flow = 0;         ///< through its node, in `Certificate::flow_unit`
  std::optional<Exact> longest;  ///< s; slower points are left out of the bound, if it is given
};

/// Returns the least sum over one iteration of a stage of effective energies plus flow x time, over
/// all settings, if a setting that differs from the one before comes late; the first comes after
/// the last. Rounded down. None if it is below what `Fixed` holds, or if no setting is left.
std::optional<Exact> least_of_late_stage(const Plan& plan, const Profile& profile,
                                         const Certificate& certificate, int stage,
                                         std::span<const LateInstruction> list);

/// Returns, rising, all times that an instruction can take if its setting comes late after any of
/// its kind: part of it at one point, part at another. Rounded down.
std::vector<Exact> late_times(std::span<const OperatingPoint> points, Watts blocking,
                              const LatencyByClock& latency);

/// That the plan counts for each change of a setting what its coming late may cost.
void check_late_changes(const Plan& plan, const Profile& profile, const LatencyByClock& latency,
                        Diagnostics& diagnostics);

}  // namespace harpe::plan::verifying
