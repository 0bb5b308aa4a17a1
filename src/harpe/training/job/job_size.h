#pragma once
/// \file
/// What a job takes of its server.

#include <cstddef>

#include "harpe/training/wire/job_spec.h"

namespace harpe::training {

/// How many plans are held ready: fewer than `JobSpec::plans` where they are so long that
/// `kMaxPlanCells` says so.
int plans_of(const JobSpec& spec);
/// Estimated bytes of a training job that has its plans, without its ranks: a request of a few
/// words can declare 262,144 of them, so they count when they register, see `memory_of_ranks`.
std::size_t memory_of(const JobSpec& spec);
/// Bytes of ranks that have registered. \param places  as `RankHolders::places`
/// \param clocks  of all stages together
std::size_t memory_of_ranks(std::size_t places, std::size_t clocks);
/// Bytes of measurements. The first report of any rank takes them for all pipelines.
/// \param items  of the schedule's work (`ScheduleWork::items`)
std::size_t memory_of_measured(std::size_t items, int pipelines);

}  // namespace harpe::training
