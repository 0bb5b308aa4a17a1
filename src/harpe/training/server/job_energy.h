#pragma once
/// \file
/// GET /v1/jobs/ID/energy: what the job has used.

#include "harpe/training/server/job_request.h"

namespace harpe {

/// Written on another thread: of a job of years it is long.
void give_energy(const JobRequest& asked);

}  // namespace harpe
