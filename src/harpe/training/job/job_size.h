#pragma once
/// \file
/// The memory that a job needs on its server.

#include <cstddef>

#include "harpe/training/wire/job_spec.h"

namespace harpe::training {

/// Returns the number of plans to keep ready: `JobSpec::plans`, or fewer if their schedule is so
/// long that they would exceed `kMaxPlanCells`.
int plans_of(const JobSpec& spec);
/// Returns the estimated bytes of a training job with its plans but without its ranks: a short
/// request can declare 262,144 ranks, so they count when they register, see `memory_of_ranks`.
std::size_t memory_of(const JobSpec& spec);
/// Returns the bytes of registered ranks.
/// \param places  as `RankHolders::places`
/// \param clocks  of all stages together
std::size_t memory_of_ranks(std::size_t places, std::size_t clocks);
/// Returns the bytes of measurements, which the first report of any rank allocates for all
/// pipelines together.
/// \param items  of the schedule's work (`ScheduleWork::items`)
std::size_t memory_of_measured(std::size_t items, int pipelines);

}  // namespace harpe::training
