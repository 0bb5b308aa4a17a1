#include "harpe/training/job/job_status_json.h"

#include <algorithm>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/json_text.h"
#include "harpe/plan/baseline/one_setting.h"

namespace harpe::training {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kMissingShown = 16, kWorkersShown = 64, kPipelinesShown = 64;

Json null_if_zero(double value) {
  return value == 0 ? Json(nullptr) : Json(value);
}

Json progress_json(const ProfilingProgress& progress) {
  return {{"fraction", progress.fraction},           {"clocks", progress.clocks},
          {"clocks_left", progress.clocks_left},     {"iterations_left", progress.iterations_left},
          {"time_left_s", progress.time_left.value}, {"slowdown", progress.slowdown}};
}

Json watts_json(const std::vector<Watts>& each) {
  if (each.empty()) return nullptr;
  Json list = Json::array();
  for (const Watts one : each) list.push_back(one.value);
  return list;
}

using Shown = std::function<Seconds(Seconds)>;

Json stragglers_json(const std::vector<plan::Straggler>& stragglers, const Shown& shown) {
  Json list = Json::array();
  for (const plan::Straggler& one : stragglers) {
    list.push_back({{"pipeline", one.pipeline},
                    {"factor", one.factor},
                    {"until", one.until ? Json(shown(*one.until).value) : Json(nullptr)},
                    {"detected", one.detected},
                    {"seen", one.seen ? Json(*one.seen) : Json(nullptr)}});
  }
  return list;
}

Json refusals_json(const std::vector<Refusal>& refusals, const Shown& shown) {
  Json list = Json::array();
  for (const Refusal& one : refusals) {
    list.push_back(
        {{"who", one.who}, {"why", one.why}, {"count", one.count}, {"at", shown(one.at).value}});
  }
  return list;
}

/// Returns the time and energy of a plan, compared with the fastest possible iteration, with
/// all-max, and with the least energy that is proven to be needed for its time.
Json plan_figures(const plan::PlanTable& table, Seconds time, Joules energy,
                  const std::optional<double>& gap) {
  const auto known = [&](double value) { return gap ? Json(value) : Json(nullptr); };
  return {{"time_s", time.value},
          {"energy_j", energy.value},
          {"slowdown", time / table.plans().front().time - 1},
          {"slowdown_to_all_max", time / table.all_max().time - 1},
          {"saving_to_all_max",
           table.all_max().energy > Joules{0} ? 1 - energy / table.all_max().energy : 0},
          {"lower_bound_j", known(energy.value / (1 + gap.value_or(0)))},
          {"gap", known(gap.value_or(0))}};
}

/// Returns the best clock for all GPUs that is no slower than a plan of the job's table. Null if
/// there is none, or if pipelines wait for a straggler, whose GPUs have their own clocks and times.
Json one_clock_json(const Job& job, const JobStatus& status, const plan::TablePlan& plan) {
  if (!status.stragglers.empty() || status.objective.is_straggler()) return nullptr;
  const plan::PlanTable& table = *job.plans();
  const auto curve = plan::one_setting_curve(table.one_clock(), plan::VariedKnob::kClock);
  const auto best =
      plan::rivals_of(curve, plan.time, plan.energy, table.all_max().energy).no_slower;
  if (!best) return nullptr;
  return {{"frequency_mhz", best->setting.clock.value},
          {"time_s", best->iteration_time.value},
          {"energy_j", best->iteration_energy.value}};
}

Json missing_json(const Job& job) {
  Json missing = Json::array();
  for (const RankCoordinates coordinates : job.missing(kMissingShown))
    missing.push_back(
        {{"data", coordinates.data}, {"stage", coordinates.stage}, {"tensor", coordinates.tensor}});
  return missing;
}

Json slow_stages_json(const JobStatus& status) {
  Json slow = Json::array();
  for (const SlowStage& stage : status.slow_stages)
    slow.push_back({{"stage", stage.stage}, {"factor", stage.factor}, {"since", stage.since}});
  return slow;
}

Json observed_json(const std::optional<ObservedJob>& observed) {
  if (!observed) return nullptr;
  Json stages = Json::array();
  const auto known = [](const auto& value) { return value ? Json(value->value) : Json(nullptr); };
  for (std::size_t stage = 0; stage < observed->stages.size(); ++stage) {
    const ObservedStage& one = observed->stages[stage];
    stages.push_back({{"stage", stage},
                      {"work_s", one.work.value},
                      {"waiting_s", one.waiting.value},
                      {"clock_mhz", known(one.clock)},
                      {"energy_j", known(one.energy)},
                      {"waiting_power_w", known(one.waiting_power)}});
  }
  const EstimatedSaving& saving = observed->saving;
  return {{"iterations", observed->iterations},
          {"iteration_time_s", null_if_zero(observed->iteration_time.value)},
          {"stages", std::move(stages)},
          {"longest_stage", observed->longest ? Json(*observed->longest) : Json(nullptr)},
          {"estimated_saving_percent", saving.least && saving.most
                                           ? Json({100 * *saving.least, 100 * *saving.most})
                                           : Json(nullptr)},
          {"estimated_by", saving.basis.empty() ? Json(nullptr) : Json(saving.basis)}};
}

Json slow_workers_json(const JobStatus& status) {
  Json workers = Json::array();
  for (const SlowWorker& one : status.slow_workers) {
    if (workers.size() == kWorkersShown) break;
    workers.push_back({{"pipeline", one.pipeline},
                       {"stage", one.stage},
                       {"factor", one.factor},
                       {"since", one.since}});
  }
  return workers;
}

/// Returns the iteration time of each pipeline by its plan, by number. If there are too many,
/// stragglers are preferred. A plan that ignores a pipeline's own costs takes longer by its factor.
Json pipelines_json(std::vector<PipelineState> states) {
  const std::size_t shown = std::min(states.size(), kPipelinesShown);
  std::ranges::partial_sort(
      states, states.begin() + static_cast<std::ptrdiff_t>(shown), {},
      [](const PipelineState& one) { return std::pair(one.factor == 1, one.pipeline); });
  states.resize(shown);
  std::ranges::sort(states, {}, &PipelineState::pipeline);
  Json list = Json::array();
  for (const PipelineState& one : states) {
    const double factor = one.plan.from == plan::PlanRef::From::kOwn ? 1 : one.factor;
    list.push_back({{"pipeline", one.pipeline},
                    {"factor", one.factor},
                    {"time_s", one.planned ? Json(one.time.value * factor) : Json(nullptr)}});
  }
  return list;
}

/// Returns the clocks of each stage of the first healthy pipeline in the newest assignments. Empty
/// if there are none.
Json stage_clocks_json(const Job& job, const std::vector<PipelineState>& states) {
  const auto healthy = std::ranges::find(states, 1.0, &PipelineState::factor);
  const int pipeline = healthy == states.end() ? 0 : healthy->pipeline;
  Json list = Json::array();
  for (int stage = 0; stage < job.spec().shape.stages; ++stage) {
    const std::vector<StageAssignment> assignments = job.assignments(pipeline, stage);
    if (assignments.empty()) return list;
    std::vector<Megahertz> clocks = assignments.back().clocks;
    std::erase(clocks, Megahertz{0});  // 0: the clock is left unchanged
    if (clocks.empty()) continue;
    const auto [lowest, highest] = std::ranges::minmax_element(clocks);
    list.push_back(
        {{"stage", stage}, {"lowest_mhz", lowest->value}, {"highest_mhz", highest->value}});
  }
  return list;
}

}  // namespace

Json pause_json(const Job& job, const PauseState& pause, const Shown& shown) {
  if (pause.is == PauseState::Is::kNone) return nullptr;
  const std::optional<Pace>& pace = job.pace();
  return {{"state", name_of(pause.is)},
          {"since", shown(pause.since).value},
          {"from_iteration", pause.from < 0 ? Json(nullptr) : Json(pause.from)},
          {"ranks_waiting", pause.waiting},
          {"ended", pause.ended},
          {"resumes", pace && pace->resumes ? Json(pace->resumes->value) : Json(nullptr)},
          {"why", pace ? pace->why : ""}};
}

// The list stays short with many pipelines. Plans for stragglers' own costs, and all-max, are not
// in the job's table.
Json running_plans_json(const Job& job) {
  Json list = Json::array(), others = Json::array();
  if (job.plans() == nullptr) return list;
  const JobStatus status = job.status();
  std::vector<int> pipelines(job.plans()->plans().size());
  std::vector<bool> for_objective(pipelines.size());
  for (const PipelineState& state : job.pipelines()) {
    if (!state.planned) continue;
    if (state.plan.from == plan::PlanRef::From::kShared) {
      ++pipelines[state.plan.plan];
      for_objective[state.plan.plan] = state.for_objective;
      continue;
    }
    Json& other =
        others.emplace_back(plan_figures(*job.plans(), state.time, state.energy, state.gap));
    other["plan"] = nullptr;
    other["pipeline"] = state.pipeline;
    other["all_max"] = state.plan.from == plan::PlanRef::From::kAllMax;
    other["pipelines"] = 1;
    other["for_objective"] = false;
    other["one_clock"] = nullptr;
  }
  for (std::size_t plan = 0; plan < pipelines.size(); ++plan) {
    if (pipelines[plan] == 0) continue;
    const plan::TablePlan& one = job.plans()->plans()[plan];
    Json& shared = list.emplace_back(plan_figures(*job.plans(), one.time, one.energy, one.gap));
    shared["plan"] = plan;
    shared["pipelines"] = pipelines[plan];
    shared["for_objective"] = bool{for_objective[plan]};
    shared["one_clock"] = one_clock_json(job, status, one);
  }
  for (Json& other : others) list.push_back(std::move(other));
  return list;
}

Json job_status_json(const Job& job, const Shown& shown) {
  const JobStatus status = job.status();
  const JobSpec& spec = job.spec();
  const std::vector<PipelineState> pipelines = job.pipelines();
  return {{"name", spec.name},
          {"synthetic", status.synthetic},
          {"phase", name_of(status.phase)},
          {"data", spec.shape.data},
          {"stages", spec.shape.stages},
          {"tensor", spec.shape.tensor},
          {"schedule", spec.schedule.name},
          {"micro_batches", spec.schedule.micro_batches},
          {"ranks", spec.shape.ranks()},
          {"ranks_registered", status.ranks_registered},
          {"ranks_missing", missing_json(job)},
          {"ranks_not_set", status.ranks_not_set},
          {"newest_iteration",
           status.newest_iteration < 0 ? Json(nullptr) : Json(status.newest_iteration)},
          {"version", status.version},
          {"objective", own_json(objective_json(status.objective))},
          {"pace", job.pace() ? own_json(pace_json(*job.pace())) : Json(nullptr)},
          {"pause", pause_json(job, status.pause, shown)},
          {"observed", observed_json(status.observed)},
          {"profiling", status.profiling ? progress_json(*status.profiling) : Json(nullptr)},
          {"blocking_power_w", watts_json(status.blocking_power)},
          {"stragglers", stragglers_json(status.stragglers, shown)},
          {"slow_stages", slow_stages_json(status)},
          {"slow_workers", slow_workers_json(status)},
          {"random_lateness", status.random ? Json({{"median", status.random->median},
                                                    {"most", status.random->most},
                                                    {"groups", status.random->groups}})
                                            : Json(nullptr)},
          {"rolled_back", status.rolled_back_until.has_value()},
          {"rolled_back_until",
           status.rolled_back_until ? Json(*status.rolled_back_until) : Json(nullptr)},
          {"reserve", status.reserve},
          {"stalls", status.stalls},
          {"cluster_terms", spec.cluster.empty() ? Json(nullptr) : own_json(spec.cluster)},
          {"plans", running_plans_json(job)},
          {"pipelines", pipelines_json(pipelines)},
          {"stage_clocks", stage_clocks_json(job, pipelines)},
          {"iteration_time_s", null_if_zero(status.iteration_time.value)},
          {"predicted_time_s", null_if_zero(status.predicted_time.value)},
          {"measured_all_max_time_s", null_if_zero(status.measured_all_max_time.value)},
          {"measured_all_max_energy_j", null_if_zero(status.measured_all_max_energy.value)},
          {"wait_until_s", null_if_zero(status.wait_until.value)},
          {"all_max_time_s", null_if_zero(status.all_max_time.value)},
          {"time_over_allowed", null_if_zero(status.time_over_allowed)},
          {"saved_j", status.saved.value},
          {"saved_error_j", status.saved_error.value},
          {"energy_j", status.energy.value},
          {"reports", status.reports},
          {"reports_unused", status.reports_unused},
          {"reports_refused", status.reports_refused},
          {"energies_refused", status.energies_refused},
          {"assignments_late", status.assignments_late},
          {"incarnation", job.incarnation()},
          {"refused", refusals_json(status.refused, shown)}};
}

Result<plan::Straggler> parse_straggler(std::string_view text, int pipeline, Seconds now,
                                        Seconds wall) {
  return read_document<plan::Straggler>(
      text, "the straggler", [&](Fields& fields, Diagnostics&, plan::Straggler& straggler) {
        straggler.pipeline = pipeline;
        straggler.factor =
            needed(fields, "factor", fields.number("factor", 1, plan::kMostStragglerFactor));
        const auto until = fields.number("until", 0, 1e11);
        const auto duration = fields.number("for_s", 0, kLongestTime);
        if (until && duration) fields.error("for_s", "give either \"until\" or \"for_s\"");
        if (until) straggler.until = now + (Seconds{*until} - wall);
        if (duration) straggler.until = now + Seconds{*duration};
      });
}

}  // namespace harpe::training
