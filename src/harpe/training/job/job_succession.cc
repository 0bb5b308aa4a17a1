// A job whose specification has changed: what is still true goes on.

#include <algorithm>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"

namespace harpe::training {
namespace {

/// Kinds of computations of a stage, with the model parts that they work on.
using Computations = std::set<std::tuple<InstructionKind, int, int>>;

Computations computations(const Schedule& schedule, int stage) {
  Computations found;
  for (const Instruction& one : schedule.lists[stage])
    if (!is_fixed_time(one.kind)) found.emplace(one.kind, one.part, one.backward_part);
  return found;
}

/// Whether an instruction of one costs what it costs in the other, stage by stage.
std::vector<bool> same_stages(const JobSpec& one, const JobSpec& other) {
  std::vector<bool> same(static_cast<std::size_t>(one.shape.stages));
  const Schedule& a = one.schedule;
  const Schedule& b = other.schedule;
  if (one.shape.stages != other.shape.stages || one.shape.tensor != other.shape.tensor ||
      a.placement != b.placement || a.copies != b.copies) {
    return same;
  }
  for (int stage = 0; stage < one.shape.stages; ++stage)
    same[stage] = computations(a, stage) == computations(b, stage);
  return same;
}

/// Whether a pipeline does the same in the same order, so that profiles and plans of one are those
/// of the other.
bool same_pipeline(const JobSpec& one, const JobSpec& other) {
  return one.shape.stages == other.shape.stages && one.shape.tensor == other.shape.tensor &&
         one.schedule.placement == other.schedule.placement &&
         one.schedule.copies == other.schedule.copies &&
         one.schedule.lists == other.schedule.lists && one.transfers == other.transfers;
}

bool same_given_costs(const JobSpec& one, const JobSpec& other) {
  const auto text = [](const JobSpec& spec) {
    return spec.profile ? profile_csv(*spec.profile) : std::string();
  };
  return one.blocking_power == other.blocking_power && text(one) == text(other);
}

bool same_planning(const JobSpec& one, const JobSpec& other) {
  return one.switch_latency == other.switch_latency && one.min_dwell == other.min_dwell &&
         one.plans == other.plans;
}

std::string successor_of(const std::string& incarnation) {
  const std::size_t dot = incarnation.rfind('.');
  const auto count =
      dot == std::string::npos ? 1 : parse_integer(incarnation.substr(dot + 1)).value_or(1);
  return incarnation.substr(0, dot) + "." + std::to_string(count + 1);
}

}  // namespace

void Job::State::inherit_counts(const State& before) {
  reports = before.reports;
  reports_unused = before.reports_unused;
  reports_refused = before.reports_refused;
  energies_refused = before.energies_refused;
  assignments_late = before.assignments_late;
}

/// Takes over from the state of the specification before. No rank holds a place yet.
void Job::State::succeed(State& before, Seconds now) {
  effects = std::exchange(before.effects, {});
  effects.characterize.reset();
  effects.more_plans.clear();
  effects.save = true;
  ranks.all_parts_changed();
  incarnation = successor_of(before.incarnation);
  start = before.start;
  version = before.version;
  plans_ticket = ticket = before.ticket + 1;
  newest_event = now;
  delivery = before.delivery;
  savings.inherit(before.savings);
  reported_energy = before.reported_energy;
  inherit_counts(before);
  gatherings = std::move(before.gatherings);
  proposals = std::move(before.proposals);
  std::erase_if(proposals, [](const Proposal& one) { return one.state == nullptr; });
  refusals = std::move(before.refusals);
  if (spec.objective == before.spec.objective) objective = before.objective;
  pauses = before.pauses;
  if (!spec.observe) pace = before.pace;
  if (pace && pace->pause) ask_to_pause(now);
  pace_logged = before.pace_logged;

  std::string kept = "it is measured anew";
  if (same_pipeline(spec, before.spec) && same_given_costs(spec, before.spec)) {
    if (before.profile) take_profile(*before.profile, before.blocking_power);
    measured = before.measured;
    highest_measured = before.highest_measured;
    phase = Registering{.interrupted = before.kept_profiling()};
    plans_due = before.plans_due;
    if (same_planning(spec, before.spec)) {
      plans = before.plans;
    } else {
      plans_due = profile.has_value() && !kept_profiling();
    }
    reserve = before.reserve;
    plans_for = before.plans_for;
    late_clocks.learn(before.late_clocks.learned());
    if (spec.observe) {
      // The profile is kept: a later start that is not observed plans from it.
      plans.reset();
      plans_due = profile.has_value();
    }
    const bool is_measured = profile || !measured.empty() || kept_profiling();
    if (is_measured) kept = plans ? "its profile and plans stay" : "what was measured stays";
  } else if (!spec.profile && spec.blocking_power == before.spec.blocking_power) {
    inherit_measured(before);
    if (plans_due) {
      kept = "its profile stays, and plans are made anew";
    } else if (!measured.empty()) {
      kept = "stages with other instructions are measured anew";
    }
  }
  add_event(JobEvent::Level::kInfo, now, "the job has another specification: " + kept);
}

/// What stages cost that do the same as before, however often and in whatever order.
void Job::State::inherit_measured(const State& before) {
  if (before.measured.empty()) return;
  const std::vector<bool> same = same_stages(spec, before.spec);
  if (std::ranges::find(same, true) == same.end()) return;
  measured.assign(same.size(), {});
  highest_measured = before.highest_measured;
  for (int stage = 0; stage < spec.shape.stages; ++stage) {
    if (!same[stage]) continue;
    for (const MeasuredClock& at : before.measured[stage]) {
      MeasuredClock& mine = measured[stage].emplace_back(
          MeasuredClock{.clock = at.clock, .time = {}, .energy = {}, .iteration_time = {}});
      for (const plan::WorkItem& item : work.stage(stage)) {
        const std::size_t k = *before.work.find(stage, item.kind, item.chunk);
        mine.time.push_back(at.time[k]);
        mine.energy.push_back(at.energy[k]);
      }
    }
  }
  blocking_power = before.blocking_power;
  const bool all = std::ranges::none_of(measured, [](const auto& list) { return list.empty(); });
  if (!all || blocking_power.empty() || !before.profile) return;
  profile = before.profile;
  plans_due = true;
}

}  // namespace harpe::training
