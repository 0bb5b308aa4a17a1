#pragma once
/// \file
/// What /metrics says of each job whose training goes on.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harpe/net/service/metrics_text.h"
#include "harpe/training/server/hosted_job.h"

namespace harpe {

/// One job as it is now, to be written elsewhere.
struct JobSample {
  JobSample(const HostedJob& job, Seconds now);

  std::string id, name, schedule;
  int ranks = 0;
  JobStatus status;
  std::optional<Pace> pace;
  /// Intensity used by the last decision on its pace; nullopt if the job does not follow a grid.
  std::optional<PresentIntensity> carbon;
  std::string carbon_source, carbon_kind;
  Seconds taken{};  ///< when this was taken, since 1970
  Joules energy{};  ///< reported to this server
  double gap = -1;  ///< the largest of the plans in force; below 0: not known
};

/// The phases of a job whose training goes on.
inline constexpr std::array kActivePhases{JobPhase::kRegistering,    JobPhase::kProfiling,
                                          JobPhase::kCharacterizing, JobPhase::kRunning,
                                          JobPhase::kStraggling,     JobPhase::kObserving};

/// Series of one job carry its id alone; `harpe_job_info` has its names.
void write_job_metrics(MetricsText& metrics, const std::vector<JobSample>& jobs);

/// Jobs in one response, at most: each has some 15 series.
inline constexpr std::size_t kMostJobMetrics = 1000;

}  // namespace harpe
