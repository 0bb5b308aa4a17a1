#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/carbon/carbon_source/cached_series.h"
#include "harpe/net/http/http_responses.h"
#include "harpe/net/service/metrics_text.h"
#include "harpe/training/server/api.h"
#include "harpe/training/server/hosted_job.h"

namespace harpe::training {
namespace {

using MetricType = net::MetricsText::Type;

/// A snapshot of a job, for a worker that writes its series.
struct JobSample {
  JobSample(const HostedJob& job, Seconds now);

  std::string id, name, schedule;
  int ranks = 0;
  JobStatus status;
  std::optional<Pace> pace;
  /// Intensity used by the last decision on its pace; nullopt if the job does not follow a grid.
  std::optional<PresentIntensity> carbon;
  std::string carbon_source, carbon_kind;
  Seconds taken{};  ///< time of the snapshot, since 1970
  Joules energy{};  ///< reported to this server
  double gap = -1;  ///< largest gap of the plans in force; below 0 if unknown
};

/// The phases of a job in training.
constexpr std::array kActivePhases{JobPhase::kRegistering,    JobPhase::kProfiling,
                                   JobPhase::kCharacterizing, JobPhase::kRunning,
                                   JobPhase::kStraggling,     JobPhase::kObserving};

/// Maximum number of jobs in one response: each has some 15 series.
constexpr std::size_t kMostJobMetrics = 1000;

/// Returns the type of a metric. In Prometheus, names of counters end in "_total".
MetricType type_of(std::string_view name) {
  return name.ends_with("_total") ? MetricType::kCounter : MetricType::kGauge;
}

/// Writes a number for each job.
/// \param known  returns true if the job has the number; null if all have it
void each_job(net::MetricsText& metrics, const std::vector<JobSample>& jobs,
              const std::string& name, const std::string& help,
              const std::function<double(const JobSample&)>& value,
              const std::function<bool(const JobSample&)>& known = {}) {
  metrics.family("harpe_job_" + name, type_of(name), help);
  for (const JobSample& job : jobs) {
    if (!known || known(job)) metrics.sample(value(job), {{"job_id", job.id}});
  }
}

/// Writes a time or energy for each job. Omits 0, which means unknown.
void measured(net::MetricsText& metrics, const std::vector<JobSample>& jobs,
              const std::string& name, const std::string& help,
              const std::function<double(const JobSample&)>& value) {
  each_job(metrics, jobs, name, help, value,
           [&value](const JobSample& job) { return value(job) != 0; });
}

/// Writes the pace and the intensity behind it, for the jobs that have them.
void write_pace(net::MetricsText& metrics, const std::vector<JobSample>& jobs) {
  each_job(
      metrics, jobs, "pace_seconds",
      "Iteration time of the job's pace, which follows the carbon intensity of its grid.",
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
            "Carbon intensity used by the last pacing decision; the label basis states whether it "
            "was measured, forecast or unknown.",
            [](const JobSample& job) { return job.carbon->grams_per_kwh; });
  of_carbon("intensity_age_seconds",
            "Time since this intensity was fetched, or its forecast was made.",
            [](const JobSample& job) {
              return job.taken.value - static_cast<double>(job.carbon->known_since.since_1970);
            });
}

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
    carbon_kind = carbon::kind_word(job.carbon.state().kind);
  }
  for (const PipelineState& pipeline : job.job.pipelines()) {
    const bool is_all_max = pipeline.plan.from == plan::PlanRef::From::kAllMax;
    if (pipeline.planned && !is_all_max) gap = std::max(gap, pipeline.gap.value_or(-1));
  }
}

/// Writes the series of each job, labelled with its id only; `harpe_job_info` has its names.
void write_job_metrics(net::MetricsText& metrics, const std::vector<JobSample>& jobs) {
  metrics.family("harpe_job_info", MetricType::kGauge, "An active job; always 1.");
  for (const JobSample& job : jobs) {
    metrics.sample(1, {{"job_id", job.id}, {"name", job.name}, {"schedule", job.schedule}});
  }
  metrics.family("harpe_job_phase", MetricType::kGauge,
                 "1 for the phase of the job, 0 for all others.");
  for (const JobSample& job : jobs) {
    for (const JobPhase phase : kActivePhases) {
      metrics.sample(job.status.phase == phase ? 1 : 0,
                     {{"job_id", job.id}, {"phase", name_of(phase)}});
    }
  }
  each_job(metrics, jobs, "ranks", "Ranks of the job.",
           [](const JobSample& job) { return double(job.ranks); });
  each_job(metrics, jobs, "ranks_registered", "Ranks that have registered.",
           [](const JobSample& job) { return double(job.status.ranks_registered); });
  each_job(metrics, jobs, "stragglers", "Pipelines that are stragglers.",
           [](const JobSample& job) { return static_cast<double>(job.status.stragglers.size()); });
  measured(metrics, jobs, "iteration_time_seconds", "Mean time of the last iterations.",
           [](const JobSample& job) { return job.status.iteration_time.value; });
  measured(metrics, jobs, "predicted_iteration_time_seconds",
           "Iteration time that the current plans predict.",
           [](const JobSample& job) { return job.status.predicted_time.value; });
  measured(metrics, jobs, "all_max_iteration_time_seconds", "Measured iteration time at all-max.",
           [](const JobSample& job) { return job.status.measured_all_max_time.value; });
  write_pace(metrics, jobs);
  each_job(metrics, jobs, "pause_asked", "1 while a pause is requested.",
           [](const JobSample& job) { return job.pace && job.pace->pause ? 1.0 : 0.0; });
  each_job(metrics, jobs, "paused",
           "1 while training pauses: its ranks wait, or have ended until training starts again.",
           [](const JobSample& job) {
             return job.status.pause.is == PauseState::Is::kPaused ? 1.0 : 0.0;
           });
  // The counter starts at 0 when the job is loaded: Prometheus would count a restored sum twice if
  // it were below the last value.
  each_job(metrics, jobs, "energy_joules_total",
           "Energy that the job's ranks have reported since this server loaded the job.",
           [](const JobSample& job) { return job.energy.value; });
  each_job(metrics, jobs, "energies_refused",
           "Reports whose energy no GPU can have used; they count as not measured.",
           [](const JobSample& job) { return double(job.status.energies_refused); });
  // A gauge, because iterations may need more energy than at all-max.
  each_job(metrics, jobs, "energy_saved_joules",
           "Energy saved compared with the same iterations at all-max.",
           [](const JobSample& job) { return job.status.saved.value; });
  each_job(metrics, jobs, "energy_saved_error_joules",
           "Half-width of the 95 % confidence interval of the energy saved.",
           [](const JobSample& job) { return job.status.saved_error.value; });
  measured(metrics, jobs, "time_over_allowed_ratio",
           "Mean time of the newest 100 iterations by plans, divided by the time that the "
           "objective allows.",
           [](const JobSample& job) { return job.status.time_over_allowed; });
  each_job(
      metrics, jobs, "plan_gap_ratio",
      "Largest gap between the energy of a current plan and its proven lower bound.",
      [](const JobSample& job) { return job.gap; },
      [](const JobSample& job) { return job.gap >= 0; });
}

template <class Number>
void one(net::MetricsText& metrics, const std::string& name, const std::string& help,
         Number value) {
  metrics.family("harpe_server_" + name, type_of(name), help);
  metrics.sample(static_cast<double>(value));
}

/// Writes the numbers of jobs, summed over all jobs at each call.
void job_families(net::MetricsText& metrics, const JobRegistry& registry) {
  std::array<std::size_t, kActivePhases.size()> in_phase{};
  std::size_t ranks = 0, listeners = 0, active = 0;
  for (const JobPtr& job : registry.jobs()) {
    listeners += job->listeners.size();
    if (registry.hosting().activities().of(*job) != Activity::kActive) continue;
    ++active;
    ++in_phase[static_cast<std::size_t>(job->job.phase())];
    ranks += static_cast<std::size_t>(job->job.status().ranks_registered);
  }
  metrics.family("harpe_server_jobs", MetricType::kGauge, "Active jobs by phase.");
  for (const JobPhase phase : kActivePhases) {
    metrics.sample(static_cast<double>(in_phase[static_cast<std::size_t>(phase)]),
                   {{"phase", name_of(phase)}});
  }
  metrics.family("harpe_server_jobs_kept", MetricType::kGauge,
                 "All jobs by activity: active, idle or ended.");
  for (const auto& [activity, number] : registry.hosting().activities().count()) {
    metrics.sample(static_cast<double>(number), {{"activity", name_of(activity)}});
  }
  one(metrics, "jobs_in_memory", "Jobs in memory.", registry.hosting().table().loaded().size());
  one(metrics, "jobs_memory_bytes",
      "Estimated memory of these jobs, from their specifications and registered ranks.",
      registry.hosting().table().memory());
  one(metrics, "jobs_without_series",
      "Active jobs beyond the first 1000, which have no series of their own.",
      active - std::min(active, kMostJobMetrics));
  one(metrics, "ranks", "Registered ranks of active jobs.", ranks);
  one(metrics, "listeners", "Clients connected to event streams.", listeners);
}

void planner_families(net::MetricsText& metrics, const JobRegistry& registry) {
  const JobPlanner& planner = registry.planner();
  one(metrics, "characterizations_total", "Frontiers computed.", planner.planned());
  one(metrics, "characterizations_running", "Frontiers that are being computed.",
      planner.running());
  one(metrics, "characterizations_waiting",
      "Jobs that wait for a worker to compute their frontier.", planner.waiting());
  const PlanSearcher& searcher = registry.searcher();
  one(metrics, "plan_searches_running",
      "Running searches for a better plan than the current one of a job.",
      searcher.is_running() ? 1 : 0);
  one(metrics, "plan_searches_waiting", "Jobs that wait for such a search.", searcher.waiting());
  one(metrics, "better_plans_total", "Better plans found by these searches.", searcher.found());
}

void store_families(net::MetricsText& metrics, const JobRegistry& registry) {
  const JobSaver::Counts& counts = registry.hosting().saver().counts();
  one(metrics, "saves_total", "Transactions of the store.", counts.saves);
  one(metrics, "save_failures_total", "Failed transactions of the store.", counts.failures);
  one(metrics, "jobs_refused", "Jobs that the store refuses to save.",
      registry.hosting().saver().refused().size());
  one(metrics, "job_loads_total", "Jobs read from the store.",
      registry.hosting().memory().counts().loads);
  one(metrics, "job_unloads_total", "Idle jobs that have left memory.",
      registry.hosting().memory().counts().unloads);
}

/// The intensity that decisions use now. If no decision is possible, the newest known intensity.
struct ShownIntensity {
  double grams_per_kwh = 0;
  carbon::LadderStep ladder = carbon::LadderStep::kYearlyMean;
  std::optional<carbon::UtcTime> known_since = {};
};

std::optional<ShownIntensity> shown_intensity(const OfferedSource& source, Seconds now) {
  if (!source.reading) return std::nullopt;
  const IntensityReading& reading = *source.reading;
  if (const auto present = present_intensity(reading, now)) {
    return ShownIntensity{
        .grams_per_kwh = present->grams_per_kwh,
        .ladder = present->measured ? carbon::LadderStep::kFresh : carbon::LadderStep::kForecast,
        .known_since = present->known_since};
  }
  const auto known = aged(reading.current, carbon::UtcTime{static_cast<std::int64_t>(now.value)});
  if (!known) return std::nullopt;
  return ShownIntensity{.grams_per_kwh = known->intensity.grams_per_kwh,
                        .ladder = known->ladder,
                        .known_since = known->fetched_at};
}

void carbon_families(net::MetricsText& metrics, const CarbonPacer* pacer, Seconds now) {
  if (pacer == nullptr) return;
  using Value = std::function<std::optional<double>(const OfferedSource&)>;
  const auto each = [&](const std::string& name, const std::string& help, const Value& value) {
    metrics.family("harpe_carbon_" + name, MetricType::kGauge, help);
    for (const OfferedSource& one : pacer->feeds().offered()) {
      const std::optional<double> found = value(one);
      if (!found) continue;
      metrics.sample(*found, {{"source", one.name},
                              {"zone", one.identity.zone},
                              {"kind", std::string(carbon::kind_word(one.identity.kind))}});
    }
  };
  const auto of_shown =
      [now](const std::function<std::optional<double>(const ShownIntensity&)>& of) {
        return [now, of](const OfferedSource& one) -> std::optional<double> {
          const auto shown = shown_intensity(one, now);
          return shown ? of(*shown) : std::nullopt;
        };
      };
  each("intensity_grams_per_kwh",
       "Carbon intensity of the present interval that decisions use; the newest known value if no "
       "decision is possible.",
       of_shown([](const ShownIntensity& shown) { return std::optional(shown.grams_per_kwh); }));
  each("intensity_age_seconds", "Time since this intensity was fetched, or its forecast was made.",
       of_shown([now](const ShownIntensity& shown) -> std::optional<double> {
         if (!shown.known_since) return std::nullopt;
         return now.value - static_cast<double>(shown.known_since->since_1970);
       }));
  each("ladder_step",
       "Basis of this intensity: 0 fresh, 1 last good value, 2 forecast, 3 same hour last week, 4 "
       "yearly mean.",
       of_shown([](const ShownIntensity& shown) {
         return std::optional(static_cast<double>(shown.ladder));
       }));
  each("may_control", "1 if decisions use this source; 0 if its jobs run at a static pace.",
       [now](const OfferedSource& one) {
         const bool may = one.reading && present_intensity(*one.reading, now);
         return std::optional(may ? 1.0 : 0.0);
       });
  each("forecast_step", "Basis of the forecast: 0 provider, 1 own forecast, 2 persistence.",
       [](const OfferedSource& one) -> std::optional<double> {
         if (!one.reading || !one.reading->forecast) return std::nullopt;
         return static_cast<double>(one.reading->forecast->ladder);
       });
  each("read_timestamp_seconds",
       "Unix time of the source's last value; of a file, when it was last read or found unchanged.",
       [](const OfferedSource& one) -> std::optional<double> {
         return one.read_at > Seconds{0} ? std::optional(one.read_at.value) : std::nullopt;
       });
  each("trouble", "1 if the source fails in part, or has not responded for over a minute.",
       [](const OfferedSource& one) {
         const bool fails = one.reading && !one.reading->trouble.empty();
         return std::optional(fails || !one.hangs.empty() ? 1.0 : 0.0);
       });
}

}  // namespace

void handle_server_metrics(ServerContext& context, const net::Reply& reply) {
  JobRegistry& registry = context.registry;
  const RegistryCounts& counts = registry.counts();
  net::MetricsText metrics;
  metrics.family("harpe_server_info", MetricType::kGauge, "The server; always 1.");
  metrics.sample(1, {{"version", context.options.version}});
  one(metrics, "uptime_seconds", "Time since the server started.",
      (registry.clock().now() - context.started).value);
  job_families(metrics, registry);
  one(metrics, "http_requests_total", "HTTP requests.", context.requests);
  metrics.family("harpe_server_http_responses_total", MetricType::kCounter,
                 "HTTP responses by status.");
  for (const auto& [status, number] : context.responses) {
    metrics.sample(static_cast<double>(number), {{"status", std::to_string(status)}});
  }
  one(metrics, "http_rate_limited_total", "Requests refused by the rate limit.",
      context.rate_limited);
  if (context.options.transport) {
    const ServerTransport transport = context.options.transport();
    one(metrics, "http_connections", "Open connections.", transport.connections);
    one(metrics, "http_connections_refused_total",
        "Connections refused because too many were open.", transport.connections_refused);
    one(metrics, "http_buffered_bytes", "Bytes of requests and responses buffered by connections.",
        transport.buffered);
  }
  planner_families(metrics, registry);
  one(metrics, "reports_total", "Iterations reported by ranks.", counts.reports);
  one(metrics, "plan_changes_total", "Changes of a job's assignments.", counts.plan_changes);
  one(metrics, "assignments_delivered_total", "Changed assignments sent to clients.",
      counts.deliveries);
  one(metrics, "assignment_delivery_seconds_total",
      "Sum of the times from decision to sending, over all changed assignments.",
      counts.delivery_seconds);
  one(metrics, "assignment_delivery_seconds_max", "Longest time from decision to sending.",
      counts.slowest_delivery);
  one(metrics, "lease_held",
      "1 if this server may command its jobs; 0 while it cannot reach the shared database.",
      registry.hosting().claims().is_lease_held() ? 1 : 0);
  store_families(metrics, registry);
  carbon_families(metrics, context.options.carbon, registry.time().wall());
  std::vector<JobSample> jobs;
  for (const JobPtr& job : registry.jobs()) {
    if (jobs.size() == kMostJobMetrics) break;
    if (registry.hosting().activities().of(*job) == Activity::kActive)
      jobs.emplace_back(*job, registry.time().wall());
  }
  registry.hosting().readers().run(
      {}, [metrics = std::move(metrics), jobs = std::move(jobs), reply]() mutable {
        write_job_metrics(metrics, jobs);
        return [reply, text = metrics.text()] {
          reply({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = text});
        };
      });
}

}  // namespace harpe::training
