#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/plan/frontier/fixed_time_rows.h"
#include "harpe/plan/frontier/priced_parts.h"
#include "harpe/plan/profile/chunks.h"
#include "harpe/training/job/job_state.h"
#include "harpe/training/job/search_course.h"

namespace harpe::training {
namespace {

/// Returns the GPU of each stage, or the reason why a saving cannot be estimated.
Result<std::vector<ObservedGpu>> observed_gpus(const RankBook& ranks) {
  const JobShape& shape = ranks.shape();
  std::vector<ObservedGpu> gpus(static_cast<std::size_t>(shape.stages));
  const std::string* name = nullptr;
  const GpuModel* model = nullptr;  // of that name
  for (int data = 0; data < shape.data; ++data)
    for (int stage = 0; stage < shape.stages; ++stage)
      for (int tensor = 0; tensor < shape.tensor; ++tensor) {
        const RankBook::Holder& rank = ranks.holder({data, stage, tensor});
        if (name == nullptr || *name != rank.gpu) model = model_of_gpu(rank.gpu);
        name = &rank.gpu;
        ObservedGpu& gpu = gpus[static_cast<std::size_t>(stage)];
        if (model == nullptr) {
          return Error::of(ErrorCode::kNotFound,
                           rank.gpu.empty() ? "the GPU of a rank cannot be read"
                                            : "there is no model of " + in_quotes(rank.gpu, 64));
        }
        if (gpu.model != nullptr && gpu.model != model) {
          return Error::of(ErrorCode::kNotFound, "the GPUs of stage " + std::to_string(stage) +
                                                     " are of different models");
        }
        gpu = {.model = model, .power_limit = rank.power_limit};
      }
  return gpus;
}

/// Returns the points of an instruction at clocks that the GPUs of its stage have.
std::vector<OperatingPoint> points_left(const InstructionProfile& entry, const RankBook& ranks) {
  if (is_fixed_time(entry.kind)) return entry.points;
  const std::vector<Megahertz>& clocks = ranks.clocks(entry.stage);
  std::vector<OperatingPoint> left;
  for (const OperatingPoint& point : entry.points) {
    if (point.clock == Megahertz{0} || std::ranges::find(clocks, point.clock) != clocks.end())
      left.push_back(point);
  }
  return left;
}

/// Returns the profile without the clocks that GPUs do not have.
Profile at_clocks(const Profile& profile, const RankBook& ranks) {
  std::vector<InstructionProfile> entries;
  for (InstructionProfile entry : profile.entries()) {
    entry.points = points_left(entry, ranks);
    entries.push_back(std::move(entry));
  }
  return profile.with_entries(std::move(entries));
}

constexpr std::int64_t kFirstProbe = 100;   // iterations after new plans
constexpr std::size_t kFewestAtAllMax = 3;  // with fewer iterations, a probe begins with the plans

Megahertz highest(const std::vector<OperatingPoint>& points) {
  return std::ranges::max(points, {}, &OperatingPoint::clock).clock;
}

}  // namespace

/// Returns the clocks that all GPUs of each stage have.
std::vector<std::vector<Megahertz>> Job::State::clocks() const {
  std::vector<std::vector<Megahertz>> lists;
  for (int stage = 0; stage < spec.shape.stages; ++stage) lists.push_back(ranks.clocks(stage));
  return lists;
}

/// Begins to measure stages.
/// \param stages  stages to measure; all if empty
void Job::State::start_profiling(const std::vector<int>& stages, Seconds now,
                                 const std::string& why) {
  std::vector<std::vector<MeasuredClock>> known = measured;
  known.resize(static_cast<std::size_t>(spec.shape.stages));
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    const bool again = stages.empty() || std::ranges::find(stages, stage) != stages.end();
    if (again) known[stage].clear();
  }
  phase.emplace<Profiling>(
      Profiler(spec.shape, work, clocks(), spec.profiling, spec.blocking_power, std::move(known)));
  profiling_began = std::max(std::int64_t{0}, collector.newest());
  plans_due = false;
  retry_at.reset();
  findings.clear();
  faster_from = 0;
  unheld.clear();
  std::erase_if(watched_pipelines, [](const auto& one) { return one.declared == 1; });
  forget_all_max();
  detector.reset();
  refresh_factors();
  drift.reset();
  std::string text = "profiling ";
  text += stages.empty() ? "all stages" : "stage " + std::to_string(stages.front());
  if (stages.size() > 1) text += " and " + std::to_string(stages.size() - 1) + " more";
  add_event(JobEvent::Level::kInfo, now, text + ": " + why);
  deploy_profile();
}

void Job::State::resume_profiling(Profiler::Kept kept, Seconds now, const std::string& why) {
  Profiler profiler(spec.shape, work, clocks(), spec.profiling, spec.blocking_power);
  profiler.restore(std::move(kept));
  phase.emplace<Profiling>(std::move(profiler));
  if (profiling()->profiler.done()) return end_profiling(now);
  add_event(JobEvent::Level::kInfo, now, "profiling continues: " + why);
  deploy_profile();
}

/// Returns the measurements so far; nullopt if no profiling is running or interrupted.
std::optional<Profiler::Kept> Job::State::kept_profiling() const {
  if (const Profiling* now = profiling()) return now->profiler.kept();
  const auto* registering = std::get_if<Registering>(&phase);
  return registering == nullptr ? std::nullopt : registering->interrupted;
}

void Job::State::end_profiling(Seconds now) {
  const Profiler& profiler = profiling()->profiler;
  const double slowdown = std::max(0.0, profiler.progress(lead()).slowdown);
  add_event(JobEvent::Level::kInfo, now,
            "profiling is done; it slowed training by " + shortest(slowdown * 100, 1) + " %");
  measured = profiler.measured();
  highest_measured = highest_clocks();
  last_profiling = std::max(std::int64_t{0}, collector.newest());
  request_plans(measured_profile(), profiler.blocking_power(), now);
}

/// Returns the profile that has been measured so far.
Profile Job::State::measured_profile() const {
  Profile found = profiling()->profiler.profile();
  if (ranks.has_simulated()) found.mark_synthetic();
  return found;
}

/// Returns true if profiling has taken at most a twentieth of the iterations. Profiling after a
/// change of clocks is not limited.
bool Job::State::may_profile() const {
  constexpr std::int64_t kShare = 20;
  return collector.newest() - last_profiling >= kShare * (last_profiling - profiling_began);
}

/// Returns the stages for which no good plan can be made: the GPUs have none of the profile's
/// clocks or have higher ones, or lost the highest clock that was measured but still have a higher
/// one than those left.
std::vector<int> Job::State::stages_to_measure(const Profile& known) const {
  std::vector<int> stages;
  for (const InstructionProfile& entry : known.entries()) {
    if (is_fixed_time(entry.kind) || (!stages.empty() && stages.back() == entry.stage)) continue;
    const std::vector<OperatingPoint> left = points_left(entry, ranks);
    const Megahertz fastest = ranks.clocks(entry.stage).front();
    const bool is_measured = !measured.empty() && !measured[entry.stage].empty();
    // A clock above the profile's was tried if the GPUs had it while they were measured.
    const Megahertz tried = is_measured && !highest_measured.empty() ? highest_measured[entry.stage]
                                                                     : highest(entry.points);
    if (left.empty() || fastest > std::max(tried, highest(entry.points)) ||
        (is_measured && highest(left) < std::min(highest(entry.points), fastest))) {
      stages.push_back(entry.stage);
    }
  }
  return stages;
}

/// Returns true if the plans may use clocks that the GPUs do not have.
bool Job::State::loses_clocks() const {
  return profile && std::ranges::any_of(profile->entries(), [&](const auto& entry) {
           return points_left(entry, ranks).size() < entry.points.size();
         });
}

/// Returns the client that will request the clocks of plans. If only some ranks ask ahead, plans
/// count the whole latency.
plan::ClockClient Job::State::clock_client() const {
  const bool is_late = spec.switch_latency.longest() > Seconds{0};
  return is_late && ranks.registered() > 0 && ranks.asks_ahead() ? plan::ClockClient::kHarpe
                                                                 : plan::ClockClient::kAny;
}

/// Requests other plans if clocks are requested by another client than the plans were made for.
/// \returns  true if other plans were requested
bool Job::State::fit_to_client(Seconds now) {
  if (spec.observe || profiling() != nullptr || !profile || (!plans && !plans_due)) return false;
  if (plans_for == clock_client()) return false;
  const bool is_late = plans_for == plan::ClockClient::kHarpe;
  plan_anew(is_late ? JobEvent::Level::kWarning : JobEvent::Level::kInfo, now,
            is_late
                ? "not all ranks request clocks ahead of time: the whole switch_latency_s applies"
                : "all ranks request clocks ahead of time: less of switch_latency_s applies");
  return true;
}

void Job::State::plan_anew(JobEvent::Level level, Seconds now, const std::string& why) {
  add_event(level, now, why + ", so new plans are computed");
  plans.reset();
  forget_all_max();
  request_plans(*profile, blocking_power, now);
}

/// Responds to GPUs of a stage that have fewer clocks in common than before.
void Job::State::fit_to_clocks(Seconds now) {
  // Assignments in force are dropped so that they are not sent to GPUs that lack their clocks.
  if (profiling() != nullptr) {
    deployments.clear();
    return resume_profiling(*kept_profiling(), now, "GPUs support other clocks than before");
  }
  if (loses_clocks()) {
    deployments.clear();
    return plan_anew(JobEvent::Level::kWarning, now, "GPUs do not support all clocks of the plans");
  }
  const Deployment& newest = deployments.back();
  if (newest.purpose == StageAssignment::Purpose::kAllMax &&
      newest.stage_clocks != highest_clocks()) {
    deploy_all_max();
  }
}

/// Sets the profile with which iterations are compared.
void Job::State::take_profile(const Profile& from, std::vector<Watts> waiting) {
  blocking_power = std::move(waiting);
  profile = plan::with_fixed_time_rows(from, pipeline.schedule(), spec.fixed_times, blocking_power);
  times.emplace(pipeline, *profile);
  usual_time = times->at_all_max();
  const auto stages = static_cast<std::size_t>(spec.shape.stages);
  highest_known.assign(stages, Megahertz{0});
  fastest_time.assign(stages, Seconds{0});
  fastest_energy.assign(stages, Joules{0});
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    for (const plan::WorkItem& item : work.stage(stage)) {
      const auto points = profile->points(stage, item.chunk, item.kind);
      if (points.empty()) continue;
      const OperatingPoint& all_max = all_max_point(points);
      highest_known[stage] = std::max(highest_known[stage], all_max.clock);
      fastest_time[stage] += all_max.time * item.count;
      fastest_energy[stage] += all_max.energy * item.count;
    }
  }
  for (auto& ratios : energy_ratios) ratios.clear();
  for (WatchedPipeline& one : watched_pipelines) one.own_ticket = 0;
  // Iterations by plans from another profile are not compared with this one.
  judged_from = version + 1;
}

void Job::State::request_plans(const Profile& from, std::vector<Watts> waiting, Seconds now) {
  const std::vector<int> stages =
      spec.profiling.as_is ? std::vector<int>() : stages_to_measure(from);
  if (!stages.empty()) {
    return start_profiling(measured.empty() ? std::vector<int>() : stages, now,
                           "GPUs of stage " + std::to_string(stages.front()) +
                               " do not support the clocks of its profile");
  }
  take_profile(at_clocks(from, ranks), std::move(waiting));
  phase = Characterizing{};
  ask_for_plans();
  deploy_all_max();
}

void Job::State::ask_for_plans() {
  plans_due = true;
  plans_for = clock_client();
  plans_ticket = ++ticket;
  objective_ticket = 0;
  effects.characterize = plans_request();
}

/// Returns the request for the plans of the job, with their newest ticket.
CharacterizeRequest Job::State::plans_request() const {
  return {.ticket = plans_ticket,
          .profile = profile.value_or(Profile()),
          .blocking_power = blocking_power,
          .objective = plan::of_one_pipeline(aim(), overhead(), spec.shape.data),
          .reserve = reserve,
          .client = plans_for,
          .learned_latency = late_clocks.learned()};
}

void Job::State::request_given_profile(Seconds now) {
  if (!spec.blocking_power) {
    add_event(
        JobEvent::Level::kWarning, now,
        "the profile has no blocking power: 0 W is assumed, so plans for stragglers are faster "
        "than necessary");
  }
  const Schedule& schedule = pipeline.schedule();
  const Profile fitting = plan::with_chunks(*spec.profile, schedule.chunks(), schedule.copies);
  if (const auto note = plan::note_on_chunks(*spec.profile, schedule.chunks(), schedule.copies))
    add_event(JobEvent::Level::kWarning, now, *note);
  for (const std::string& note : plan::unused_rows(schedule, fitting))
    add_event(JobEvent::Level::kWarning, now, note);
  // The ranks run a whole backward as one instruction, at one clock.
  request_plans(plan::with_rows_of_wholes(schedule, fitting),
                spec.blocking_power.value_or(Watts{0}).each(spec.shape.stages), now);
}

/// Returns true if the table's plans have a clock for each instruction of the schedule.
bool Job::State::fits(const plan::PlanTable& table) const {
  const auto& lists = pipeline.schedule().lists;
  const auto& of_stages = table.all_max().clocks;
  return std::ranges::equal(
      of_stages, lists, {}, [](const auto& list) { return list.size(); },
      [](const auto& list) { return list.size(); });
}

void Job::State::take_plans(plan::PlanTable table, Seconds now) {
  phase = Running{};
  if (!fits(table)) {
    plans_due = false;
    return add_event(
        JobEvent::Level::kWarning, now,
        "the profile lacks a combined instruction of the schedule, so the plan has another list of "
        "instructions: training continues at all-max");
  }
  plans = std::make_shared<const plan::PlanTable>(std::move(table));
  search_ticket = ++ticket;
  effects.plans = effects.save = true;
  baseline.explain([&](std::span<const Seconds> computing) { return explained_by(computing); });
  retry_at.reset();
  const std::int64_t newest = std::max(std::int64_t{0}, collector.newest());
  probe_pause = 0;
  next_probe = newest + kFirstProbe;
  calm_since = newest;
  for (const plan::Straggler& one : declared_stragglers) watch(one.pipeline).declared = one.factor;
  for (WatchedPipeline& one : watched_pipelines) {
    one.own_failed = false;
    one.slow.own.reset();
    one.slow.settled = false;
    one.slow.fastest = {};
    measure(one);
  }
  if (Status possible = plan::check_objective(*plans, objective, overhead(), spec.shape.data);
      !possible.ok()) {
    add_event(JobEvent::Level::kWarning, now,
              possible.error().text() + ": the nearest plan is used");
  }
  deploy_choice(now, std::to_string(plans->plans().size()) + " plans are ready");
  if (baseline.iterations() < kFewestAtAllMax) begin_probe(false, now, {});
}

/// Replaces the plans by another table of the same profile, which is nowhere worse.
void Job::State::improve_plans(plan::PlanTable table, Seconds now) {
  if (!plans || !fits(table)) return;
  plans = std::make_shared<const plan::PlanTable>(std::move(table));
  search_ticket = ++ticket;
  effects.plans = effects.save = true;
  deploy_choice(now, "better plans are ready");
}

/// Returns true if one of `plans` was made for the objective. A deadline includes the overhead,
/// which changes a little with every iteration.
bool Job::State::has_objective_plan() const {
  constexpr double kSameTime = 0.005;  // relative
  if (!plans || !plans->objective()) return false;
  const Objective wanted = plan::of_one_pipeline(aim(), overhead(), spec.shape.data);
  const Objective& made = *plans->objective();
  if (made == wanted) return true;
  return objective_asked == aim() && made.kind == wanted.kind &&
         std::abs(made.value / wanted.value - 1) < kSameTime;
}

/// Requests a plan for exactly this objective, because a table has only some plans of the frontier.
void Job::State::ask_for_objective_plan() {
  if (plans_due || objective_ticket != 0 || has_objective_plan()) return;
  objective_asked = aim();
  CharacterizeRequest request = plans_request();
  objective_ticket = request.ticket = ++ticket;
  request.only_objective = true;
  effects.more_plans.push_back(std::move(request));
}

void Job::State::take_objective_plan(Result<plan::PlanTable> table, Seconds now) {
  objective_ticket = 0;
  if (!plans || !table.ok() || !fits(*table)) return;
  plans = std::make_shared<const plan::PlanTable>(plan::PlanTable::merged(*plans, *table));
  search_ticket = ++ticket;
  effects.plans = effects.save = true;
  deploy_choice(now, pace ? "" : "the plan for its objective is ready");
}

// A better plan for the objective, found in the background while the job trains.

/// Returns true if the plan for exactly the objective is in force, or soon is again, and may not be
/// the best. Plans for stragglers are temporary, and under a minimum dwell there is no search.
bool Job::State::may_search() const {
  if (running() == nullptr || running()->straggling || retry_at || ended) return false;
  if (plans_due || objective_ticket != 0 || spec.min_dwell > Seconds{0}) return false;
  return has_objective_plan() && plans->for_objective().has_value();
}

std::uint64_t Job::search_ticket() const {
  return state_->may_search() ? state_->search_ticket : 0;
}

CharacterizeRequest Job::search_request() const {
  CharacterizeRequest request = state_->plans_request();
  request.ticket = state_->search_ticket;
  // The objective of the existing plan: that of the job has changed since, with the overhead.
  if (state_->plans) request.objective = state_->plans->objective();
  request.only_objective = true;
  return request;
}

bool Job::found_better(std::uint64_t ticket, std::shared_ptr<const plan::PlanTable> better,
                       Seconds now) {
  State& s = *state_;
  s.newest_event = now;
  if (ticket == 0 || ticket != search_ticket() || !s.fits(*better)) return false;
  const double gain = plan::objective_gain(*s.plans, *better);
  if (gain < SearchCourse::kWorthwhile) return false;
  s.plans = std::move(better);
  s.effects.plans = s.effects.save = true;
  s.deploy_choice(now, "found by a longer search; it needs " + shortest(gain * 100, 3) +
                           " % less energy than the plan before");
  return true;
}

// Jobs that are only observed: no clock is set, and plans are made only to estimate their savings.

Status Job::State::check_sets_clocks() const {
  if (!spec.observe) return ok_status();
  return Error::invalid(
      "the job is only observed (HARPE_OBSERVE, or \"observe\" of its specification): "
      "nothing is set, so there is nothing to change");
}

void Job::State::begin_observing(Seconds now) {
  phase = Observing{.observation = Observation(spec.shape, work)};
  detector.reset();
  add_event(JobEvent::Level::kInfo, now,
            "the job is only observed: no clock is set, and no plan is made");
}

void Job::State::observe_iteration(const FinishedIteration& iteration) {
  Observing& in = *observing();
  if (iteration.iteration < warm_from || !in.observation.add(iteration)) return;
  if (in.observation.iterations() < in.estimate_at) return;
  in.estimate_at = 2 * in.observation.iterations();  // the more iterations, the less it changes
  effects.save = true;
  const Result<std::vector<ObservedGpu>> gpus = observed_gpus(ranks);
  if (!gpus.ok()) {
    in.estimate = {.basis = gpus.error().text()};
    return;
  }
  in.basis = "model of ";
  for (std::size_t i = 0; i < gpus->size(); ++i) {
    const std::string name((*gpus)[i].model->name);
    if (in.basis.find(name) == std::string::npos) in.basis += (i == 0 ? "" : ", ") + name;
  }
  // Plans without slowdown for both ends of the range of assumptions.
  for (std::size_t i = 0; i < kAssumptions.size(); ++i) {
    in.tickets[i] = ++ticket;
    effects.more_plans.push_back(
        {.ticket = in.tickets[i],
         .profile = assumed_profile(in.observation, work, *gpus, kAssumptions[i]),
         .blocking_power = waiting_powers(in.observation, *gpus),
         .objective = Objective{},
         .only_objective = true,
         .client = clock_client()});
  }
}

void Job::State::take_estimate(std::uint64_t answered, const Result<plan::PlanTable>& made) {
  Observing& in = *observing();
  const auto of_this = std::ranges::find(in.tickets, answered);
  if (answered == 0 || of_this == in.tickets.end()) return;
  *of_this = 0;
  if (!made.ok()) {
    in.tickets.fill(0);
    in.estimate = {.basis = made.error().text()};
    return;
  }
  in.savings[static_cast<std::size_t>(of_this - in.tickets.begin())] =
      saving_of(*made, in.observation);
  if (std::ranges::any_of(in.tickets, [](std::uint64_t one) { return one != 0; })) return;
  const auto [least, most] = std::ranges::minmax(in.savings);
  in.estimate = {.least = std::max(0.0, least), .most = std::max(0.0, most), .basis = in.basis};
  effects.save = true;
}

}  // namespace harpe::training
