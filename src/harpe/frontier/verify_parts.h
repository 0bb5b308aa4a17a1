#pragma once
/// \file
/// What the parts of `verify_plan` have in common. For verify.cc and verify_certificate.cc only.

#include <algorithm>
#include <cmath>
#include <string>

#include "harpe/base/text.h"
#include "harpe/frontier/rules_graph.h"
#include "harpe/frontier/verify.h"

namespace harpe::verifying {

inline constexpr double kTolerance = 1e-9;  // relative, for sums in another order

inline bool close(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

inline std::string text(Seconds time) {
  return shortest(time.value) + " s";
}
inline std::string text(Joules energy) {
  return shortest(energy.value) + " J";
}

/// Of all GPUs, from the sum of effective energies of one GPU a stage.
inline Joules whole_pipeline(const Plan& plan, Joules effective, Seconds time) {
  Watts blocking{0};
  for (const Watts power : plan.blocking_power) blocking += power;
  return (effective + blocking * time) * plan.gpus_per_stage;
}

/// Adds to `found` what the certificate proves for the plan, and to `errors` what does not hold.
void verify_certificate(const Plan& plan, const Profile& profile, const RulesGraph& graph,
                        const Certificate& certificate, Verification& found,
                        Diagnostics& diagnostics);

}  // namespace harpe::verifying
