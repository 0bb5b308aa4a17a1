#pragma once
/// \file
/// Types and functions shared by the parts of `verify_plan`: verify.cc, verify_certificate.cc,
/// verify_loops.cc and verify_late.cc.

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

inline constexpr double kTolerance = 1e-9;  // relative, for sums in a different order

inline bool close(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

// More digits than the tolerance needs, but without the rounding errors of sums.
inline std::string text(Seconds time) {
  return shortest(time.value, 12) + " s";
}
inline std::string text(Joules energy) {
  return shortest(energy.value, 9) + " J";
}

/// Joules in units of 2^-62, for loops and late settings, where exact sums would take too long.
/// Terms are rounded down and limited, which can only lower the bound. Sums stay below 2^64 J.
using Fixed = WideInteger;
inline constexpr int kFixedBits = 62;

/// A plan with the values that the verifier computes from it before it reads the certificate.
struct CheckedPlan {
  const Plan& plan;
  const Profile& profile;
  const RulesGraph& graph;
  /// Time from the start of an iteration to the start of the next: the makespan, or the plan's
  /// iteration time if that is longer (the pipeline waits for a straggler).
  Exact period;
  Exact energy;  ///< energy of one iteration, whole pipeline
};

/// Returns the energy of a point minus the blocking energy for its time, per GPU.
inline Exact effective(Joules energy, Watts blocking, Seconds time) {
  return Exact(energy.value) - Exact::product(blocking.value, time.value);
}

/// Returns the energy of the whole pipeline: effective energy plus blocking energy, times the GPUs
/// per stage.
/// \param effective  sum of effective energies, with one GPU per stage
/// \param blocking   sum over stages of blocking power x iteration time
inline Exact whole_pipeline(const Plan& plan, const Exact& effective, const Exact& blocking) {
  return (effective + blocking) * plan.gpus_per_stage;
}

/// A node or dependency with its possible times and, for each, its loss against the best choice at
/// the price of its flow.
struct LoopArc {
  struct Choice {
    Seconds time;
    Exact loss;
  };
  std::vector<Choice> choices;
  std::int64_t flow = 0;  ///< in `Certificate::flow_unit`
};
/// Returns the least total loss of the arcs (nodes, then edges) of a certificate's loops. If a loop
/// or a transfer is not valid, adds a diagnostic and returns 0.
Exact lost_by_loops(const RulesGraph& graph, std::span<const LoopArc> arcs,
                    const Certificate& certificate, Diagnostics& diagnostics);

/// Sets in `found` the bound that the certificate proves for the plan, and adds the errors of the
/// certificate to `diagnostics`.
void verify_certificate(const CheckedPlan& plan, const Certificate& certificate,
                        Verification& found, Diagnostics& diagnostics);

/// A computation of a stage, for the check of a bound of late settings (verify_late.cc).
struct LateInstruction {
  const PlannedInstruction* entry = nullptr;
  std::int64_t flow = 0;         ///< through its node, in `Certificate::flow_unit`
  std::optional<Exact> longest;  ///< s; slower points are left out of the bound; nullopt: none
};

/// Returns the least sum of effective energies plus flow x time of one iteration of a stage, over
/// all choices of settings, if every change of setting is late. The last instruction precedes the
/// first. Rounded down. Returns nullopt if the sum is below the range of `Fixed`, or if no setting
/// is left.
std::optional<Exact> least_of_late_stage(const Plan& plan, const Profile& profile,
                                         const Certificate& certificate, int stage,
                                         std::span<const LateInstruction> list);

/// Returns all possible times of an instruction whose setting is late after any other setting of
/// its kind, so that part of it runs at one point and part at another. Rising; rounded down.
std::vector<Exact> late_times(std::span<const OperatingPoint> points, Watts blocking,
                              const LatencyByClock& latency);

/// Checks that the plan includes, for each change of a setting, the time and energy that a late
/// change may cost.
void check_late_changes(const Plan& plan, const Profile& profile, const LatencyByClock& latency,
                        Diagnostics& diagnostics);

}  // namespace harpe::plan::verifying
