#pragma once
/// \file
/// Which plan each pipeline runs: what the user wishes, and what stragglers allow.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/job/job_spec.h"
#include "harpe/job/plan_table.h"

namespace harpe {

/// A pipeline that is slower than planned. Told by whoever runs the machines, or detected.
struct Straggler {
  int pipeline = 0;
  double factor = 1;                  ///< its iteration over that of a healthy one; above 1
  std::optional<Seconds> until = {};  ///< since 1970; then it counts as healed
  bool detected = false;              ///< by the job itself
  friend bool operator==(const Straggler&, const Straggler&) = default;
};
inline constexpr double kMostStragglerFactor = 1000;

struct PlanChoice {
  std::vector<std::uint32_t> plan_of;  ///< position in `PlanTable::plans` of each pipeline
  Seconds wished{};                    ///< time of the plan without stragglers
  Seconds wait_until{};                ///< T': when the last pipeline is through
  friend bool operator==(const PlanChoice&, const PlanChoice&) = default;
};

/// \param overhead  time of an iteration outside its pipeline (optimizer, gradient exchange),
///                  which deadlines include
/// O(pipelines + stragglers log plans), O(plans) for a power cap.
PlanChoice choose_plans(const PlanTable& plans, const Wish& wish, Seconds overhead, int pipelines,
                        std::span<const Straggler> stragglers);

/// `kInfeasible`, naming what is possible, where no plan does what is wished.
Status check_wish(const PlanTable& plans, const Wish& wish, Seconds overhead, int pipelines);

}  // namespace harpe
