#include "harpe/command/cli/tuning_view.h"

#include <cmath>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/quantity_text.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/zeus/tuning/tuning_json.h"

namespace harpe {
namespace {

std::string percent(double share) {
  return fixed(share * 100, 1) + " %";
}

std::string objective_text(const TuningReport& report) {
  std::string text = "least " + selector_name(report.selector.kind);
  if (report.selector.kind == Selector::Kind::kCost) {
    text += " (eta " + shortest(report.selector.eta) + ")";
  }
  if (report.selector.most_slowdown) {
    text += ", at most " + shortest((*report.selector.most_slowdown - 1) * 100, 3) + " % slower";
  }
  if (report.measures_node) text += ", with what the CPUs and their memory use";
  if (report.selector.host_power.value > 0) {
    text += ", with " + shortest(report.selector.host_power.value) + " W of the node";
  }
  return text;
}

std::string settings_table(const TuningResult& result, bool coloured) {
  Table table = Table::of({"setting", "time a step", "energy a step", "for"}, 0);
  table.columns.push_back({.heading = "", .align = Align::kLeft});
  for (std::size_t i = 0; i < result.knob.size(); ++i) {
    if (!is_measured(result, i)) continue;
    const StepCost& cost = result.costs[i];
    const bool is_choice = result.choice == i;
    std::string remark = i == 0 ? "highest" : "";
    if (is_choice) {
      remark += (remark.empty() ? "" : ", ");
      remark += result.decided ? "chosen" : "best so far";
    }
    table.add({result.knob.text(i), fixed(cost.time.value, 4) + " s",
               fixed(cost.energy.value, 2) + " J +- " + fixed(cost.error.value, 2),
               counted(static_cast<std::size_t>(result.steps_under[i]), "step"), remark},
              is_choice);
  }
  return table.rows.empty() ? "" : table.text(coloured);
}

std::string saving_text(const TuningReport& report) {
  const TuningResult& result = report.result;
  const Saving& saving = result.saving;
  const bool with_node = report.measures_node || report.selector.host_power.value > 0;
  std::string text = std::string("Against the highest setting, profiling") +
                     (with_node ? " and the node's power" : "") + " included: ";
  if (std::abs(saving.saved.value) <= saving.error.value) {
    return text + "nothing that is certain was saved (" + joules_text(saving.saved) + " +- " +
           joules_text(saving.error) + ").";
  }
  const bool is_saved = saving.saved.value > 0;
  text += joules_text(is_saved ? saving.saved : -saving.saved) + " +- " +
          joules_text(saving.error) + (is_saved ? " saved (" : " MORE (");
  text += percent(std::abs(saving.saved / saving.at_highest)) + ")";
  if (const auto slower = slowdown_of(result)) {
    text += "; a step at the setting chosen takes " + percent(std::abs(*slower)) +
            (*slower >= 0 ? " longer" : " less");
  }
  return text + ".";
}

std::string choice_text(const TuningReport& report) {
  const TuningResult& result = report.result;
  const std::string chosen = result.choice ? result.knob.text(*result.choice) : "";
  if (!result.choice) return "No setting was measured before the end.";
  if (!result.decided) {
    return "No setting was chosen before the end; of those measured " + chosen + " is the best.";
  }
  if (result.from_profile) return chosen + " was chosen by what an earlier run measured.";
  std::size_t measured = 0;
  for (std::size_t i = 0; i < result.costs.size(); ++i) measured += is_measured(result, i) ? 1 : 0;
  if (!is_measured(result, *result.choice)) {
    return chosen + " was chosen: a model of " + std::to_string(measured) +
           " settings measured expects the best of it.";
  }
  std::string text =
      chosen + " was chosen: the best of " + std::to_string(measured) + " settings measured.";
  if (result.profilings > 1) {
    text += " The job changed, and was profiled " + std::to_string(result.profilings) + " times.";
  }
  return text;
}

std::string advice_text(const TuningReport& report) {
  const TuningResult& result = report.result;
  if (!is_measured(result, 0)) return "";
  const StepCost& found = result.costs[0];
  std::string text = "Measured as it was: " + fixed(found.time.value, 4) + " s and " +
                     fixed(found.energy.value, 2) + " J +- " + fixed(found.error.value, 2) +
                     " a step. ";
  if (!report.advice) return text + "No lower power limit promises anything.";
  const Advice& advice = *report.advice;
  const std::string setting = report.could_be.text(advice.setting);
  return text + "A model fitted to other jobs expects of " + setting + " about " +
         fixed(advice.saving * 100, 0) + " % fewer joules, " + fixed(advice.slowdown * 100, 0) +
         " % longer: with an agent that allows it (docs/agent.md) this command would find out; "
         "root sets it with: harpe limit set " +
         shortest(report.could_be[advice.setting]) + "W";
}

}  // namespace

std::string tuning_text(const TuningReport& report, int columns, bool coloured) {
  const TuningResult& result = report.result;
  std::vector<std::string> lines;
  std::string text = painted("optimized:", Paint::kBold, coloured) + " " + objective_text(report) +
                     "; " + std::to_string(result.steps) + " steps\n";
  if (!report.why_nothing_was_set.empty()) {
    lines.push_back("Nothing was set: " + report.why_nothing_was_set);
  }
  if (!result.failure.empty()) lines.push_back("Tuning ended early: " + result.failure);
  if (result.steps == 0) {
    lines.emplace_back(
        "No step was seen: the command must append a line to the file that HARPE_STEPS names as "
        "each step begins, echo >> \"$HARPE_STEPS\" (docs/zeus.md).");
  } else if (report.why_nothing_was_set.empty()) {
    text += settings_table(result, coloured);
    lines.push_back(choice_text(report));
    lines.push_back(saving_text(report));
  } else {
    lines.push_back(advice_text(report));
  }
  if (report.ignored_lines > 0) {
    lines.push_back(std::to_string(report.ignored_lines) +
                    " lines of the file of steps were neither empty, 'step' nor 'epoch'.");
  }
  if (report.refused_lines > 0) {
    lines.push_back(std::to_string(report.refused_lines) +
                    " lines of the file of steps came faster than steps can be and were not "
                    "counted.");
  }
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  for (const std::string& line : lines) {
    if (!line.empty()) text += wrapped_text(line, columns);
  }
  return text;
}

}  // namespace harpe
