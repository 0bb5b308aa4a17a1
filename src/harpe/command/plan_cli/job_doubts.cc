#include "harpe/command/plan_cli/job_doubts.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/plan/profile/unit_doubts.h"

namespace harpe::command {
namespace {

constexpr double kTooSlow = 5;               // times the fastest iteration
constexpr double kTooLong = 20;              // times the longest computation
constexpr double kLeastBlocking = 1;         // W
constexpr double kLongestLikelyLatency = 1;  // s, of the clock with the least latency
constexpr double kLeastPower = 0.02;         // of all-max's: less than GPUs draw at any clock

std::string watts_text(double watts) {
  return plan::four_digits(watts) + " W";
}

/// Extremes of the computations, over all operating points.
struct Computing {
  double longest = 0;  ///< s, of the longest instruction at its fastest clock
  double least_power = HUGE_VAL, most_power = 0;
};

Computing computing_of(const Profile& profile) {
  Computing found;
  for (const InstructionProfile& entry : profile.entries()) {
    if (is_fixed_time(entry.kind)) continue;
    double fastest = HUGE_VAL;
    for (const OperatingPoint& point : entry.points) {
      const double power = (point.energy / point.time).value;
      found.least_power = std::min(found.least_power, power);
      found.most_power = std::max(found.most_power, power);
      fastest = std::min(fastest, point.time.value);
    }
    found.longest = std::max(found.longest, fastest);
  }
  return found;
}

/// Returns "; is 83.64 W meant?" for the first unit or slip that gives a likely value.
std::string meant(double value, double low, double high,
                  std::initializer_list<std::pair<double, const char*>> readings) {
  for (const auto& [scale, unit] : readings) {
    const double read = value * scale;
    if (read < low || read > high) continue;
    // The user left out the unit, which is shown with the number. '*' marks the base unit, for
    // which the number is converted.
    return "; is " + plan::four_digits(unit[0] == '*' ? read : value) +
           (unit[0] == '*' ? unit + 1 : unit) + " meant?";
  }
  return {};
}

Status check_blocking_power(const PlanJob& job, const Computing& computing, Console& console) {
  for (const Watts power : job.blocking_power) {
    const double watts = power.value;
    if (watts == 0) continue;
    if (watts > computing.most_power) {
      return Error::invalid("--blocking-power " + watts_text(watts) +
                            " is more than any computation of the profile draws, " +
                            watts_text(computing.most_power) +
                            meant(watts, 10, computing.least_power, {{1e-3, "mW"}, {1e-6, "*W"}}));
    }
    if (watts < kLeastBlocking) {
      return Error::invalid("--blocking-power " + watts_text(watts) +
                            ": a waiting GPU draws tens of watts; write 0 to count no power" +
                            meant(watts, 10, computing.least_power, {{1e3, "kW"}}));
    }
    if (watts > computing.least_power) {
      console.warn("--blocking-power " + watts_text(watts) +
                   " is more than the profile's least power of a computation, " +
                   watts_text(computing.least_power));
      break;
    }
  }
  return ok_status();
}

/// \param refuse  true to refuse times above `kTooLong` times `longest`
Status check_time(const std::string& option, Seconds time, double longest, bool refuse,
                  Console& console) {
  if (!(time.value > longest)) return ok_status();
  const std::string sentence =
      "--" + option + " " + plan::four_digits(time.value) + " s" +
      " is longer than the longest computation at its fastest, " + seconds_text(longest) +
      meant(time.value, longest / 1e4, longest, {{1e-3, "ms"}, {1e-6, "us"}});
  if (refuse && time.value > kTooLong * longest) return Error::invalid(sentence);
  console.warn(sentence);
  return ok_status();
}

/// Warns if a table seems to be in milliseconds. In the tables that Harpe writes, some clocks may
/// be later than a computation takes, but not all of them seconds late.
void check_table(const GivenLatency& given, Console& console) {
  const double least = given.by_clock.shortest().value;
  if (least <= kLongestLikelyLatency) return;
  console.warn(given.table.string() + ": every clock change is at least " +
               plan::four_digits(least) +
               " s late; are these milliseconds? The column latency is in seconds");
}

Status check_deadline(const PlanJob& job, const Frontier& frontier, Console& console) {
  const double fastest = frontier.min_time().value;
  const double useful = std::max(fastest, frontier.least_energy_time().value);
  const bool is_slowdown = job.objective.kind == Objective::Kind::kSlowdown;
  const double time = is_slowdown ? fastest * (1 + job.objective.value) : job.objective.value;
  if (!(time > useful * 1.0001)) return ok_status();
  const double percent = 100 * job.objective.value;
  std::string sentence = is_slowdown ? "--slowdown " + plan::four_digits(percent) + " %"
                                     : "--deadline " + plan::four_digits(time) + " s";
  if (time > kTooSlow * fastest) {
    const double most = 2 * useful;
    const std::string likely =
        is_slowdown ? meant(percent, 0.1, 100 * (most / fastest - 1), {{1e-1, "*%"}, {1e-2, "*%"}})
                    : meant(time, fastest, most, {{1e-3, "ms"}, {1e-1, "* s"}, {1e-2, "* s"}});
    return Error::invalid(sentence + " is " + plan::four_digits(time / fastest) +
                          " times the fastest iteration, " + seconds_text(fastest) +
                          ", and no energy is saved beyond " + seconds_text(useful) + likely +
                          " (for the least energy, however long it takes: --least-energy)");
  }
  console.warn(sentence + " is beyond the least energy, at " + seconds_text(useful) + " or " +
               fixed(100 * (useful / fastest - 1), 1) + " %: the plan ends there");
  return ok_status();
}

Status check_straggler(const PlanJob& job, const Frontier& frontier, Console& console) {
  const double fastest = frontier.min_time().value;
  const bool is_factor = job.objective.kind == Objective::Kind::kStragglerFactor;
  const double value = job.objective.value;
  const double time = is_factor ? value * frontier.all_max().iteration_time.value : value;
  const std::string given = "--straggler " + plan::four_digits(value) + (is_factor ? "x" : " s");
  if (time < fastest) {
    return Error::infeasible(given + " is an iteration of " + seconds_text(time) +
                             ", which is faster than the fastest possible, " +
                             seconds_text(fastest) +
                             (is_factor ? "" : meant(value, 1, kTooSlow, {{1, "x"}})));
  }
  if (time > kTooSlow * fastest) {
    console.warn(given + " is " + plan::four_digits(time / fastest) +
                 " times the fastest iteration, " + seconds_text(fastest) +
                 (is_factor ? meant(value, 1, kTooSlow, {{1e-2, "*x"}, {1e-1, "*x"}})
                            : meant(value, fastest, kTooSlow * fastest, {{1e-3, "ms"}})));
  }
  return ok_status();
}

Status check_power_cap(const PlanJob& job, const PlanInputs& inputs, const Frontier& frontier,
                       Console& console) {
  const double cap = job.objective.value;
  double waiting = 0;
  for (const Watts power : inputs.blocking_power) waiting += power.value * job.gpus_per_stage;
  const Plan all_max = frontier.all_max();
  const double most = (all_max.iteration_energy / all_max.iteration_time).value;
  if (cap <= waiting || cap < kLeastPower * most) {
    const std::string drawn = cap <= waiting
                                  ? "the GPUs draw " + watts_text(waiting) + " while they wait"
                                  : "at all-max the pipeline draws " + watts_text(most);
    return Error::infeasible(
        "--power-cap " + watts_text(cap) + " cannot be met: " + drawn +
        meant(cap, waiting, 2 * most, {{1e3, "kW"}}) +
        (cap < 1000 && cap * 1e3 > waiting ? " (a number without a unit is W)" : ""));
  }
  if (cap > most) {
    console.warn("--power-cap " + watts_text(cap) +
                 " changes nothing: at all-max the pipeline draws " + watts_text(most) +
                 meant(cap, waiting, most, {{1e-3, "mW"}}));
  }
  return ok_status();
}

}  // namespace

Status check_inputs(const PlanJob& job, const PlanInputs& inputs, Console& console) {
  const Computing computing = computing_of(inputs.profile);
  if (!(computing.longest > 0)) return ok_status();
  HARPE_TRY(check_blocking_power(job, computing, console));
  const auto check = [&](const std::string& option, const std::vector<Seconds>& times,
                         bool refuse) -> Status {
    if (times.empty()) return ok_status();
    return check_time(option, std::ranges::max(times), computing.longest, refuse, console);
  };
  HARPE_TRY(check("transfer-forward", job.transfer_forward, true));
  HARPE_TRY(check("transfer-backward", job.transfer_backward, true));
  HARPE_TRY(check("load", job.load, true));
  const LatencyByClock& latency = job.switch_latency.by_clock;
  if (!latency.is_table()) return check("switch-latency", {latency.longest()}, false);
  check_table(job.switch_latency, console);
  return ok_status();
}

Status check_objective(const PlanJob& job, const PlanInputs& inputs, const Frontier& frontier,
                       Console& console) {
  switch (job.objective.kind) {
    case Objective::Kind::kStragglerTime:
    case Objective::Kind::kStragglerFactor:
      return check_straggler(job, frontier, console);
    case Objective::Kind::kSlowdown:
    case Objective::Kind::kDeadline:
      return check_deadline(job, frontier, console);
    case Objective::Kind::kPowerCap:
      return check_power_cap(job, inputs, frontier, console);
    case Objective::Kind::kLeastEnergy:
      break;
  }
  return ok_status();
}

}  // namespace harpe::command
