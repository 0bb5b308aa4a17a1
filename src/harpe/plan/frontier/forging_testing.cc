// Verification of forgeries, and comparison of accepted claims with the truth.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <initializer_list>
#include <utility>

#include "harpe/plan/frontier/brute_force_testing.h"
#include "harpe/plan/frontier/forged_case_testing.h"
#include "harpe/plan/frontier/planned_schedule.h"
#include "harpe/plan/frontier/verify.h"

namespace harpe::plan {
namespace {

/// Compares the claims of an accepted plan with the truth. Its functions return the first false
/// claim, or "".
class Judge {
 public:
  Judge(const ForgedCase& forged, const Verification& found, const Truth& truth)
      : plan_(forged.plan), found_(found), truth_(truth) {}

  std::string lie() const {
    if (!truth_.mismatch.empty()) return "the plan does not run the schedule: " + truth_.mismatch;
    if (!truth_.is_known) return {};
    std::string lie = lie_of_plan();
    if (lie.empty() && found_.proven_bound) lie = lie_of_bound();
    return lie;
  }

 private:
  static std::string differ(const char* what, long double claimed, long double real) {
    return std::string(what) + " is " + number(claimed) + ", but " + number(real) + " is true";
  }
  static std::string number(long double value) {
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), "%.21Lg", value);
    return text.data();
  }

  std::string lie_of_plan() const {
    // The verifier's tolerance for numbers that were summed in another order (verify_parts.h).
    constexpr long double kAllowed = 2e-9;
    const long double energy = plan_.iteration_energy.value, time = plan_.iteration_time.value;
    // The energy and the makespan found are rounded up to the next double.
    constexpr long double kUp = 0x1p-52L;
    const long double above = kUp * std::abs(truth_.energy) + 0x1p-1000L;
    if (found_.energy.value < truth_.energy - truth_.rounding ||
        found_.energy.value > truth_.energy + truth_.rounding + above)
      return differ("the energy found", found_.energy.value, truth_.energy);
    if (found_.makespan.value < truth_.makespan * (1 - 1e-18L) ||
        found_.makespan.value > truth_.makespan * (1 + kUp))
      return differ("the makespan found", found_.makespan.value, truth_.makespan);
    if (energy < truth_.energy - kAllowed * std::abs(truth_.energy) - truth_.rounding)
      return differ("the plan's energy", energy, truth_.energy);
    const long double early = (1e-9L + kAllowed * time) * (2 + entries());
    if (time < truth_.makespan * (1 - kAllowed) - early)
      return differ("the plan's time", time, truth_.makespan);
    return {};
  }

  std::string lie_of_bound() const {
    const long double bound = found_.proven_bound->value;
    if (bound > found_.energy.value)
      return differ("the bound, against the plan's energy,", bound, found_.energy.value);
    if (truth_.optimum && bound > *truth_.optimum + truth_.rounding)
      return differ("the proven bound", bound, *truth_.optimum);
    const long double claimed = plan_.lower_bound.value;
    if (truth_.optimum && claimed > *truth_.optimum + 2e-9L * std::abs(claimed) + truth_.rounding)
      return differ("the plan's lower bound", claimed, *truth_.optimum);
    if (!truth_.late_energy) return {};
    // The verifier neglects costs of late settings below 1e-18 J and 1 ps, and accepts a relative
    // error of a billionth in the plan's numbers.
    const long double allowed = 2e-9L * std::abs(*truth_.late_energy) + 1e3L * truth_.rounding +
                                plan_.gpus_per_stage * (2e-9L * energies() + 1e-18L * entries());
    if (truth_.energy < *truth_.late_energy - allowed)
      return differ("the energy with late settings", truth_.energy, *truth_.late_energy);
    const long double makespan = *truth_.late_makespan;
    if (truth_.makespan < makespan * (1 - 2e-9L) - 1e-12L * entries())
      return differ("the makespan with late settings", truth_.makespan, makespan);
    return {};
  }

  long double entries() const {
    std::size_t entries = 0;
    for (const auto& list : plan_.instructions) entries += list.size();
    return static_cast<long double>(entries);
  }
  long double energies() const {
    long double energies = 0;
    for (const auto& list : plan_.instructions) {
      for (const PlannedInstruction& entry : list) energies += entry.energy.value;
    }
    return energies;
  }

  const Plan& plan_;
  const Verification& found_;
  const Truth& truth_;
};

bool has(const Plan& plan, auto is) {
  return std::ranges::any_of(plan.instructions,
                             [&](const auto& list) { return std::ranges::any_of(list, is); });
}

void count(ForgingCounts& counts, const ForgedCase& forged, const Verification& found,
           const Truth& truth, bool by_solver) {
  const Plan& plan = forged.plan;
  const Certificate& c = *forged.certificate;
  const bool transfers = !plan.transfers.none();
  const bool blocking = plan.transfers.mode == Transfers::Mode::kRendezvous;
  const auto is_fixed = [](const auto& e) {
    return is_fixed_time(e.kind) && e.kind != InstructionKind::kSwitch;
  };
  const auto is_fused = [](const auto& e) { return e.fused_with_next; };
  ++counts.compared;
  counts.by_solver += by_solver ? 1 : 0;
  counts.late += c.latency && c.latency->longest() > Seconds{0} ? 1 : 0;
  counts.with_loops += c.loops.empty() ? 0 : 1;
  counts.with_longest += c.longest.empty() ? 0 : 1;
  counts.blocking += transfers && blocking ? 1 : 0;
  counts.overlapped += transfers && !blocking ? 1 : 0;
  counts.fused += has(plan, is_fused) ? 1 : 0;
  counts.chunks += plan.chunks > 1 ? 1 : 0;
  counts.fixed_times += has(plan, is_fixed) ? 1 : 0;
  counts.waiting += truth.period > truth.makespan * (1 + 1e-9L) ? 1 : 0;
  counts.near_optimum +=
      *truth.optimum - found.proven_bound->value < 0.01L * std::abs(*truth.optimum) ? 1 : 0;
}

struct Outcome {
  bool accepted = false;
  std::string lie = {};  ///< the false claim and the case, if it was accepted with one
};

/// Verifies a case as `harpe verify` does: with the schedule of its name, or else the given one.
Outcome outcome_of(const ForgedCase& forged, bool by_solver, ForgingCounts& counts) {
  ++counts.forged;
  const auto named = named_schedule(forged.plan);
  const Schedule& schedule = named.ok() ? *named : forged.schedule;
  const Certificate* const certificate = forged.certificate ? &*forged.certificate : nullptr;
  const Verification found = verify_plan(forged.plan, schedule, forged.profile, certificate);
  if (!found.diagnostics.empty()) return {};
  ++counts.accepted;
  const LatencyByClock* const latency =
      certificate != nullptr && certificate->latency ? &*certificate->latency : nullptr;
  const Truth truth = brute_force(forged.plan, schedule, forged.profile, latency);
  if (const std::string lie = Judge(forged, found, truth).lie(); !lie.empty())
    return {.accepted = true, .lie = lie + "\n" + forged.text()};
  if (found.proven_bound && truth.optimum) count(counts, forged, found, truth, by_solver);
  return {.accepted = true};
}

}  // namespace

std::string ForgingCounts::text() const {
  std::string text;
  for (const auto& [name, number] : std::initializer_list<std::pair<const char*, int>>{
           {"forged", forged},
           {"accepted", accepted},
           {"compared", compared},
           {"by solver", by_solver},
           {"late", late},
           {"with loops", with_loops},
           {"with longest", with_longest},
           {"blocking transfers", blocking},
           {"overlapped transfers", overlapped},
           {"fused", fused},
           {"chunks", chunks},
           {"fixed times", fixed_times},
           {"waiting", waiting},
           {"within 1 % of the optimum", near_optimum}}) {
    text += (text.empty() ? "" : ", ") + std::to_string(number) + " " + name;
  }
  return text;
}

std::string find_accepted_forgery(std::span<const std::uint8_t> bytes, ForgingCounts& counts) {
  Dice dice(bytes);
  const SmallProblem problem = small_problem(dice);
  std::optional<ForgedCase> solved;
  if (dice.one_in(2)) solved = solved_case(problem, dice);
  const bool by_solver = solved.has_value();
  ForgedCase forged = by_solver ? *std::move(solved) : case_by_hand(problem, dice);
  if (!by_solver) forge_certificate(forged, problem, dice);
  Outcome outcome = outcome_of(forged, by_solver, counts);
  // The flow must prove that starts and ends have the least cost. Without them any flow will do.
  if (forged.certificate && !dice.one_in(4)) {
    forged.certificate->start.clear();
    forged.certificate->end.clear();
  }
  ForgedCase accepted = forged;  // the last accepted case, if any
  for (int n = 1 + dice.below(8); n > 0 && outcome.lie.empty(); --n) {
    for (int k = 1 + dice.below(3); k > 0; --k) {
      if (dice.one_in(3)) {
        mutate_premises(forged, problem, dice);
      } else {
        mutate_certificate(forged, problem, dice);
      }
    }
    ForgedCase attempt = forged;
    if (dice.one_in(8)) leak_flow(attempt, problem, dice);
    if (dice.one_in(8)) corrupt_plan(attempt.plan, dice);
    if (dice.one_in(8) && attempt.certificate) corrupt_certificate(*attempt.certificate, dice);
    if (dice.one_in(8) && !corrupt_files(attempt, dice)) continue;
    outcome = outcome_of(attempt, by_solver, counts);
    // A refused case would be refused for the same reason in every later step.
    if (outcome.accepted) {
      accepted = forged;
    } else {
      forged = accepted;
    }
  }
  return outcome.lie;
}

}  // namespace harpe::plan
