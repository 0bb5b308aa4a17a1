#pragma once
/// \file
/// Forged plans, certificates and profiles: attacks on `verify_plan`, made from bytes.
///
/// A case begins with a small pipeline and an honest proof, by the solver or by hand. The forger
/// then changes plan, certificate, profile and schedule together, as structs or as the text of
/// their files. Claims that the verifier accepts are compared with the truth
/// (brute_force_testing.h).

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/plan/frontier/certificate.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/plan.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/fixed_times.h"

namespace harpe::plan {

/// Choices made by bytes. After the last byte, choices are made by pseudo-random numbers that
/// depend on all bytes.
class Dice {
 public:
  explicit Dice(std::span<const std::uint8_t> bytes);

  /// Returns a number from 0 to n - 1. `n` must be above 0.
  int below(int n);
  bool one_in(int n) { return below(n) == 0; }
  double between(double low, double high) { return low + (high - low) * (word() * 0x1p-32); }
  template <class List>
  auto& pick(List& list) {
    return list[static_cast<std::size_t>(below(static_cast<int>(list.size())))];
  }

 private:
  std::uint32_t byte();
  std::uint32_t word();

  std::span<const std::uint8_t> bytes_;
  std::size_t next_ = 0;
  std::uint64_t state_;
};

/// The input of the verifier.
struct ForgedCase {
  Plan plan;
  std::optional<Certificate> certificate;
  Profile profile;
  Schedule schedule;

  std::string text() const;  ///< all members, as files
};

/// A small pipeline to plan.
struct SmallProblem {
  Schedule schedule;       ///< a named one, or "custom"
  Schedule full_schedule;  ///< with fixed-time instructions
  FixedTimes fixed_times;
  Transfers transfers;
  Profile profile;
  std::vector<Watts> blocking_power;
  int gpus_per_stage = 1;
  LatencyByClock latency;
  Seconds min_dwell;
  bool with_loops = false;  ///< most attacks are on the loops of its certificate
  double time_unit = 1;     ///< s, the scale of all times
  double power_unit = 1;    ///< W, the scale of all powers
};

SmallProblem small_problem(Dice& dice);

/// Returns the solver's plan and proof; nullopt if the solver refuses the problem.
std::optional<ForgedCase> solved_case(const SmallProblem& problem, Dice& dice);
/// Returns a plan of arbitrary settings without a certificate.
ForgedCase case_by_hand(const SmallProblem& problem, Dice& dice);

/// Replaces the certificate by one with a conserved flow, with or without longest times, loops and
/// a latency.
void forge_certificate(ForgedCase& forged, const SmallProblem& problem, Dice& dice);
/// Changes the certificate in one way that conserves its flow. Forges one if there is none.
void mutate_certificate(ForgedCase& forged, const SmallProblem& problem, Dice& dice);
/// Adds a flow that is not conserved.
void leak_flow(ForgedCase& forged, const SmallProblem& problem, Dice& dice);
/// Changes the premises (powers, transfers, settings, profile), and recomputes the plan from them.
void mutate_premises(ForgedCase& forged, const SmallProblem& problem, Dice& dice);
/// Changes a number or an entry of the plan in a way that the verifier should notice or prove to be
/// harmless. `corrupt_certificate` does the same to a certificate.
void corrupt_plan(Plan& plan, Dice& dice);
void corrupt_certificate(Certificate& certificate, Dice& dice);
/// Writes plan, certificate and profile, changes a few letters of one, and reads them. Returns
/// false if they cannot be read.
bool corrupt_files(ForgedCase& forged, Dice& dice);

/// Counts of forgeries, and of the kinds of forgeries that were compared with the oracle.
struct ForgingCounts {
  int forged = 0, accepted = 0;
  int compared = 0;  ///< accepted with a proven bound, and the optimum is known
  // Kinds of compared forgeries:
  int by_solver = 0, late = 0, with_loops = 0, with_longest = 0, blocking = 0, overlapped = 0,
      fused = 0, chunks = 0, fixed_times = 0, waiting = 0, near_optimum = 0;

  std::string text() const;
};

/// Makes forgeries of one case from bytes and verifies them. Returns a description of the first
/// accepted forgery with a false claim; empty if there is none.
std::string find_accepted_forgery(std::span<const std::uint8_t> bytes, ForgingCounts& counts);

}  // namespace harpe::plan
