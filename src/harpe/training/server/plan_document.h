#pragma once
/// \file
/// The plan that a pipeline of a job runs as a file: what `harpe plan` writes for the same inputs,
/// byte for byte.

#include <string>

#include "harpe/base/result.h"
#include "harpe/training/job/job.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe {

/// Both compute the frontier again: seconds for long schedules. May be called at once from several
/// threads.
/// \returns  harpe.plan/1
Result<std::string> plan_document(const JobSpec& spec, const PlanInForce& plan);
/// \returns  harpe.certificate/1 of the plan's lower bound
Result<std::string> certificate_document(const JobSpec& spec, const PlanInForce& plan);

}  // namespace harpe
