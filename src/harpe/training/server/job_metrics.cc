#include "harpe/training/server/job_metrics.h"

#include <algorithm>
#include <functional>

#include "harpe/carbon/carbon_source/cached_series.h"

namespace harpe {
namespace {

using MetricType = MetricsText::Type;

/// A number of each job. \param known  which jobs have it
void each(MetricsText& metrics, const std::vector<JobSample>& jobs, const std::string& name,
          MetricType type, const std::string& help,
          const std::function<double(const JobSample&)>& value,
          const std::function<bool(const JobSample&)>& known = {}) {
  metrics.family("harpe_job_" + name, type, help);
  for (const JobSample& job : jobs) {
    if (!known || known(job)) metrics.sample(value(job), {{"job_id", job.id}});
  }
}

/// A time or energy that is 0 where it is not known.
void measured(MetricsText& metrics, const std::vector<JobSample>& jobs, const std::string& name,
              const std::string& help, const std::function<double(const JobSample&)>& value) {
  each(metrics, jobs, name, MetricType::kGauge, help, value,
       [&value](const JobSample& job) { return value(job) != 0; });
}

/// The pace, and by what the decision on it was made, of the jobs that had something to go by.
void write_pace(MetricsText& metrics, const std::vector<JobSample>& jobs) {
  each(
      metrics, jobs, "pace_seconds", MetricType::kGauge,
      "Iteration time at which it is paced from outside, by the carbon intensity of its grid.",
      [](const JobSample& job) { return job.pace->iteration_time->value; },
      [](const JobSample& job) { return job.pace && job.pace->iteration_time; });
  const auto of_carbon = [&](const std::string& name, const std::string& help, const auto& value) {
    metrics.family("harpe_job_carbon_" + name, MetricType::kGauge, help);
    for (const JobSample& job : jobs) {
      if (!job.carbon) continue;
      metrics.sample(value(job), {{"job_id", job.id},
                                  {"source", job.carbon_source},
                                  {"kind", job.carbon_kind},
                                  {"basis", basis_of(*job.carbon)}});
    }
  };
  of_carbon("intensity_grams_per_kwh",
            "Carbon intensity by which its last decision was made, and what that was: measured or "
            "forecast; none where it had nothing to go by.",
            [](const JobSample& job) { return job.carbon->grams_per_kwh; });
  of_carbon("intensity_age_seconds",
            "Time since that was fetched, or the forecast that it is of was made.",
            [](const JobSample& job) {
              return job.taken.value - static_cast<double>(job.carbon->known_since.since_1970);
            });
}

}  // namespace

JobSample::JobSample(const HostedJob& job, Seconds now)
    : id(job.id),
      name(job.job.spec().name),
      schedule(job.job.spec().schedule.name),
      ranks(job.job.spec().shape.ranks()),
      status(job.job.status()),
      pace(job.job.pace()),
      taken(now),
      energy(status.energy - job.energy_before) {
  if (job.carbon.decision()) {
    carbon = job.carbon.decision()->present;
    carbon_source = job.carbon.state().source;
    carbon_kind = kind_word(job.carbon.state().kind);
  }
  for (const PipelineState& pipeline : job.job.pipelines()) {
    const bool is_all_max = pipeline.plan.from == PlanRef::From::kAllMax;
    if (pipeline.planned && !is_all_max) gap = std::max(gap, pipeline.gap.value_or(-1));
  }
}

void write_job_metrics(MetricsText& metrics, const std::vector<JobSample>& jobs) {
  metrics.family("harpe_job_info", MetricType::kGauge, "A job whose training goes on; always 1.");
  for (const JobSample& job : jobs) {
    metrics.sample(1, {{"job_id", job.id}, {"name", job.name}, {"schedule", job.schedule}});
  }
  metrics.family("harpe_job_phase", MetricType::kGauge, "1 for the phase that the job is in.");
  for (const JobSample& job : jobs) {
    for (const JobPhase phase : kActivePhases) {
      metrics.sample(job.status.phase == phase ? 1 : 0,
                     {{"job_id", job.id}, {"phase", name_of(phase)}});
    }
  }
  each(metrics, jobs, "ranks", MetricType::kGauge, "Ranks that the job has.",
       [](const JobSample& job) { return double(job.ranks); });
  each(metrics, jobs, "ranks_registered", MetricType::kGauge, "Ranks that have registered.",
       [](const JobSample& job) { return double(job.status.ranks_registered); });
  each(metrics, jobs, "stragglers", MetricType::kGauge, "Pipelines that are stragglers.",
       [](const JobSample& job) { return static_cast<double>(job.status.stragglers.size()); });
  measured(metrics, jobs, "iteration_time_seconds", "Mean time of the last iterations.",
           [](const JobSample& job) { return job.status.iteration_time.value; });
  measured(metrics, jobs, "predicted_iteration_time_seconds", "What the plans in force promise.",
           [](const JobSample& job) { return job.status.predicted_time.value; });
  measured(metrics, jobs, "all_max_iteration_time_seconds", "Time of an iteration at all-max.",
           [](const JobSample& job) { return job.status.measured_all_max_time.value; });
  write_pace(metrics, jobs);
  each(metrics, jobs, "pause_asked", MetricType::kGauge, "Whether training is asked to pause.",
       [](const JobSample& job) { return job.pace && job.pace->pause ? 1.0 : 0.0; });
  each(metrics, jobs, "paused", MetricType::kGauge,
       "Whether training pauses: its ranks wait, or have ended to be started again.",
       [](const JobSample& job) {
         return job.status.pause.is == PauseState::Is::kPaused ? 1.0 : 0.0;
       });
  // From 0 in each process: Prometheus would count a restored sum below the last one twice.
  each(metrics, jobs, "energy_joules_total", MetricType::kCounter,
       "Energy that its ranks have reported since this server has the job.",
       [](const JobSample& job) { return job.energy.value; });
  each(metrics, jobs, "energies_refused", MetricType::kGauge,
       "Reports whose energies count as not measured, as no GPU can have used so much, or so "
       "little.",
       [](const JobSample& job) { return double(job.status.energies_refused); });
  // A gauge: iterations may need more than those at all-max did.
  each(metrics, jobs, "energy_saved_joules", MetricType::kGauge,
       "Energy saved against the same iterations at all-max.",
       [](const JobSample& job) { return job.status.saved.value; });
  each(metrics, jobs, "energy_saved_error_joules", MetricType::kGauge,
       "Half-width of the 95 % interval of the energy saved.",
       [](const JobSample& job) { return job.status.saved_error.value; });
  measured(metrics, jobs, "time_over_allowed_ratio",
           "Mean of the newest 100 iterations by the plan over what the objective allows.",
           [](const JobSample& job) { return job.status.time_over_allowed; });
  each(
      metrics, jobs, "plan_gap_ratio", MetricType::kGauge,
      "How far the plans in force are above the proven least energy, at most.",
      [](const JobSample& job) { return job.gap; },
      [](const JobSample& job) { return job.gap >= 0; });
}

}  // namespace harpe
