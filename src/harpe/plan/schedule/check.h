#pragma once
/// \file
/// The invariants of a schedule, with the place in a file of whatever breaks them.

#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

/// Where an instruction stands in its file, from 1.
struct Location {
  int line = 0;
  int column = 0;
};
/// One location for each instruction of each list.
using Locations = std::vector<std::vector<Location>>;

/// Adds one error for everything that breaks the invariants of `Schedule`. Without `where`, the
/// messages name stage and position in its list. O(n log n).
void check_schedule(const Schedule& schedule, const Locations* where, Diagnostics& diagnostics);

/// Fills in what follows from the lists: `stages`, and where they are empty or 0 also `placement`
/// and `micro_batches`, from the computations. A part without any computation is an error.
void infer_sizes(Schedule& schedule, const Locations& where, Diagnostics& diagnostics);

}  // namespace harpe::plan
