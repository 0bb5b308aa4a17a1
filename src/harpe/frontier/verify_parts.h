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
#include "harpe/frontier/rules_graph.h"
#include "harpe/frontier/verify.h"

namespace harpe::verifying {

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

/// Of all GPUs, from the sum of effective energies of one GPU a stage.
inline Joules whole_pipeline(const Plan& plan, Joules effective, Seconds time) {
  Watts blocking{0};
  for (const Watts power : plan.blocking_power) blocking += power;
  return (effective + blocking * time) * plan.gpus_per_stage;
}

/// A node or dependency: what it can take, and what it loses then against its best choice at the
/// price of its flow.
struct LoopArc {
  struct Choice {
    Seconds time;
    Joules loss;
  };
  std::vector<Choice> choices;
  Watts flow;
};
/// What the arcs of a certificate's loops (nodes, then edges) must lose together; 0 where a loop is
/// none or a transfer leads nowhere, which it adds to `diagnostics`.
Joules lost_by_loops(const RulesGraph& graph, std::span<const LoopArc> arcs,
                     const Certificate& certificate, Diagnostics& diagnostics);

/// Adds to `found` what the certificate proves for the plan, and to `errors` what does not hold.
void verify_certificate(const Plan& plan, const Profile& profile, const RulesGraph& graph,
                        const Certificate& certificate, Verification& found,
                        Diagnostics& diagnostics);

// verify_late.cc

/// A computation of a stage, for the check of a bound of late settings.
struct LateInstruction {
  const PlannedInstruction* entry = nullptr;
  Watts flow;       ///< through its node
  Seconds longest;  ///< what takes longer is left out
};

/// Least sum of effective energies plus flow times time of one iteration of a stage, over all
/// settings, each of which comes late after another; that before the first is the last.
Joules least_of_late_stage(const Plan& plan, const Profile& profile, const LatencyByClock& latency,
                           int stage, std::span<const LateInstruction> list);

/// What an instruction may take, late, that is left out of the bound though there is room for it.
std::optional<Seconds> left_out_too_soon(const Plan& plan, const Profile& profile,
                                         const LatencyByClock& latency, int stage,
                                         const LateInstruction& i, Seconds room);

/// That the plan counts for each change of a setting what its coming late may cost.
void check_late_changes(const Plan& plan, const Profile& profile, const LatencyByClock& latency,
                        Diagnostics& diagnostics);

}  // namespace harpe::verifying
