#pragma once
/// \file
/// An independent, small check of a plan and of its certificate. It runs no solver: it recomputes
/// what the plan claims from the profile and the rules of pipeline parallelism, and the lower bound
/// from the certificate's flow by weak duality.

#include <optional>
#include <string>
#include <vector>

#include "harpe/frontier/frontier.h"

namespace harpe {

/// What `verify_plan` found. `faults` is empty when everything holds.
struct Verification {
  std::vector<std::string> faults;
  Seconds makespan;                       ///< recomputed
  Joules energy;                          ///< recomputed
  std::optional<Joules> proven_bound;     ///< by the certificate's flow, at `Plan::iteration_time`
  std::optional<Joules> relaxed_optimum;  ///< cost of the certificate's starts and ends
};

/// Checks that every operating point stands in the profile, that starts respect order and
/// dependencies, time and energy add up, and, with a certificate, that its flow proves at least the
/// claimed lower bound.
Verification verify_plan(const Plan& plan, const Profile& profile, const Certificate* certificate);

/// `harpe.certificate/1`.
std::string certificate_json(const Certificate& certificate);
Result<Certificate> parse_certificate_json(std::string_view text, const std::string& file);

}  // namespace harpe
