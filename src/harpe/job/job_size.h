#pragma once
/// \file
/// What a job takes of its server.

#include <cstddef>

#include "harpe/wire/job_spec.h"

namespace harpe {

/// How many plans are held ready: fewer than `JobSpec::plans` where they are so long that
/// `kMaxPlanCells` says so.
int plans_of(const JobSpec& spec);
/// Bytes that the job takes in memory while it trains, about, once it has its plans.
std::size_t memory_of(const JobSpec& spec);

}  // namespace harpe
