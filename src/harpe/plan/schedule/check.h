#pragma once
/// \file
/// A check of the invariants of a schedule that reports the position of each violation in its file.

#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

/// The position of an instruction in its file, from 1.
struct Location {
  int line = 0;
  int column = 0;
};
/// One location for each instruction of each list.
using Locations = std::vector<std::vector<Location>>;

/// Adds one error for each violation of the invariants of `Schedule`. If `where` is null, the
/// messages name the stage and the position in its list. O(n log n).
void check_schedule(const Schedule& schedule, const Locations* where, Diagnostics& diagnostics);

/// Sets `stages` from the lists, and `placement` and `micro_batches` from the computations if they
/// are empty or 0. A part without any computation is an error.
void infer_sizes(Schedule& schedule, const Locations& where, Diagnostics& diagnostics);

}  // namespace harpe::plan
