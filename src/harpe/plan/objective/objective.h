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

  /// Whether it waits for a pipeline that is slower than planned.
  bool is_straggler() const {
    return kind == Kind::kStragglerTime || kind == Kind::kStragglerFactor;
  }
  friend bool operator==(const Objective&, const Objective&) = default;
};

/// What relative objectives are relative to.
struct ReferenceTimes {
  Seconds fastest;  ///< T_min
  Seconds all_max;
};
/// When an iteration may end; nothing where the objective bounds no time.
std::optional<Seconds> time_of(const Objective& objective, const ReferenceTimes& reference);

/// For people: "slowdown 5 %", "deadline 16.5 s".
std::string text_of(const Objective& objective);

/// As JSON, on one line.
std::string objective_json(const Objective& objective);
/// Every member that is wrong is one error.
Result<Objective> parse_objective(std::string_view text);
/// The same of an object in a larger document; the errors go to those of `fields`.
Objective read_objective(Fields& fields);

/// Whether the value is one that the kind can have: what JSON may say, and nothing else.
bool is_valid(const Objective& objective);

}  // namespace harpe
