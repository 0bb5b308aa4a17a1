#include <algorithm>
#include <cmath>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/cluster.h"
#include "harpe/command/plan_cli/given_profile.h"
#include "harpe/command/plan_cli/late_replay.h"
#include "harpe/command/plan_cli/plan_output.h"
#include "harpe/command/plan_cli/premises.h"
#include "harpe/command/plan_cli/rivals.h"
#include "harpe/plan/frontier/priced_parts.h"
#include "harpe/plan/profile/counted_latency.h"

namespace harpe::command {
namespace {

constexpr double kShownSlowdown = 5e-5;  ///< the least that the table does not show as 0.00 %
constexpr double kShownDifference = 100 * kShownSlowdown;  ///< %

/// Figures of one plan: slowdown against the fastest possible iteration, saving against all-max.
struct Figures {
  std::string name;
  const Plan& plan;
  double slowdown;  ///< %
  double saving;    ///< %
  Watts power;
};

std::vector<Figures> figures_of(const Frontier& frontier, const Planned& planned,
                                const std::string& chosen) {
  const auto figures = [&](std::string name, const Plan& plan) {
    const double slowdown = 100 * (plan.iteration_time / frontier.min_time() - 1);
    const double saving = 100 * (1 - plan.iteration_energy / planned.all_max.iteration_energy);
    return Figures{.name = std::move(name),
                   .plan = plan,
                   .slowdown = slowdown,
                   .saving = saving,
                   .power = plan.iteration_energy / plan.iteration_time};
  };
  return {figures("all-max", planned.all_max), figures("fastest", planned.fastest),
          figures(chosen, planned.chosen), figures("least energy", planned.least_energy)};
}

Json figures_json(const Figures& figures) {
  const Plan& plan = figures.plan;
  return {{"iteration_time_s", plan.iteration_time.value},
          {"slowdown_percent", figures.slowdown},
          {"iteration_energy_j", plan.iteration_energy.value},
          {"saving_percent", figures.saving},
          {"average_power_w", figures.power.value},
          {"lower_bound_j", plan.lower_bound.value},
          {"gap_percent", 100 * plan.gap()},
          {"clock_changes", plan.clock_changes()}};
}

std::string heading(const Plan& plan, int profile_stages) {
  std::size_t instructions = 0;
  for (const auto& list : plan.instructions) {
    instructions += list.size();
    for (const PlannedInstruction& i : list) instructions -= i.kind == InstructionKind::kSwitch;
  }
  std::string text = plan.job.empty() ? "" : plan.job + ": ";
  text += plan.schedule + ", " + std::to_string(plan.stages) +
          (profile_stages > plan.stages
               ? " of the profile's " + std::to_string(profile_stages) + " stages"
               : " stages");
  if (plan.gpus_per_stage > 1) text += " of " + std::to_string(plan.gpus_per_stage) + " GPUs";
  text += ", " + std::to_string(plan.micro_batches) + " micro-batches, " +
          std::to_string(instructions) + " instructions";
  return text;
}

/// Returns a sentence on the part of the cost of late clocks that no search can avoid.
std::string late_bound_text(const Planned& planned, const std::string& proof) {
  const Joules least = planned.tight_bound;
  const double cost = 100 * (least / planned.free_switching->iteration_energy - 1);
  const double gap = 100 * (planned.chosen.iteration_energy / least - 1);
  return "No plan that is as fast, with clocks as late, needs less than " +
         grouped(least.value, 1) +
         (cost >= 0.0005 ? " J, " + percent_text(cost, 3) + " above the plan with free switching; "
                         : " J; ") +
         "this one needs " + percent_text(gap, 3) + " more (proof: " + proof + ")\n";
}

/// Returns a line on the latency that remains with Harpe's client; empty if all of it remains.
std::string client_text(const Frontier& frontier, const PlanJob& job) {
  const LatencyByClock& given = job.switch_latency.by_clock;
  const LatencyByClock remaining =
      plan::counted_latency(given, plan::ClockClient::kHarpe, frontier.profile());
  if (range_text(remaining) == range_text(given)) return "";
  if (job.client == plan::ClockClient::kHarpe)
    return "Harpe's client requests clocks ahead: the plan counts the remaining " +
           range_text(remaining) + " (--client harpe)\n";
  return "Harpe's client requests clocks ahead, so that " + range_text(remaining) +
         " remain: --client harpe plans with this latency\n";
}

/// Returns text such as "1.511 % more", with this number of decimals.
std::string difference_text(double percent, int decimals) {
  std::string text = percent_text(std::abs(percent), decimals);
  const bool is_less = percent < 0 && text != percent_text(0, decimals);
  return text + (is_less ? " less" : " more");
}

std::string switching_text(const Planned& planned) {
  const Plan& free = *planned.free_switching;
  const Plan& chosen = planned.chosen;
  const double cost = 100 * (chosen.iteration_energy / free.iteration_energy - 1);
  std::string text = "Clock changes: " + std::to_string(chosen.clock_changes()) + " instead of " +
                     std::to_string(free.clock_changes()) + " with free switching, for " +
                     difference_text(cost, 3) + " energy than its " +
                     grouped(free.iteration_energy.value, 1) + " J";
  // Under a power cap the late plan is slower, and may need less energy.
  const double longer = 100 * (chosen.iteration_time / free.iteration_time - 1);
  if (std::abs(longer) >= kShownDifference) text += " and " + difference_text(longer, 2) + " time";
  return text + '\n';
}

/// Returns a sentence on the clock changes of a plan that counts them as free.
std::string free_switching_text(const Planned& planned) {
  const int changes = planned.chosen.clock_changes();
  if (changes == 0) return "";
  return grouped(changes, 0) + (changes == 1 ? " clock change " : " clock changes ") +
         free_changes_words(planned, "this plan") + "; " +
         "--switch-latency 10ms plans for late clock changes\n";
}

/// Returns a sentence on the part of the gap that the bound causes; empty if it is small.
std::string tight_bound_text(const Planned& planned, const std::string& proof) {
  const Plan& chosen = planned.chosen;
  const double tight_gap = 100 * (chosen.iteration_energy / planned.tight_bound - 1);
  const double gap = 100 * chosen.gap();
  if (gap - tight_gap < 0.002) return "";
  return "Of the chosen plan's gap, " + percent_text(gap - tight_gap, 3) +
         " is due to the bound, which mixes clocks as no plan can: no plan that is as fast needs "
         "less than " +
         grouped(planned.tight_bound.value, 1) + " J; this one needs " +
         percent_text(tight_gap, 3) + " more (proof: " + proof + ")\n";
}

std::string note_text(const std::string& note, bool coloured) {
  const std::string plain = "note:";
  return painted(plain, Paint::kBold, coloured) +
         wrapped_text(plain + ' ' + note, kTextColumns).substr(plain.size());
}

Table figures_table(const Frontier& frontier, const Planned& planned, const std::string& chosen) {
  Table table = Table::of({"", "time s", "slowdown", "energy J", "saving", "power W", "gap"});
  for (const Figures& f : figures_of(frontier, planned, chosen)) {
    table.add({f.name, fixed(f.plan.iteration_time.value, 4), percent_text(f.slowdown, 2),
               grouped(f.plan.iteration_energy.value, 1), percent_text(f.saving, 2),
               grouped(f.power.value, 1), percent_text(100 * f.plan.gap(), 3)},
              table.rows.size() == 2);
  }
  return table;
}

/// Returns the figures, with the objective beside the chosen plan, and an empty line. If that makes
/// rows too long, the objective is in a line below them.
std::string figures_text(const Frontier& frontier, const Planned& planned, const PlanJob& job,
                         bool coloured) {
  const std::string objective = text_of(job.objective);
  const auto text = [&](const std::string& chosen, bool painted) {
    return figures_table(frontier, planned, chosen).text(painted);
  };
  const std::string chosen = "chosen (" + objective + ")";
  if (text(chosen, false).find('\n') <= kTextColumns) return text(chosen, coloured) + '\n';
  return text("chosen", coloured) + '\n' + wrapped_text("chosen: " + objective, kTextColumns);
}

/// Returns the meaning and the consequences of the table, a sentence or two on each line.
std::string sentences(const Frontier& frontier, const PlanJob& job, const Planned& planned,
                      const std::string& proof) {
  std::string text =
      "slowdown: against the fastest possible iteration; saving: against all-max (every clock at "
      "its maximum); gap: proven distance to the least energy possible at that time\n";
  if (job.objective.is_straggler()) {
    text += "All of these plans wait for the straggler; time and energy include this\n";
  } else if (planned.all_max.iteration_time > frontier.min_time() * (1 + kShownSlowdown)) {
    text +=
        "all-max is not the fastest plan: some instructions are faster below their highest clock\n";
  }
  text += rivals_text(frontier, planned);
  const std::string lateness = latency_sentence(job.switch_latency);
  if (!lateness.empty()) text += lateness + '\n';
  if (planned.free_switching) {
    if (job.switch_latency.by_clock.longest() > Seconds{0}) text += client_text(frontier, job);
    text += switching_text(planned);
    text += late_bound_text(planned, proof);
  } else {
    text += free_switching_text(planned);
    text += tight_bound_text(planned, proof);
  }
  return text;
}

}  // namespace

std::string summary_text(const Frontier& frontier, const PlanJob& job, const Planned& planned,
                         const std::vector<std::string>& notes,
                         const std::vector<std::string>& files, bool coloured) {
  std::string text = synthetic_line(planned.chosen.synthetic, coloured);
  text += wrapped_text(heading(planned.chosen, frontier.profile().stages()), kTextColumns);
  // The warning about stages was printed before.
  const auto warned = plan::note_on_stages(frontier.pipeline().schedule(), frontier.profile());
  for (const std::string& premise : planned.premises) {
    if (premise != warned) text += note_text(premise, coloured);
  }
  text += '\n' + figures_text(frontier, planned, job, coloured);
  std::string proof = "--certificate";
  for (const std::string& file : files)
    if (file.ends_with("certificate.json")) proof = file;
  text += wrapped_lines(sentences(frontier, job, planned, proof), kTextColumns);
  for (const std::string& note : notes) text += note_text(note, coloured);
  if (!files.empty()) {
    text += "\nWritten:\n";
    for (const std::string& file : files) text += "  " + file + '\n';
  }
  if (planned.cluster) {
    std::string bill = cluster_text(*planned.cluster, cluster_costs(planned));
    if (job.objective.is_straggler())
      bill += "The straggler is counted like the other pipelines.\n";
    text += '\n' + wrapped_lines(bill, kTextColumns);
  }
  return text;
}

std::string summary_json(const Frontier& frontier, const PlanJob& job, const Planned& planned,
                         const std::vector<std::string>& notes,
                         const std::vector<std::string>& files) {
  const Plan& chosen = planned.chosen;
  Json document;
  document["synthetic"] = chosen.synthetic;
  document["job"] = chosen.job;
  document["schedule"] = chosen.schedule;
  document["stages"] = chosen.stages;
  document["microbatches"] = chosen.micro_batches;
  document["chunks"] = chosen.chunks;
  document["gpus_per_stage"] = chosen.gpus_per_stage;
  document["objective"] = text_of(job.objective);
  document["switch_latency_s"] = latency_json(job.switch_latency.by_clock);
  document["latency_table"] = latency_table_json(job.switch_latency);
  document["frontier"] = {{"min_time_s", frontier.min_time().value},
                          {"least_energy_time_s", frontier.least_energy_time().value},
                          {"max_time_s", frontier.max_time().value},
                          {"breakpoints", frontier.breakpoints()}};
  Json plans;
  const std::vector<Figures> all = figures_of(frontier, planned, "chosen");
  for (const Figures& figures : all) {
    std::string key = figures.name;
    std::ranges::replace(key, ' ', '_');
    std::ranges::replace(key, '-', '_');
    plans[key] = figures_json(figures);
  }
  if (planned.free_switching) {
    plans["free_switching"] = {
        {"iteration_time_s", planned.free_switching->iteration_time.value},
        {"iteration_energy_j", planned.free_switching->iteration_energy.value},
        {"clock_changes", planned.free_switching->clock_changes()}};
  }
  if (planned.late_replay) plans["late_replay"] = late_replay_json(planned);
  if (job.switch_latency.by_clock.longest() > Seconds{0}) {
    const LatencyByClock counted =
        plan::counted_latency(job.switch_latency.by_clock, job.client, frontier.profile());
    document["client"] = job.client == plan::ClockClient::kHarpe ? "harpe" : "any";
    document["counted_latency_s"] = counted.longest().value;
  }
  plans["chosen"]["tight_bound_j"] = planned.tight_bound.value;
  document["plans"] = std::move(plans);
  document["rivals"] = rivals_json(frontier, planned);
  if (planned.cluster) document["cluster"] = cluster_json(*planned.cluster, cluster_costs(planned));
  if (const auto& search = planned.search) {
    document["search"] = {{"seconds", search->seconds},
                          {"windows", search->windows},
                          {"gap_before_percent", 100 * search->gap_before},
                          {"gap_percent", 100 * search->gap},
                          {"interrupted", search->is_interrupted}};
  }
  document["notes"] = planned.premises;
  for (const std::string& note : notes) document["notes"].push_back(note);
  if (job.switch_latency.is_found)
    document["notes"].push_back(latency_sentence(job.switch_latency));
  document["files"] = files;
  return json_text(document);
}

}  // namespace harpe::command
