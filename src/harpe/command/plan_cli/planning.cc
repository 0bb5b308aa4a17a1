#include "harpe/command/plan_cli/planning.h"

#include <algorithm>
#include <cstdint>
#include <future>
#include <limits>
#include <span>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/plan_cli/given_profile.h"
#include "harpe/command/plan_cli/per_stage.h"
#include "harpe/plan/frontier/fixed_time_rows.h"
#include "harpe/plan/frontier/priced_parts.h"
#include "harpe/plan/policy/plan_for.h"
#include "harpe/plan/profile/check.h"
#include "harpe/plan/profile/chunks.h"
#include "harpe/plan/profile/counted_latency.h"
#include "harpe/plan/schedule/fixed_times.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::command {
namespace {

Result<Schedule> read_job_schedule(const PlanJob& job, int profile_stages) {
  if (job.schedule_is_file) {
    Result<Schedule> schedule = given_schedule(job.schedule);
    if (!schedule.ok()) return schedule;
    Diagnostics diagnostics(job.schedule);
    const auto expect = [&](const std::optional<int>& wanted, int found, const std::string& what) {
      if (!wanted || *wanted == found) return;
      diagnostics.add("has " + std::to_string(found) + " " + what + ", but " +
                      std::to_string(*wanted) + " were requested");
    };
    expect(job.stages, schedule->stages, "stages");
    expect(job.micro_batches, schedule->micro_batches, "micro-batches");
    expect(job.chunks, schedule->chunks(), "chunks a stage");
    if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
    return schedule;
  }
  ScheduleOptions options{.stages = job.stages.value_or(profile_stages),
                          .micro_batches = job.micro_batches.value_or(1)};
  if (job.chunks) options.chunks = *job.chunks;
  return make_schedule(job.schedule, options);
}

FixedTimes fixed_times_of(const PlanJob& job, int stages, Diagnostics& diagnostics) {
  const auto seconds = [&](const std::vector<Seconds>& values, const std::string& option) {
    return per_stage(values, stages, option, "stages", diagnostics);
  };
  return {.load = seconds(job.load, "load"),
          .reduce = seconds(job.reduce, "reduce"),
          .optimizer = seconds(job.optimizer, "optimizer")};
}

void add_all(const Error& from, Error& to) {
  if (to.diagnostics.empty()) to.code = from.code;
  to.diagnostics.insert(to.diagnostics.end(), from.diagnostics.begin(), from.diagnostics.end());
}

}  // namespace

PlanOptions LongPlanSearch::applied_to(PlanOptions options) {
  if (!job_.searches_on()) return options;
  options.search_windows = std::numeric_limits<std::int64_t>::max();
  if (job_.search_windows) options.search_windows = *job_.search_windows;
  options.go_on = [this](const SearchProgress& progress) { return go_on(progress); };
  return options;
}

double LongPlanSearch::elapsed() const {
  return std::chrono::duration<double>(Clock::now() - started_).count();
}

bool LongPlanSearch::go_on(const SearchProgress& progress) {
  if (!outcome_) {
    outcome_.emplace().gap_before = progress.gap();
    started_ = Clock::now();
    interrupt_.emplace();
    bar_.emplace(console_, "search");
  }
  outcome_->gap = progress.gap();
  outcome_->windows = progress.windows;
  outcome_->seconds = elapsed();
  double done = 0;
  if (job_.search_time > 0_s) done = outcome_->seconds / job_.search_time.value;
  if (job_.search_windows)
    done = std::max(done, static_cast<double>(progress.windows) / *job_.search_windows);
  bar_->update(done, "gap " + fixed(100 * progress.gap(), 3) + " %, Ctrl-C keeps the best");
  outcome_->is_interrupted = interrupt_->interrupted();
  return !outcome_->is_interrupted && done < 1;
}

void LongPlanSearch::end() {
  bar_.reset();
  interrupt_.reset();
}

std::string sentence_of(const SearchOutcome& outcome) {
  std::string text = "the search ran for " + fixed(outcome.seconds, 1) + " s";
  if (outcome.is_interrupted) text += ", until it was interrupted";
  return text + ": gap to the bound at the deadline " + fixed(100 * outcome.gap_before, 3) +
         " -> " + fixed(100 * outcome.gap, 3) + " %; --search-windows " +
         std::to_string(outcome.windows) + " finds the same plan again";
}

PlanOptions options_of(const PlanJob& job, const Profile& profile) {
  return {.effort = job.quick ? Effort::kQuick : Effort::kFull,
          .switch_latency = plan::counted_latency(job.switch_latency.by_clock, job.client, profile),
          .min_dwell = job.min_dwell};
}

namespace {

/// Returns the plan with the wait until `time`; unchanged if it ends later.
Plan waiting_until(Plan plan, Seconds time, const Frontier& frontier) {
  if (plan.iteration_time >= time) return plan;
  Watts waiting{0};
  for (const Watts power : plan.blocking_power) waiting += power * plan.gpus_per_stage;
  plan.iteration_energy += waiting * (time - plan.iteration_time);
  plan.iteration_time = time;
  plan.lower_bound = std::min(frontier.lower_bound(time), plan.iteration_energy);
  return plan;
}

bool beats(const Plan& a, const Plan& b) {
  return a.iteration_time <= b.iteration_time && a.iteration_energy <= b.iteration_energy &&
         (a.iteration_time < b.iteration_time || a.iteration_energy < b.iteration_energy);
}

/// Replaces plans that another one beats: with late clocks, the search for one objective may find
/// a better plan for another.
void drop_beaten(Planned& planned, const Frontier& frontier, const Objective& objective,
                 const PlanOptions& options) {
  // A plan that beats the chosen one may draw more power: its time may fall more than its energy.
  const auto may_replace = [&](const Plan& plan, const Plan* weaker) {
    return weaker != &planned.chosen || !objective.is_cap() ||
           is_met(objective, {}, plan.iteration_time, plan.iteration_energy);
  };
  const Seconds bounded_until = planned.chosen.iteration_time;
  std::vector<Plan> all = planned.along;
  all.insert(all.end(), {planned.fastest, planned.chosen, planned.least_energy});
  for (const Plan& plan : all) {
    for (Plan* weaker : {&planned.fastest, &planned.chosen, &planned.least_energy}) {
      if (beats(plan, *weaker) && may_replace(plan, weaker)) *weaker = plan;
    }
  }
  // A bound is for one iteration time: it is computed again if the chosen plan has another one.
  if (planned.chosen.iteration_time != bounded_until)
    planned.tight_bound = frontier.tight_lower_bound(planned.chosen.iteration_time, options);
  planned.fastest = *std::ranges::min_element(all, {}, [](const Plan& plan) {
    return std::pair(plan.iteration_time, plan.iteration_energy);
  });
  if (planned.along.empty()) return;
  std::ranges::sort(all, {}, [](const Plan& plan) { return plan.iteration_time; });
  planned.along.clear();
  for (const Plan& plan : all) {
    if (std::ranges::none_of(all, [&](const Plan& other) { return beats(other, plan); }) &&
        (planned.along.empty() || planned.along.back().iteration_time < plan.iteration_time))
      planned.along.push_back(plan);
  }
}

/// Extends the other plans to wait for the straggler, as the chosen one does.
void wait_for_straggler(Planned& planned, const Frontier& frontier) {
  planned.waits_until = planned.chosen.iteration_time;
  if (planned.all_max.iteration_time < planned.waits_until) planned.all_max_alone = planned.all_max;
  for (Plan* plan : {&planned.all_max, &planned.fastest, &planned.least_energy})
    *plan = waiting_until(std::move(*plan), planned.waits_until, frontier);
  // The least energy at that time is the energy of the plan made for it, not of a waiting plan.
  if (planned.chosen.iteration_energy < planned.least_energy.iteration_energy)
    planned.least_energy = planned.chosen;
}

/// Returns the bound of late plans from the fastest iteration to `last` or further. One flow bounds
/// every deadline, so many deadlines cost little.
std::vector<FrontierPoint> late_bound_curve(const Frontier& frontier, Seconds last,
                                            const PlanOptions& options) {
  constexpr int kSteps = 240;  // about three pixels each, denser where the bound bends most
  const Seconds first = frontier.min_time();
  const Seconds range = std::max(frontier.max_time(), last) - first;
  std::vector<Seconds> times;
  for (int i = 0; i <= kSteps; ++i) {
    const double share = static_cast<double>(i) / kSteps;
    times.push_back(first + range * (share * share));
  }
  const std::vector<Joules> bounds = frontier.tight_bounds_along(times, options);
  std::vector<FrontierPoint> curve;
  for (std::size_t i = 0; i < times.size(); ++i) curve.push_back({times[i], bounds[i]});
  return curve;
}

void bound_late_plans(Planned& planned, const Frontier& frontier, const PlanOptions& options) {
  if (options.switch_latency.longest() <= Seconds{0}) return;
  std::vector<Seconds> times;
  for (const Plan& plan : planned.along) times.push_back(plan.iteration_time);
  planned.along_bounds = frontier.tight_bounds_along(times, options);
  if (!times.empty()) planned.late_bound = late_bound_curve(frontier, times.back(), options);
}

/// Returns `count` plans evenly spaced in time, from the fastest to the one with the least energy.
Result<std::vector<Plan>> plans_along(const Frontier& frontier, const PlanOptions& options,
                                      const Planned& planned, int count, const Progress& progress) {
  const Seconds first = options.switching() ? planned.fastest.iteration_time : frontier.min_time();
  const Seconds last = std::max(first, options.switching() ? planned.least_energy.iteration_time
                                                           : frontier.least_energy_time());
  std::vector<Seconds> times;
  for (int i = 0; i < count; ++i)
    times.push_back(first + (last - first) * (count == 1 ? 0 : i / (count - 1.0)));
  std::vector<Plan> plans;
  if (times.size() < 2) return times.empty() ? plans : std::vector{planned.fastest};
  // The plans at both ends are known.
  plans = HARPE_TRY(
      frontier.plans_along(std::span(times).subspan(1, times.size() - 2), progress, options));
  plans.insert(plans.begin(), planned.fastest);
  plans.push_back(planned.least_energy);
  return plans;
}

/// Fits the profile to the chunks of the schedule. Adds the method and unused rows to `premises`.
Result<Profile> fitting_profile(const PlanJob& job, const Schedule& schedule,
                                const Profile& profile, std::vector<std::string>& premises) {
  const auto note = plan::note_on_chunks(profile, schedule.chunks(), schedule.copies);
  if (note && job.refuses_chunk_split) {
    return Error::invalid(job.profile.string() + ": --chunk-split none needs rows for each of " +
                          std::to_string(schedule.chunks()) + " chunks a stage: " + *note);
  }
  Profile fitting = plan::with_chunks(profile, schedule.chunks(), schedule.copies);
  premises = plan::unused_rows(schedule, fitting);
  if (note) premises.push_back(*note);
  const auto splits = [](const auto& list) {
    return std::ranges::find(list, InstructionKind::kWeight, &Instruction::kind) != list.end();
  };
  if (plan::has_weight_rows(schedule, fitting) && std::ranges::none_of(schedule.lists, splits)) {
    premises.emplace_back(
        "each full backward runs as backward and weight, by the profile's rows, each with its own "
        "clock");
  }
  return fitting;
}

Transfers transfers_of(const PlanJob& job, const Schedule& schedule, Diagnostics& diagnostics) {
  const int boundaries = schedule.parts() - 1;
  const std::string what = "boundaries between model parts";
  Transfers transfers;
  transfers.mode = job.transfer_mode;
  transfers.forward =
      per_stage(job.transfer_forward, boundaries, "transfer-forward", what, diagnostics);
  transfers.backward =
      per_stage(job.transfer_backward, boundaries, "transfer-backward", what, diagnostics);
  if (!transfers.none()) {
    // A direction that was not given takes no time.
    transfers.forward.resize(boundaries);
    transfers.backward.resize(boundaries);
  }
  return transfers;
}

/// \param given  the profile as it was read
Result<PlanInputs> inputs_of(const PlanJob& job, const Profile& given, Schedule schedule) {
  std::vector<std::string> premises;
  Profile profile = HARPE_TRY(fitting_profile(job, schedule, given, premises));
  const bool has_own_profile = job.fit || (profile.has_chunks() && !given.has_chunks());
  std::vector<std::string> notes;
  if (job.blocking_power.empty()) {
    notes.emplace_back(
        "no --blocking-power given: waiting GPUs are counted with 0 W, though they draw tens of "
        "watts");
  }
  if (job.fit) {
    profile = fit_profile(profile);
    notes.emplace_back(
        "--fit: the plan is made for fitted curves; verify it against profile.csv beside it");
  }

  Diagnostics diagnostics;
  std::vector<Watts> blocking_power =
      per_stage(job.blocking_power, schedule.stages, "blocking-power", "stages", diagnostics);
  if (blocking_power.empty()) blocking_power.assign(schedule.stages, Watts{0});
  Transfers transfers = transfers_of(job, schedule, diagnostics);
  const FixedTimes fixed_times = fixed_times_of(job, schedule.stages, diagnostics);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  HARPE_TRY(plan::check_fixed_times(profile, fixed_times));
  schedule = HARPE_TRY(with_fixed_times(std::move(schedule), fixed_times));
  Profile complete = plan::with_fixed_time_rows(profile, schedule, fixed_times, blocking_power);
  Result<Pipeline> pipeline = Pipeline::build(std::move(schedule), std::move(transfers));
  if (!pipeline.ok()) {
    Error circle = pipeline.error();
    for (Diagnostic& diagnostic : circle.diagnostics) {
      if (diagnostic.file.empty() && job.schedule_is_file) diagnostic.file = job.schedule;
    }
    return circle;
  }
  return PlanInputs{.profile = std::move(complete),
                    .pipeline = *std::move(pipeline),
                    .blocking_power = std::move(blocking_power),
                    .premises = std::move(premises),
                    .notes = std::move(notes),
                    .has_own_profile = has_own_profile};
}

}  // namespace

Result<PlanInputs> read_inputs(const PlanJob& job, Console& console) {
  Result<Profile> profile = given_profile(job.profile.string(), console);
  if (!profile.ok()) {
    Error error = std::move(profile).error();
    // Without a profile the number of stages may be unknown.
    if (job.stages || job.schedule_is_file) {
      const Result<Schedule> schedule = read_job_schedule(job, 1);
      if (!schedule.ok()) add_all(schedule.error(), error);
    }
    return error;
  }
  Schedule schedule = HARPE_TRY(read_job_schedule(job, profile->stages()));
  HARPE_TRY(plan::check_stages(schedule, *profile, job.profile.string()));
  if (const auto note = plan::note_on_stages(schedule, *profile)) console.warn(*note);
  if (!job.schedule_is_file) warn_of_chunks(job.chunks, schedule, console);
  HARPE_TRY(check_units(*profile, job.profile.string(), true, console));
  return inputs_of(job, *profile, std::move(schedule));
}

Result<PlanInputs> inputs_of(const PlanJob& job, const Profile& given) {
  Schedule schedule = HARPE_TRY(read_job_schedule(job, given.stages()));
  HARPE_TRY(plan::check_stages(schedule, given, job.profile.string()));
  return inputs_of(job, given, std::move(schedule));
}

Result<Planned> make_plans(const Frontier& frontier, const PlanJob& job, int along,
                           const Progress& progress, LongPlanSearch& search) {
  const PlanOptions options = options_of(job, frontier.profile());
  const PlanOptions for_chosen = search.applied_to(options);
  const Objective& objective = job.objective;
  Planned planned;
  planned.all_max = frontier.all_max(options);
  // One separate plan takes about as long as eight plans along the frontier.
  const double singles = 4.0 / (4.0 + along / 8.0);
  int done = 0;
  Error error;
  const auto take = [&](Result<Plan> plan, Plan& target) {
    if (progress) progress(singles * ++done / 4);
    if (!plan.ok()) return error = std::move(plan).error(), false;
    target = *std::move(plan);
    return true;
  };

  const bool is_fastest =
      !options.switching() && objective.kind == Objective::Kind::kSlowdown && objective.value == 0;
  if (!take(frontier.fastest_plan(is_fastest ? for_chosen : options), planned.fastest))
    return error;
  planned.reference = reference_times(frontier, planned.fastest, planned.all_max, options);
  // The objective is next, so that an impossible one fails early.
  if (!take(is_fastest ? planned.fastest
                       : plan_for(frontier, objective, planned.reference, for_chosen),
            planned.chosen)) {
    return error;
  }
  search.end();
  planned.search = search.outcome();
  // In parallel with the plans below, which take about as long; after them if no thread is free.
  std::future<Joules> tight_bound = std::async(std::launch::async | std::launch::deferred,
                                               [&, time = planned.chosen.iteration_time] {
                                                 return frontier.tight_lower_bound(time, options);
                                               });
  const bool is_least = objective.kind == Objective::Kind::kLeastEnergy;
  if (!take(is_least ? planned.chosen : frontier.least_energy_plan(options),
            planned.least_energy)) {
    return error;
  }
  if (options.switching()) {
    Plan plan;
    if (!take(plan_for(frontier, objective, planned.reference, {.effort = options.effort}), plan)) {
      return error;
    }
    planned.free_switching = std::move(plan);
  }
  planned.along = HARPE_TRY(plans_along(frontier, options, planned, along, [&](double share) {
    if (progress) progress(singles + (1 - singles) * share);
  }));
  planned.tight_bound = tight_bound.get();
  if (objective.is_straggler()) {
    wait_for_straggler(planned, frontier);
  } else if (options.switching()) {
    drop_beaten(planned, frontier, objective, options);
  }
  bound_late_plans(planned, frontier, options);
  return planned;
}

int plans_shown(const Frontier& frontier) {
  constexpr int kFewest = 4;
  constexpr int kInstructions = 300'000;  // in all plans: about 1 MB on a page
  return std::clamp(kInstructions / std::max(1, frontier.pipeline().instructions()), kFewest,
                    kMostPlansShown);
}

}  // namespace harpe::command
