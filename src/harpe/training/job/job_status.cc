// What others may know of a job.

#include <cmath>
#include <utility>

#include "harpe/training/job/job_state.h"

namespace harpe::training {

bool Job::asleep() const {
  return state_->asleep.has_value();
}

Seconds Job::heard() const {
  return state_->heard;
}

std::optional<Seconds> Job::ended() const {
  return state_->ended;
}

std::shared_ptr<const plan::PlanTable> Job::shared_plans() const {
  return state_->plans;
}

Result<PlanInForce> Job::plan_in_force(int pipeline) const {
  const State& s = *state_;
  if (pipeline < 0 || pipeline >= s.spec.shape.data) {
    return Error::of(ErrorCode::kNotFound,
                     "the job has pipelines 0 to " + std::to_string(s.spec.shape.data - 1));
  }
  if (!s.plans || s.deployments.empty() ||
      s.deployments.back().purpose == StageAssignment::Purpose::kProfile) {
    return Error::of(ErrorCode::kNotFound,
                     std::string("the job has no plan yet: it is ") + name_of(s.phase_name()));
  }
  const Deployment& newest = s.deployments.back();
  PlanInForce found{.made_from = s.plans_request(),
                    .clocks = s.plans->all_max().clocks,
                    .knobs = s.plans->all_max().knobs};
  if (newest.purpose == StageAssignment::Purpose::kAllMax) return found;
  found.clocks = newest.plan(pipeline).clocks;
  found.knobs = newest.plan(pipeline).knobs;
  found.wait_until = newest.choice.wait_until;
  if (newest.choice.plan_of[static_cast<std::size_t>(pipeline)].from == plan::PlanRef::From::kOwn)
    if (const WatchedPipeline* one = s.watched(pipeline))
      found.made_from = s.own_plans_request(*one);
  return found;
}

CharacterizeRequest Job::characterize_request() const {
  return state_->plans_request();
}

const JobSpec& Job::spec() const {
  return state_->spec;
}

JobPhase Job::phase() const {
  return state_->phase_name();
}

std::uint64_t Job::version() const {
  if (state_->asleep) return state_->version;
  return state_->deployments.empty() ? 0 : state_->deployments.back().version;
}

std::int64_t Job::newest_iteration() const {
  return state_->newest_iteration();
}

Seconds Job::overhead() const {
  return state_->overhead();
}

const plan::PlanTable* Job::plans() const {
  return state_->plans.get();
}

Profile Job::profile() const {
  if (state_->profiling() != nullptr) return state_->measured_profile();
  return state_->profile.value_or(Profile());
}

std::vector<RankCoordinates> Job::missing(std::size_t most) const {
  return state_->ranks.missing(most);
}

int Job::unheard(Seconds now) const {
  return state_->ranks.unheard(std::max(now - kUnheard, state_->taken_up));
}

const std::string& Job::specification() const {
  return state_->specification;
}

const std::string& Job::specification_text() const {
  return state_->specification_text;
}

const std::string& Job::incarnation() const {
  return state_->incarnation;
}

int Job::registered() const {
  return state_->ranks.registered();
}

std::uint64_t Job::start() const {
  return state_->start;
}

const std::string& Job::run() const {
  return state_->ranks.run();
}

const std::string& Job::session(RankCoordinates coordinates) const {
  static const std::string kNone;
  const RankBook::Holder& holder = state_->ranks.holder(coordinates);
  return holder.ended ? kNone : holder.session;
}

std::vector<StageAssignment> Job::assignments(int pipeline, int stage) const {
  std::vector<StageAssignment> assignments;
  for (const Deployment& deployment : state_->deployments)
    assignments.push_back(state_->assignments(deployment, pipeline, stage));
  return assignments;
}

std::vector<PipelineState> Job::pipelines() const {
  const State& s = *state_;
  std::vector<PipelineState> states(static_cast<std::size_t>(s.spec.shape.data));
  for (int pipeline = 0; pipeline < s.spec.shape.data; ++pipeline)
    states[pipeline].pipeline = pipeline;
  for (const plan::Straggler& straggler : s.all_stragglers())
    states[straggler.pipeline].factor = straggler.factor;
  if (s.deployments.empty() || s.deployments.back().purpose != StageAssignment::Purpose::kPlan)
    return states;
  const Deployment& newest = s.deployments.back();
  const bool has_objective_plan = s.has_objective_plan();
  for (PipelineState& state : states) {
    state.planned = true;
    state.plan = newest.choice.plan_of[state.pipeline];
    const plan::TablePlan& plan = newest.plan(state.pipeline);
    state.time = plan.time;
    state.energy = plan.energy;
    state.gap = plan.gap;
    state.for_objective = plan.for_objective && has_objective_plan;
  }
  return states;
}

JobStatus Job::status() const {
  const State& s = *state_;
  JobStatus status;
  status.phase = s.phase_name();
  status.ranks_registered = s.ranks.registered();
  status.ranks_not_set = s.ranks_not_set();
  status.newest_iteration = s.newest_iteration();
  status.version = version();
  status.objective = s.objective;
  status.pause = s.pause_state();
  const std::optional<Profile>& known = s.profile ? s.profile : s.spec.profile;
  status.synthetic = s.ranks.has_simulated() || (known && known->is_synthetic());
  status.stragglers = s.all_stragglers();
  status.random = s.detector.random();
  status.rolled_back_until = s.retry_at;
  status.iteration_time = s.iteration_time;
  status.measured_all_max_time = s.baseline.time();
  status.measured_all_max_energy = s.baseline.has_energy() ? s.baseline.energy() : Joules{0};
  status.all_max_time = s.all_max_time();
  if (const auto over = s.guard.mean(100)) status.time_over_allowed = over->ratio;
  status.stalls = s.guard.stalls();
  status.reserve = s.reserve;
  status.saved = s.savings.saved();
  status.energy = s.reported_energy;
  status.saved_error = s.savings.error();
  status.reports = s.reports;
  status.reports_unused = s.reports_unused;
  status.reports_refused = s.reports_refused;
  status.energies_refused = s.energies_refused;
  status.assignments_late = s.assignments_late;
  status.refused = s.refusals;
  status.slow_stages.assign(s.detector.stages().begin(), s.detector.stages().end());
  status.slow_workers.assign(s.detector.workers().begin(), s.detector.workers().end());
  status.blocking_power = s.blocking_power;
  if (s.spec.observe) status.observed.emplace();
  if (const Observing* now = s.observing())
    status.observed = now->observation.summary(now->estimate);
  if (const Profiling* now = s.profiling()) {
    status.profiling = now->profiler.progress(s.lead_after(Seconds{0}));
    status.blocking_power = now->profiler.blocking_power();
  }
  if (!s.deployments.empty() && s.deployments.back().purpose == StageAssignment::Purpose::kPlan) {
    const Deployment& newest = s.deployments.back();
    status.predicted_time = s.predicted_time(newest);
    if (status.phase == JobPhase::kStraggling) status.wait_until = newest.choice.wait_until;
  }
  return status;
}

}  // namespace harpe::training
