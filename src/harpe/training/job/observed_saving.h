#pragma once
/// \file
/// Estimates of what plans would save in observed training, by a model of its GPUs.
///
/// The model predicts the cost of an instruction at clocks that were not tried. Three of its
/// parameters are uncertain: the share of work that is bound by memory, the power that does not
/// depend on the clock, and the lowest voltage. All three are varied together over the range of
/// measured GPUs (docs/gpu-models.md), once so that plans save least and once so that they save
/// most. So the saving is a range, never a point.
///
/// Plans are compared with the clock that was read from the GPUs, and do not exceed it. If no clock
/// was read, GPUs are assumed to run at their highest clock, limited by power alone. Pure
/// functions.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/gpu_model/gpu_model.h"
#include "harpe/plan/policy/plan_table.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule_work.h"
#include "harpe/training/job/observation.h"

namespace harpe::training {

enum class Assumption : unsigned char { kSavesLeast, kSavesMost };
inline constexpr std::array kAssumptions{Assumption::kSavesLeast, Assumption::kSavesMost};

/// Returns the model with its uncertain parameters at one end of their range. The power at the
/// highest clock does not change.
GpuModel assumed(GpuModel gpu, Assumption assumption);

/// A GPU of a stage. A power limit of 0 stands for the model's.
struct ObservedGpu {
  const GpuModel* model = nullptr;
  Watts power_limit{};
};

/// Returns the profile that a sweep from the observed clock down would measure, by the model. At
/// the highest clock, instructions take the observed time. The profile is synthetic.
/// \param gpus  one for each stage
/// \pre an iteration was observed
Profile assumed_profile(const Observation& observed, const plan::ScheduleWork& work,
                        const std::vector<ObservedGpu>& gpus, Assumption assumption);

/// Returns the power of a waiting GPU of each stage: as observed, else by its model.
std::vector<Watts> waiting_powers(const Observation& observed,
                                  const std::vector<ObservedGpu>& gpus);

/// Returns the fraction of an iteration's energy that the plan without slowdown saves. The
/// iteration takes the observed time, or that of its computations if they take longer.
double saving_of(const plan::PlanTable& plans, const Observation& observed);

}  // namespace harpe::training
