#pragma once
/// \file
/// What plans would save in training that is only observed, estimated by a model of its GPUs.
///
/// A model says what an instruction costs at other clocks than the one that it ran at. Two of its
/// parameters depend on the model that is trained and are not measured, and one on the very chip:
/// how much of the work waits for memory, what a GPU draws at any clock, and how far its voltage
/// falls. Each is varied over the range of the GPUs that were measured (docs/gpu-models.md), at
/// once in the direction in which plans save least and in the one in which they save most. So a
/// saving is a range, never a point.
///
/// Plans are compared with the clock that the GPUs were read to have, and do not go above it. Where
/// it was not read, they are taken to run at their highest clock, held back by their power limit
/// alone. Pure functions.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/gpu_model/gpu_model.h"
#include "harpe/job/observation.h"
#include "harpe/policy/plan_table.h"
#include "harpe/profile/profile.h"
#include "harpe/schedule/schedule_work.h"

namespace harpe {

enum class Assumption : unsigned char { kSavesLeast, kSavesMost };
inline constexpr std::array kAssumptions{Assumption::kSavesLeast, Assumption::kSavesMost};

/// The model with its uncertain parameters at one end of their range; what it draws at its highest
/// clock stays.
GpuModel assumed(GpuModel gpu, Assumption assumption);

/// A GPU of a stage: its model, and its power limit, which is the model's where it is 0.
struct ObservedGpu {
  const GpuModel* model = nullptr;
  Watts power_limit{};
};

/// The profile that a sweep over all clocks from the observed one down would have measured, by
/// these GPUs, one a stage: at the highest clock instructions take what was observed. Synthetic.
/// \pre an iteration was observed
Profile assumed_profile(const Observation& observed, const ScheduleWork& work,
                        const std::vector<ObservedGpu>& gpus, Assumption assumption);

/// What a GPU of each stage draws while it waits: as observed, else by its model.
std::vector<Watts> waiting_powers(const Observation& observed,
                                  const std::vector<ObservedGpu>& gpus);

/// What the plan for no slowdown saves of an iteration's energy, as a fraction: of one that takes
/// as long as was observed, where that is longer than its computations.
double saving_of(const PlanTable& plans, const Observation& observed);

}  // namespace harpe
