#include "harpe/plan/frontier/profile_misfit.h"

#include <set>

namespace harpe::plan {

std::string profile_misfit(const Plan& plan, const Profile& profile) {
  if (profile.stages() < plan.stages) {
    return "the plan has " + std::to_string(plan.stages) + " stages, the profile " +
           std::to_string(profile.stages());
  }
  std::set<InstructionKind> runs, measured;
  for (const auto& list : plan.instructions) {
    for (const PlannedInstruction& i : list) {
      if (!is_fixed_time(i.kind)) runs.insert(i.kind);
    }
  }
  for (const InstructionProfile& entry : profile.entries()) {
    if (entry.stage < plan.stages) measured.insert(entry.kind);
  }
  for (const InstructionKind kind : runs) {
    if (measured.contains(kind)) continue;
    return "the plan runs " + std::string(name(kind)) +
           " instructions, for which the profile has no rows";
  }
  // Instructions that run as a whole, such as recompute_backward, need no weight rows.
  const bool runs_backward = runs.contains(InstructionKind::kBackward);
  if (runs_backward && measured.contains(InstructionKind::kWeight) &&
      !runs.contains(InstructionKind::kWeight)) {
    return "the profile has weight rows, so that its backward rows are input gradients alone, and "
           "the plan runs no weight gradients";
  }
  return {};
}

}  // namespace harpe::plan
