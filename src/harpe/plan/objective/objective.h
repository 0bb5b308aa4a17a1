#pragma once
/// \file
/// Objectives: the point of the frontier that a user wants, by time, power or energy.
///
///   const harpe::Objective five_percent{harpe::Objective::Kind::kSlowdown, 0.05};
///   const auto cap = harpe::parse_objective(R"({"power_cap_w": 9000})");
///   const auto plan = harpe::plan_for(frontier, *cap, reference, {});  // policy/plan_for.h
///
/// An objective has the same meaning everywhere: in `harpe plan`, in a job file, for a job on a
/// server, in Python. A slowdown is relative to T_min, the time of the fastest possible iteration;
/// people write it as a percentage, programs as a fraction.
///
/// As JSON, an object with exactly one of the members "slowdown", "deadline_s", "straggler_s",
/// "straggler_factor", "power_cap_w", "least_energy": true.

#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

class Fields;

struct Objective {
  enum class Kind : unsigned char {
    kSlowdown,         ///< iteration time at most (1 + value) x T_min
    kDeadline,         ///< iteration time at most `value` seconds
    kStragglerTime,    ///< least energy while waiting for a pipeline that takes `value` seconds
    kStragglerFactor,  ///< least energy while waiting for a pipeline that takes `value` x all-max
    kPowerCap,         ///< fastest plan with an average power of at most `value` watts
    kLeastEnergy,      ///< least iteration energy, at any iteration time
  };
  Kind kind = Kind::kSlowdown;
  double value = 0;  ///< fraction, seconds, factor or watts; not used by `kLeastEnergy`

  /// Returns true if the objective waits for a pipeline that is slower than planned.
  bool is_straggler() const {
    return kind == Kind::kStragglerTime || kind == Kind::kStragglerFactor;
  }
  /// Returns true if the objective caps the total power of all pipelines of a job. A faster plan
  /// may break the cap, so neither a pace nor a measurement at all-max may replace the plan.
  bool is_cap() const { return kind == Kind::kPowerCap; }
  /// Returns true if every frontier has a plan that meets the objective.
  bool is_always_feasible() const { return kind == Kind::kSlowdown || kind == Kind::kLeastEnergy; }
  friend bool operator==(const Objective&, const Objective&) = default;
};

/// The times that relative objectives refer to.
struct ReferenceTimes {
  Seconds fastest;  ///< T_min
  Seconds all_max;
};
/// Returns the deadline of an iteration; nullopt if the objective does not bound the time.
std::optional<Seconds> time_of(const Objective& objective, const ReferenceTimes& reference);

/// Returns true if an iteration of one pipeline meets the objective, or exceeds it by at most
/// `tolerance`, a fraction. \param objective  a power cap applies to one pipeline
bool is_met(const Objective& objective, const ReferenceTimes& reference, Seconds time,
            Joules energy, double tolerance = 0);

/// Returns the objective as text for people: "slowdown 5 %", "deadline 16.5 s".
std::string text_of(const Objective& objective);

/// Returns the objective as JSON, on one line.
std::string objective_json(const Objective& objective);
/// Reads an objective from JSON. Reports a diagnostic for every member that is wrong.
Result<Objective> parse_objective(std::string_view text);
/// Reads an objective from an object in a larger document; adds errors to those of `fields`.
Objective read_objective(Fields& fields);

/// Returns true if the value is in the range of its kind. JSON objectives must be in this range.
bool is_valid(const Objective& objective);

/// An option or key that sets an objective. `harpe plan`, job files and `harpe job objective` have
/// one for each row. Two kinds may share an option: "--straggler 16.5s" and "--straggler 1.2x".
struct ObjectiveOption {
  std::string_view name;   ///< "power-cap"
  std::string_view value;  ///< "WATTS"; empty for a switch
  std::string_view help;
  Result<Objective> (*parse)(std::string_view value);  ///< an empty `value` for a switch
};
std::span<const ObjectiveOption> objective_options();
/// Returns the option that sets the objective: "--power-cap 40000W".
std::string option_text(const Objective& objective);

}  // namespace harpe
