#include "harpe/training/job/job.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string>
#include <utility>

#include "harpe/base/digest.h"
#include "harpe/base/possible_energy.h"
#include "harpe/base/text.h"
#include "harpe/plan/frontier/fixed_time_rows.h"
#include "harpe/training/job/job_state.h"
#include "harpe/training/job/make_plans.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

constexpr Seconds kPatience{300};  // until missing ranks are logged
constexpr std::size_t kPlacesNamed = 8;
constexpr double kSilentIterations = 10;
constexpr int kNotSetReports = 3;  // reports in a row before a warning

std::string list_of(const std::vector<RankCoordinates>& places, std::size_t all) {
  std::string list;
  for (const RankCoordinates coordinates : places)
    list += (list.empty() ? "" : "; ") + text(coordinates);
  if (all > places.size()) list += "; and " + std::to_string(all - places.size()) + " more";
  return list;
}

}  // namespace

const char* name_of(JobPhase phase) {
  constexpr std::array kNames = {"registering", "profiling",  "characterizing",
                                 "running",     "straggling", "observing"};
  return kNames.at(static_cast<std::size_t>(phase));
}

Job::State::State(JobSpec given, Pipeline built, Seconds now)
    : spec(std::move(given)),
      pipeline(std::move(built)),
      work(spec.schedule),
      heard(now),
      ranks(spec.shape, kSilence, !spec.observe),
      collector(spec.shape, work),
      detector(spec.shape),
      drift(spec.shape.stages),
      away(static_cast<std::size_t>(spec.shape.ranks())),
      baseline(spec.shape.stages),
      energy_ratios(static_cast<std::size_t>(spec.shape.stages)),
      created(now),
      taken_up(now) {
  objective = spec.objective;
}

Job::Job(std::unique_ptr<State> state) : state_(std::move(state)) {}
Job::Job(Job&&) noexcept = default;
Job& Job::operator=(Job&&) noexcept = default;
Job::~Job() = default;

Result<Job> Job::create(JobSpec spec, Seconds now, std::string incarnation) {
  HARPE_TRY(validate(spec));
  if (spec.profile) HARPE_TRY(plan::check_fixed_times(*spec.profile, spec.fixed_times));
  Pipeline pipeline = HARPE_TRY(planned_pipeline(spec));
  auto state = std::make_unique<State>(std::move(spec), std::move(pipeline), now);
  state->specification_text = job_spec_json(state->spec);
  state->specification = hexadecimal(fnv1a(state->specification_text));
  state->incarnation = std::move(incarnation);
  state->effects.save = true;
  return Job(std::move(state));
}

JobPhase Job::State::phase_name() const {
  if (asleep) return *asleep;
  if (std::holds_alternative<Profiling>(phase)) return JobPhase::kProfiling;
  if (std::holds_alternative<Characterizing>(phase)) return JobPhase::kCharacterizing;
  if (std::holds_alternative<Observing>(phase)) return JobPhase::kObserving;
  if (const auto* running = std::get_if<Running>(&phase))
    return running->straggling ? JobPhase::kStraggling : JobPhase::kRunning;
  return JobPhase::kRegistering;
}

void Job::State::add_event(JobEvent::Level level, Seconds now, std::string text) {
  effects.events.push_back({.level = level, .at = now, .text = std::move(text)});
}

std::vector<Megahertz> Job::State::highest_clocks() const {
  std::vector<Megahertz> clocks;
  for (int stage = 0; stage < spec.shape.stages; ++stage)
    clocks.push_back(spec.profiling.as_is ? Megahertz{0} : ranks.clocks(stage).front());
  return clocks;
}

/// Notes whether a rank that has the assignments has set their clocks.
void Job::State::note_whether_set(const IterationReport& report, const Deployment* due,
                                  Seconds now) {
  const std::size_t rank = spec.shape.index(report.coordinates);
  if (report.version != 0) {
    if (not_set.erase(rank) > 0 && not_set.empty() && std::exchange(not_set_logged, false)) {
      add_event(JobEvent::Level::kInfo, now, "all ranks set their clocks again");
    }
    return;
  }
  if (due == nullptr || report.known < due->version) return;
  if (++not_set[rank] != kNotSetReports || std::exchange(not_set_logged, true)) return;
  std::string why = report.refusal;
  std::ranges::replace_if(why, [](char c) { return c < ' ' || c > '~'; }, '?');
  if (why.empty()) why = "its agent is absent or refuses them (see the standard error of its rank)";
  add_event(JobEvent::Level::kWarning, now,
            "clocks are not set at stage " + std::to_string(report.coordinates.stage) +
                " of pipeline " + std::to_string(report.coordinates.data) + ": " + why +
                "; such iterations are not used");
}

int Job::State::ranks_not_set() const {
  return static_cast<int>(std::ranges::count_if(
      not_set, [](const auto& rank) { return rank.second >= kNotSetReports; }));
}

/// Sets energies that no GPU can have used to NaN, as if they had not been measured.
/// \returns  the reason; empty if all energies are possible
std::string Job::State::drop_impossible_energies(IterationReport& report) const {
  const Watts limit = ranks.holder(report.coordinates).power_limit;
  const Watts most = limit > Watts{0} ? limit * kMostOverLimit : kMostGpuPower;
  const Joules unknown{std::numeric_limits<double>::quiet_NaN()};
  std::string why = why_impossible(report.energy, report.energy_error, report.time, most);
  if (!why.empty()) {
    why = "energy of the iteration: " + why;
    report.energy = unknown;
  }
  for (InstructionTotals& totals : report.instructions) {
    const std::string of_these =
        why_impossible(totals.energy, totals.energy_error, totals.time, most);
    if (of_these.empty()) continue;
    totals.energy = unknown;
    if (why.empty()) why = "energy of " + std::string(name(totals.kind)) + ": " + of_these;
  }
  return why;
}

Result<ReportTaken> Job::report(const IterationReport& sent, Seconds now) {
  State& s = *state_;
  IterationReport report = sent;
  s.newest_event = now;
  if (!report.incarnation.empty() && report.incarnation != s.incarnation) {
    ++s.reports_refused;
    return Error::of(ErrorCode::kConflict,
                     "the job was removed and created again after this rank registered: the "
                     "rank must register again");
  }
  const Seconds heard_before =
      s.spec.shape.holds(report.coordinates) ? s.ranks.holder(report.coordinates).heard : now;
  Status heard = s.ranks.hear(report.coordinates, report.session, now);
  if (!heard.ok()) {
    ++s.reports_refused;
    return heard.error();
  }
  s.note_silence(report, now - heard_before);
  hear(now);
  const ReportTaken taken{.energy_refused = s.drop_impossible_energies(report)};
  const std::int64_t newest = s.collector.newest();
  const Result<IterationCollector::Added> added = s.collector.add(report);
  if (!added.ok()) {
    ++s.reports_refused;
    return added.error();
  }
  ++s.reports;
  if (!added->used) ++s.reports_unused;
  if (added->used && !taken.energy_refused.empty()) {
    ++s.energies_refused;
    s.refuse(text(report.coordinates), taken.energy_refused, now, true);
  }
  // Negative energies are possible within their error. They are left out, so the sum never falls.
  if (added->used && report.energy > Joules{0}) s.reported_energy += report.energy;
  if (added->used) {
    s.effects.used.push_back({.at = now,
                              .time = report.time,
                              .energy = report.energy,
                              .energy_error = report.energy_error});
  }
  if (s.collector.newest() != newest) s.note_newest(report, now);
  if (std::holds_alternative<Registering>(s.phase)) {
    s.collector.take_finished();  // iterations without all ranks are not used
    return taken;
  }
  if (added->moved) {
    s.void_pause();
    s.detector.counted_anew();
    s.end_settling();
  }
  if (added->moved || (s.redeploy && added->used)) s.deploy_again();
  const Deployment* due = s.in_force(report.iteration);
  if (added->used && due != nullptr) s.note_delivery(report, *due);
  s.note_whether_set(report, due, now);
  s.follow_pause(report, now);
  for (const FinishedIteration& iteration : s.collector.take_finished()) s.finish(iteration, now);
  return taken;
}

Status Job::end_rank(const RankEnd& end, Seconds now) {
  State& s = *state_;
  s.newest_event = now;
  HARPE_TRY(s.ranks.end(end.coordinates, end.session));
  hear(now);
  s.effects.save = true;
  if (!s.ranks.all_ended() || s.ended) return ok_status();
  if (s.ended_to_pause()) s.note_paused(now);
  if (s.ended_to_pause() || s.holds_pause()) return ok_status();
  s.ended = now;
  s.add_event(JobEvent::Level::kInfo, now, "all ranks have ended");
  return ok_status();
}

void Job::hear(Seconds now) {
  state_->heard = std::max(state_->heard, now);
}

Status Job::set_straggler(const plan::Straggler& straggler, Seconds now) {
  State& s = *state_;
  s.newest_event = now;
  HARPE_TRY(s.check_sets_clocks());
  if (straggler.pipeline < 0 || straggler.pipeline >= s.spec.shape.data) {
    return Error::of(ErrorCode::kNotFound, "the job has no pipeline " +
                                               std::to_string(straggler.pipeline) + ", only 0 to " +
                                               std::to_string(s.spec.shape.data - 1));
  }
  if (!(straggler.factor >= 1) || straggler.factor > plan::kMostStragglerFactor) {
    return Error::invalid(
        "a straggler's factor is its iteration time over that of a healthy "
        "pipeline: from 1 (healthy) to " +
        shortest(plan::kMostStragglerFactor));
  }
  if (straggler.until && *straggler.until <= now) {
    return Error::invalid("the end of the straggler is past: \"until\" is in seconds since 1970");
  }
  if (straggler.factor == 1) return clear_straggler(straggler.pipeline, now);
  const auto known =
      std::ranges::find(s.declared_stragglers, straggler.pipeline, &plan::Straggler::pipeline);
  plan::Straggler declared = straggler;
  declared.detected = false;
  if (known != s.declared_stragglers.end()) {
    if (*known == declared) return ok_status();
    *known = declared;
  } else {
    s.declared_stragglers.push_back(declared);
  }
  s.declare(declared);
  s.effects.save = true;
  s.deploy_choice(now, "pipeline " + std::to_string(declared.pipeline) + " is declared to be " +
                           shortest(declared.factor) + " times slower");
  return ok_status();
}

Status Job::clear_straggler(int pipeline, Seconds now) {
  State& s = *state_;
  s.newest_event = now;
  if (pipeline < 0 || pipeline >= s.spec.shape.data) {
    return Error::of(ErrorCode::kNotFound, "the job has no pipeline " + std::to_string(pipeline));
  }
  const auto same = [&](const plan::Straggler& one) { return one.pipeline == pipeline; };
  if (std::erase_if(s.declared_stragglers, same) == 0 && s.watched(pipeline) == nullptr)
    return ok_status();
  s.withdraw(pipeline);
  s.effects.save = true;
  s.deploy_choice(now, "pipeline " + std::to_string(pipeline) + " is declared to be healthy");
  return ok_status();
}

Status Job::set_objective(const Objective& objective, Seconds now) {
  State& s = *state_;
  s.newest_event = now;
  HARPE_TRY(s.check_sets_clocks());
  if (!is_valid(objective)) return Error::invalid("the objective's value is out of range");
  if (s.plans) {
    HARPE_TRY(plan::check_objective(*s.plans, objective, s.overhead(), s.spec.shape.data));
  }
  if (objective == s.objective && !s.retry_at) return ok_status();
  s.objective = objective;
  if (s.plans) s.retry_at.reset();
  s.rollbacks = 0;
  s.guard.reset();
  s.effects.save = true;
  s.add_event(JobEvent::Level::kInfo, now, "the objective is now: " + text_of(objective));
  s.deploy_choice(now, "the objective has changed");
  return ok_status();
}

void Job::characterized(std::uint64_t ticket, Result<plan::PlanTable> plans, Seconds now,
                        bool better_follow) {
  State& s = *state_;
  s.newest_event = now;
  if (const auto own = std::ranges::find(s.watched_pipelines, ticket, &WatchedPipeline::own_ticket);
      ticket != 0 && own != s.watched_pipelines.end()) {
    return s.take_own_plans(*own, std::move(plans), now);
  }
  if (s.observing() != nullptr) return s.take_estimate(ticket, plans);
  if (ticket != 0 && ticket == s.objective_ticket)
    return s.take_objective_plan(std::move(plans), now);
  if (ticket != s.plans_ticket || !s.plans_due) return;
  const bool first = std::holds_alternative<Characterizing>(s.phase);
  if (!first && better_follow) return;  // not better than the plans from before a restart
  s.effects.save = true;
  s.plans_due = plans.ok() && better_follow;
  if (!first) {
    if (plans.ok()) s.improve_plans(std::move(*plans), now);
    return;
  }
  if (plans.ok()) return s.take_plans(std::move(*plans), now);
  s.phase = Running{};
  s.add_event(
      JobEvent::Level::kWarning, now,
      "plans cannot be computed, so training continues at all-max: " + plans.error().text());
}

void Job::tick(Seconds now) {
  State& s = *state_;
  s.newest_event = now;
  s.forget_gatherings(now);
  const auto over = [&](const plan::Straggler& one) { return one.until && *one.until <= now; };
  for (const plan::Straggler& one : s.declared_stragglers)
    if (over(one)) s.withdraw(one.pipeline);
  if (std::erase_if(s.declared_stragglers, over) > 0) {
    s.effects.save = true;
    s.deploy_choice(now, "the declared end of a straggler has passed");
  }
  if (s.ended_to_pause()) hear(now);  // a job in a pause has not ended, however long the pause is
  if (s.ended || s.ranks.all_ended()) return;
  if (auto* registering = std::get_if<Registering>(&s.phase)) {
    if (now - s.created < kPatience || std::exchange(registering->missing_logged, true)) return;
    const int missing = s.spec.shape.ranks() - s.ranks.registered();
    s.add_event(JobEvent::Level::kWarning, now,
                std::to_string(missing) + " of " + std::to_string(s.spec.shape.ranks()) +
                    " ranks have not registered: " +
                    list_of(s.ranks.missing(kPlacesNamed), static_cast<std::size_t>(missing)));
    return;
  }
  if (s.collector.newest() < 0) return;
  const Seconds patience = std::max(kSilence, s.iteration_time * kSilentIterations);
  const std::vector<RankCoordinates> silent = s.ranks.silent(now - patience, kPlacesNamed);
  if (silent.empty()) {
    s.silence_logged = false;
    return;
  }
  if (std::exchange(s.silence_logged, true)) return;
  s.add_event(JobEvent::Level::kWarning, now,
              "no reports for " + std::to_string(static_cast<int>(patience.value)) + " s from " +
                  list_of(silent, silent.size()));
  // Without reports it is not known if detected stragglers are still slow.
  const std::size_t undeclared = std::erase_if(
      s.watched_pipelines, [](const WatchedPipeline& one) { return one.declared == 1; });
  if (undeclared == 0) return;
  s.detector.reset();
  s.deploy_choice(now, "reports are missing, so no pipeline waits for detected stragglers");
}

JobEffects Job::take_effects() {
  return std::exchange(state_->effects, {});
}

// Accessors.

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
  static_cast<JobFigures&>(status) = static_cast<const JobFigures&>(s);
  status.phase = s.phase_name();
  status.ranks_registered = s.ranks.registered();
  status.ranks_not_set = s.ranks_not_set();
  status.newest_iteration = s.newest_iteration();
  status.version = version();
  status.pause = s.pause_state();
  const std::optional<Profile>& known = s.profile ? s.profile : s.spec.profile;
  status.synthetic = s.ranks.has_simulated() || (known && known->is_synthetic());
  status.stragglers = s.all_stragglers();
  status.random = s.detector.random();
  status.rolled_back_until = s.retry_at;
  status.measured_all_max_time = s.baseline.time();
  status.measured_all_max_energy = s.baseline.has_energy() ? s.baseline.energy() : Joules{0};
  status.all_max_time = s.all_max_time();
  if (const auto over = s.guard.mean(100)) status.time_over_allowed = over->ratio;
  status.stalls = s.guard.stalls();
  status.saved = s.savings.saved();
  status.energy = s.reported_energy;
  status.saved_error = s.savings.error();
  status.refused = s.refusals;
  status.slow_stages.assign(s.detector.stages().begin(), s.detector.stages().end());
  status.slow_workers.assign(s.detector.workers().begin(), s.detector.workers().end());
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
