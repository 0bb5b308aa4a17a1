#include <algorithm>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"

namespace harpe::training {
namespace {

/// Returns the time in seconds, to a tenth of a millisecond.
std::string rounded(Seconds time) {
  return shortest(time.value, 4) + " s";
}

/// Returns true if both have the same clocks and knobs for all ranks.
bool same_assignments(const Deployment& one, const Deployment& other) {
  if (one.purpose != other.purpose) return false;
  if (one.choice.plan_of.size() != other.choice.plan_of.size()) return false;
  // Most pipelines run the same plan.
  std::optional<std::pair<const plan::TablePlan*, const plan::TablePlan*>> known;
  for (int p = 0; p < static_cast<int>(one.choice.plan_of.size()); ++p) {
    const std::pair plan(&one.plan(p), &other.plan(p));
    if (plan == known || plan.first == plan.second) continue;
    if (plan.first->clocks != plan.second->clocks || plan.first->knobs != plan.second->knobs)
      return false;
    known = plan;
  }
  return true;
}

constexpr Seconds kLongestDelivery{10};
constexpr std::int64_t kLongestAhead = 3200;  // most iterations until a scheduled action
constexpr std::int64_t kOnTime = 200;         // iterations until less time is given

}  // namespace

const plan::TablePlan& Deployment::plan(int pipeline) const {
  const plan::PlanRef& chosen = choice.plan_of[static_cast<std::size_t>(pipeline)];
  switch (chosen.from) {
    case plan::PlanRef::From::kOwn:
      return own.at(pipeline)->plans()[chosen.plan];
    case plan::PlanRef::From::kAllMax:
      return plans->all_max();
    case plan::PlanRef::From::kShared:
      break;
  }
  return plans->plans()[chosen.plan];
}

/// Returns the number of iterations from the newest reported one to the first that can run by new
/// assignments on all ranks. The next iteration is already running, and the assignments must arrive
/// before a later one begins.
int Job::State::lead() const {
  if (is_at_pause()) return lead_after(Seconds{0});
  return lead_after(std::max(Seconds{0}, newest_event - newest_since));
}

/// Returns `lead` for a newest iteration that has been running for the time `under_way`.
int Job::State::lead_after(Seconds under_way) const {
  constexpr double kMost = 1000;
  if (iteration_time <= Seconds{0}) return 2;
  return 1 + static_cast<int>(
                 std::clamp(std::ceil((under_way + delivery) / iteration_time), 1.0, kMost));
}

/// Handles the first report of an iteration. Assignments made while no report arrived, because an
/// iteration or the reports were held up, begin where the ranks might have been by then. If the
/// time since the report before was spent in the iteration and not in transit, the ranks are right
/// behind it, and the assignments begin earlier. A single such report may be chance, unless its
/// iteration was held up.
void Job::State::note_newest(const IterationReport& report, Seconds now) {
  constexpr double kHeldUp = 3;
  constexpr int kPrompt = 3;
  constexpr std::int64_t kFar = 3;
  const Seconds since = now - std::exchange(newest_since, now);
  const bool is_held_up = report.time > iteration_time * kHeldUp;
  const Seconds elsewhere{std::abs((since - report.time).value)};
  const bool is_prompt =
      elsewhere < std::max(delivery, iteration_time) && elsewhere < report.time / 2;
  prompt_reports = is_prompt ? prompt_reports + 1 : 0;
  if (!is_prompt || (!is_held_up && prompt_reports < kPrompt)) return;
  if (profiling() != nullptr || deployments.empty()) return;
  const Deployment* first = probe() != nullptr ? with_version(probe()->version) : nullptr;
  if (first == nullptr) first = newest_before_pause();
  if (first == nullptr || first->from <= next_from() + kFar) return;
  if (probe() != nullptr) next_probe = collector.newest();  // the probe is repeated
  end_probe();
  deploy(Deployment(deployments.back()));
  if (SettlingStages* stages = settling()) stages->from = std::min(stages->from, newest_from());
}

/// Returns the deployment by which the newest plans first come into force without a pause; null if
/// there is none.
const Deployment* Job::State::newest_before_pause() const {
  const auto found = std::ranges::find_if(deployments, [&](const Deployment& one) {
    return !one.pause && one.first_version == deployments.back().first_version;
  });
  return found == deployments.end() ? nullptr : &*found;
}

/// Returns the first iteration by the newest assignments. Those after a pause that lies ahead are
/// copies.
std::int64_t Job::State::newest_from() const {
  const Deployment* before_pause = newest_before_pause();
  return before_pause != nullptr ? before_pause->from : deployments.back().from;
}

/// Deploys plans from an iteration on. A pause requested for a later iteration stays requested.
void Job::State::deploy(Deployment deployment, std::int64_t from) {
  // While the position of the ranks is not known, ranks that wait keep waiting.
  const bool stays = redeploy && asked && asked->is_placed() && !asked->given_up;
  put(std::move(deployment), stays ? kNever : from);
  if (asked && !asked->given_up && !deployments.back().pause && !redeploy) place_pause();
}

/// Puts plans in force from an iteration on. If a withdrawn pause lies ahead, they are put in force
/// three times, such as from 40, from 100 with the pause, and from 101 without it.
void Job::State::put(Deployment deployment, std::int64_t from) {
  const bool is_before_held = holds_pause() && from <= held_pause->from;
  push(std::move(deployment), from);
  if (!is_before_held) return;
  push(Deployment(deployments.back()), held_pause->from);
  push(Deployment(deployments.back()), held_pause->from + 1);
}

void Job::State::push(Deployment deployment, std::int64_t from) {
  deployment.pause.reset();
  if (asked && asked->is_placed() && !asked->given_up && from >= asked->from)
    deployment.pause = asked->request;
  if (held_pause && from == held_pause->from) deployment.pause = held_pause->request;
  deployment.version = ++version;
  if (deployment.first_version == 0) deployment.first_version = version;
  deployment.from = from;
  // Removes deployments that will not come into force, and deployments that no rank uses any more.
  std::erase_if(deployments, [&](const Deployment& d) { return d.from >= deployment.from; });
  while (deployments.size() > 1 && deployments[1].from <= collector.newest() - 1)
    deployments.pop_front();
  while (deployments.size() > static_cast<std::size_t>(kMostPending)) deployments.pop_front();
  deployments.push_back(std::move(deployment));
  if (Profiling* now = profiling()) now->profiler.begin(version, deployments.back().from);
  note_all_max_from();
  effects.assignments = effects.save = true;
}

/// Notes since which iteration pipelines with their own costs run at all-max in the newest plans.
void Job::State::note_all_max_from() {
  const Deployment& newest = deployments.back();
  for (WatchedPipeline& one : watched_pipelines) {
    const bool at_all_max =
        newest.purpose == StageAssignment::Purpose::kPlan
            ? newest.choice.plan_of[one.slow.pipeline].from == plan::PlanRef::From::kAllMax
            : newest.purpose == StageAssignment::Purpose::kAllMax;
    if (!at_all_max) {
      one.all_max_from = -1;
    } else if (one.all_max_from < 0 || newest.from < one.all_max_from) {
      one.all_max_from = newest.from;
      one.all_max_begins = true;
    }
  }
}

/// Marks a rank as away if it missed an iteration: it was cut off, or the server was down.
void Job::State::note_silence(const IterationReport& report, Seconds silence) {
  constexpr double kMissed = 2;
  if (silence > report.time * kMissed + kUsualDelivery)
    away[spec.shape.index(report.coordinates)] = true;
}

/// Gives assignments more time if they reach some rank late, and less again after a long time
/// without late ones. A rank that was out of reach does not count: more time would only delay the
/// responses of the job.
void Job::State::note_delivery(const IterationReport& report, const Deployment& due) {
  if (due.from <= 0) return;
  if (report.version < due.version) {
    if (late_version >= due.version) return;
    late_version = due.version;
    ++assignments_late;
    if (away[spec.shape.index(report.coordinates)]) return;
    on_time_since = report.iteration;
    delivery = std::min(delivery * 1.5, kLongestDelivery);
    return;
  }
  away[spec.shape.index(report.coordinates)] = false;
  if (report.iteration - on_time_since < kOnTime) return;
  on_time_since = report.iteration;
  delivery = std::max(delivery / 1.5, kUsualDelivery);
}

Deployment Job::State::all_max_deployment() const {
  Deployment deployment;
  deployment.purpose = StageAssignment::Purpose::kAllMax;
  deployment.stage_clocks = highest_clocks();
  if (plans && !plans->all_max().knobs.empty()) deployment.plans = plans;
  return deployment;
}

void Job::State::deploy_profile() {
  Deployment deployment;
  deployment.purpose = StageAssignment::Purpose::kProfile;
  deployment.stage_clocks = profiling()->profiler.clocks();
  deploy(std::move(deployment));
}

/// Deploys the newest plans from now on, because the ranks are at other iterations than assumed.
void Job::State::deploy_again() {
  redeploy = false;
  const std::int64_t newest_iteration = std::max(std::int64_t{0}, collector.newest());
  for (std::int64_t* at : {&last_profiling, &profiling_began, &calm_since, &on_time_since})
    *at = std::min(*at, newest_iteration);
  for (std::int64_t* at : {&next_probe, &energy_from, &faster_from})
    *at = std::min(*at, newest_iteration + kLongestAhead);
  if (retry_at) retry_at = std::min(*retry_at, newest_iteration + kLongestAhead);
  end_probe();
  if (deployments.empty()) return;
  Deployment newest = deployments.back();
  deployments.clear();
  deploy(std::move(newest));
}

/// \param why  reason for the log; no event if empty
void Job::State::deploy_choice(Seconds now, const std::string& why) {
  if (!plans || running() == nullptr || retry_at || settling() != nullptr) return;
  ask_for_objective_plan();
  const std::vector<plan::Straggler> stragglers = all_stragglers();
  running()->straggling = !stragglers.empty();
  Deployment deployment;
  deployment.purpose = StageAssignment::Purpose::kPlan;
  deployment.plans = plans;
  const std::vector<plan::SlowPipeline> slow = slow_pipelines();
  deployment.choice = plan::choose_plans(*plans, aim(), overhead(), spec.shape.data, slow);
  for (const plan::SlowPipeline& one : slow)
    if (one.own != nullptr) deployment.own.emplace(one.pipeline, one.own);
  if (!deployments.empty() && same_assignments(deployments.back(), deployment)) {
    deployments.back().plans = deployment.plans;
    deployments.back().own = std::move(deployment.own);
    deployments.back().choice = std::move(deployment.choice);
    note_all_max_from();  // the fastest plan may be all-max
    return;
  }
  drift.reset();
  std::string text = "plan of " + rounded(deployment.choice.objective_time);
  if (!stragglers.empty())
    text = "plans for waiting until " + rounded(deployment.choice.wait_until);
  if (!why.empty()) add_event(JobEvent::Level::kInfo, now, text + ": " + why);
  deploy(std::move(deployment));
}

const Deployment* Job::State::in_force(std::int64_t iteration) const {
  const Deployment* found = nullptr;
  for (const Deployment& deployment : deployments)
    if (deployment.from <= iteration) found = &deployment;
  return found;
}

const Deployment* Job::State::with_version(std::uint64_t wanted) const {
  const auto found = std::ranges::find(deployments, wanted, &Deployment::version);
  return found == deployments.end() ? nullptr : &*found;
}

/// Returns the plan's settings for the instructions that the ranks run, without fixed-time ones.
template <class Setting>
std::vector<Setting> Job::State::trained(const std::vector<Setting>& settings, int stage) const {
  if (spec.fixed_times.none()) return settings;
  std::vector<Setting> kept;
  const auto& planned = pipeline.schedule().lists[stage];
  std::size_t next = 0;
  for (const Instruction& instruction : spec.schedule.lists[stage]) {
    while (planned[next] != instruction) ++next;
    kept.push_back(settings[next++]);
  }
  return kept;
}

StageAssignment Job::State::assignments(const Deployment& deployment, int pipeline_number,
                                        int stage) const {
  StageAssignment assignments{.version = deployment.version,
                              .from_iteration = deployment.from,
                              .purpose = deployment.purpose,
                              .clocks = {},
                              .pause = deployment.pause};
  const auto knobs_of = [&](const plan::TablePlan& plan) {
    if (!plan.knobs.empty()) assignments.knobs = trained(plan.knobs[stage], stage);
    if (std::ranges::all_of(assignments.knobs, &Knobs::empty)) assignments.knobs.clear();
  };
  if (deployment.purpose == StageAssignment::Purpose::kPlan) {
    const plan::TablePlan& plan = deployment.plan(pipeline_number);
    assignments.clocks = trained(plan.clocks[stage], stage);
    knobs_of(plan);
    return assignments;
  }
  assignments.clocks = {deployment.stage_clocks[stage]};
  // All-max also has knobs if the profile has no points without knobs.
  if (deployment.purpose == StageAssignment::Purpose::kAllMax && deployment.plans)
    knobs_of(deployment.plans->all_max());
  if (!assignments.knobs.empty())
    assignments.clocks.resize(assignments.knobs.size(), assignments.clocks.front());
  return assignments;
}

}  // namespace harpe::training
