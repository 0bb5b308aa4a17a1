#pragma once
/// \file
/// What a user wants: one point of the frontier, by time, power or energy.
///
///   const harpe::Objective five_percent{harpe::Objective::Kind::kSlowdown, 0.05};
///   const auto cap = harpe::parse_objective(R"({"power_cap_w": 9000})");
///   const auto plan = harpe::plan_for(frontier, *cap, reference, {});  // policy/plan_for.h
///
/// An objective means the same wherever it is given: to `harpe plan`, in a job file, to a job on a
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
    kSlowdown,         ///< at most so much longer than T_min, as a fraction
    kDeadline,         ///< iterations of at most so many seconds
    kStragglerTime,    ///< the least energy while waiting for a pipeline that takes so many seconds
    kStragglerFactor,  ///< the same, for one that takes so many times an iteration at all-max
    kPowerCap,         ///< the fastest that draws at most so many watts on average
    kLeastEnergy,      ///< the least iteration energy, however long it takes
  };
  Kind kind = Kind::kSlowdown;
  double value = 0;  ///< fraction, seconds, factor or watts; not used by `kLeastEnergy`

  /// Returns true if the objective waits for a pipeline that is slower than planned.
  bool is_straggler() const {
    return kind == Kind::kStragglerTime || kind == Kind::kStragglerFactor;
  }
  /// Returns true if the objective caps what all pipelines of a job use together. A faster plan may
  /// break a cap, so that neither a pace nor a measurement at all-max may replace its plan.
  bool is_cap() const { return kind == Kind::kPowerCap; }
  /// Returns true if every frontier has a plan that meets the objective.
  bool is_always_feasible() const { return kind == Kind::kSlowdown || kind == Kind::kLeastEnergy; }
  friend bool operator==(const Objective&, const Objective&) = default;
};

/// What relative objectives are relative to.
struct ReferenceTimes {
  Seconds fastest;  ///< T_min
  Seconds all_max;
};
/// Returns when an iteration may end; nullopt if the objective bounds no time.
std::optional<Seconds> time_of(const Objective& objective, const ReferenceTimes& reference);

/// Returns true if an iteration of one pipeline meets the objective, or exceeds it by at most
/// `tolerance`, a fraction. \param objective  a cap is that of one pipeline
bool is_met(const Objective& objective, const ReferenceTimes& reference, Seconds time,
            Joules energy, double tolerance = 0);

/// Returns the objective as people read it: "slowdown 5 %", "deadline 16.5 s".
std::string text_of(const Objective& objective);

/// Returns the objective as JSON, on one line.
std::string objective_json(const Objective& objective);
/// Reads an objective from JSON. Reports a diagnostic for every member that is wrong.
Result<Objective> parse_objective(std::string_view text);
/// Reads an objective from an object in a larger document; errors are added to those of `fields`.
Objective read_objective(Fields& fields);

/// Returns true if the value is in the range of its kind, which JSON is held to.
bool is_valid(const Objective& objective);

/// An option or key that sets an objective. `harpe plan`, job files and `harpe job objective` have
/// one for each row. Two kinds may share an option: "--straggler 16.5s" and "--straggler 1.2x".
struct ObjectiveOption {
  std::string_view name;   ///< "power-cap"
  std::string_view value;  ///< "WATTS"; empty for a switch
  std::string_view help;
  Result<Objective> (*parse)(std::string_view value);  ///< a switch is given the empty text
};
std::span<const ObjectiveOption> objective_options();
/// Returns the option that sets the objective: "--power-cap 40000W".
std::string option_text(const Objective& objective);

}  // namespace harpe
