#pragma once
/// \file
/// The points of an instruction as curves over the clock: one for each set of knobs. Used inside
/// the room.

#include <vector>

#include "harpe/plan/profile/profile.h"

namespace harpe::plan {

/// One entry for each set of knobs, in their order, with its points by rising clock: only such
/// points may be compared as neighbours.
std::vector<InstructionProfile> curves_of(const InstructionProfile& entry);

}  // namespace harpe::plan
