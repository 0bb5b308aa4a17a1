#include "harpe/command/cli/run_report.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "harpe/base/json_text.h"
#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/ledger_json.h"
#include "harpe/command/carbon_cli/account_words.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/shell_words.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/zeus/tuning/tuning_json.h"

namespace harpe::command {
namespace {

/// Most values of a provider in a report, for over a year of hours. Longer series are left out, as
/// they can be requested again.
constexpr std::size_t kMostIntensitiesShown = 10'000;

std::string signal_text(int signal) {
  const char* name = ::sigabbrev_np(signal);
  return name == nullptr ? "signal " + std::to_string(signal) : "SIG" + std::string(name);
}

std::string end_text(const ChildExit& exit) {
  if (exit.signal != 0) return "ended by " + signal_text(exit.signal);
  if (exit.status != 0) return "exit status " + std::to_string(exit.status);
  return "";
}

Grams embodied_share_of_all(const RunReport& report) {
  return embodied_share(*report.embodied, report.used.time) * static_cast<double>(report.gpus());
}

void add_operational_lines(const RunEmissions& carbon, std::vector<std::string>& lines) {
  if (!carbon.intensity) {
    lines.push_back("No CO2 is reported: there is no carbon intensity from " + carbon.source +
                    " (" + carbon.why +
                    "). `harpe carbon report` can compute it later from --out FILE.");
    return;
  }
  const carbon::CarbonAccount& account = carbon.account;
  const bool is_number = carbon.intensity->identity.provider == "constant";
  if (account.without_intensity() >= account.site) {
    lines.push_back("No CO2 is reported: " + carbon.source +
                    " has no carbon intensity for this time");
  } else {
    const std::string at = is_number ? shortest(account.grams_per_kwh(), 6)
                                     : shortest(account.grams_per_kwh(), 1) + " g/kWh on average";
    lines.push_back(mass_text(account.operational) + " CO2eq of operation, at " + at +
                    (is_number ? " g/kWh" : "") + " (" + intensity_label(*carbon.intensity) +
                    (is_number ? "" : "; by energy " + basis_text(account)) + ")");
    if (account.without_intensity().value > 0) {
      lines.push_back(kilowatt_hours_text(account.without_intensity()) +
                      " of the energy have no carbon intensity and are not included");
    }
  }
  const std::string warning = kind_warning(account.kind, account.market_based);
  if (!warning.empty()) lines.push_back(warning);
  for (const std::string& note : carbon.intensity->notes)
    lines.push_back(carbon.source + ": " + note);
}

std::vector<std::string> carbon_lines(const RunReport& report) {
  std::vector<std::string> lines;
  if (report.carbon && report.measured()) add_operational_lines(*report.carbon, lines);
  if (report.embodied && report.gpus() > 0) {
    lines.push_back(mass_text(embodied_share_of_all(report)) +
                    " CO2eq embodied: the share of this run in making " +
                    counted(report.gpus(), "GPU") + ", " +
                    shortest(report.embodied->mass.value / 1000) + " kg each");
  }
  return lines;
}

Json carbon_json(const RunReport& report) {
  if (!report.carbon || !report.measured()) return nullptr;
  const RunEmissions& carbon = *report.carbon;
  if (!carbon.intensity) return {{"specification", carbon.source}, {"error", carbon.why}};
  const carbon::CarbonAccount& account = carbon.account;
  const bool known = account.site > account.without_intensity();
  Json json = {{"grams", known ? Json(account.operational.value) : Json(nullptr)},
               {"grams_per_kwh", known ? Json(account.grams_per_kwh()) : Json(nullptr)},
               {"kind", text_of(account.kind)},
               {"zone", carbon.intensity->intensity.series.zone},
               {"source", carbon.intensity->data_source},
               {"specification", carbon.source}};
  json["account"] = account_json(account);
  json["intensity"] = intensity_json(*carbon.intensity, kMostIntensitiesShown);
  return json;
}

/// Returns the reason that there is no energy, and remedies.
std::string nothing_text(const RunReport& report, int columns) {
  if (report.unanswered) {
    return "Only the time was measured: a driver did not answer after the command had ended.\n";
  }
  const bool none = report.used.devices.empty();
  std::string text =
      wrapped_text(none ? "Only the time was measured: this machine has no GPU, and no CPU whose "
                          "energy can be read."
                        : "Only the time was measured: no device reported its energy.",
                   columns);
  for (const BackendState& backend : report.backends) {
    text += wrapped_text("  " + backend.name + ": " + backend.detail, columns, 4);
  }
  if (report.carbon) text += "Without energy, no CO2 can be computed.\n";
  if (report.used.devices.empty())
    text += simulation_hint("run", " -- " + shell_text(report.command));
  return text;
}

std::string percent(double share) {
  return fixed(share * 100, 1) + " %";
}

std::string objective_text(const zeus::TuningReport& report) {
  std::string text = "least " + zeus::selector_name(report.selector.kind);
  if (report.selector.kind == zeus::Selector::Kind::kCost) {
    text += " (eta " + shortest(report.selector.eta) + ")";
  }
  if (report.selector.most_slowdown) {
    text += ", at most " + shortest((*report.selector.most_slowdown - 1) * 100, 3) + " % slower";
  }
  if (report.measures_node) text += ", including the CPUs and their memory";
  if (report.selector.host_power.value > 0) {
    text += ", including " + shortest(report.selector.host_power.value) + " W of the node";
  }
  return text;
}

std::string settings_table(const zeus::TuningResult& result, bool coloured) {
  Table table = Table::of({"setting", "time a step", "energy a step", "for"}, 0);
  table.columns.push_back({.heading = "", .align = Align::kLeft});
  for (std::size_t i = 0; i < result.knob.size(); ++i) {
    if (!zeus::is_measured(result, i)) continue;
    const zeus::StepCost& cost = result.costs[i];
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

std::string saving_text(const zeus::TuningReport& report) {
  const zeus::TuningResult& result = report.result;
  const zeus::Saving& saving = result.saving;
  const bool with_node = report.measures_node || report.selector.host_power.value > 0;
  std::string text = std::string("Against the highest setting, profiling") +
                     (with_node ? " and the node's power" : "") + " included: ";
  if (saving.saved == Joules{0} && saving.error == Joules{0}) return text + "no saving.";
  if (std::abs(saving.saved.value) <= saving.error.value) {
    return text + "the saving cannot be distinguished from zero (" + joules_text(saving.saved) +
           " +- " + joules_text(saving.error) + ").";
  }
  const bool is_saved = saving.saved.value > 0;
  text += joules_text(is_saved ? saving.saved : -saving.saved) + " +- " +
          joules_text(saving.error) + (is_saved ? " saved (" : " MORE (");
  text += percent(std::abs(saving.saved / saving.at_highest)) + ")";
  if (const auto slower = zeus::slowdown_of(result)) {
    text += "; a step at the chosen setting takes " + percent(std::abs(*slower)) +
            (*slower >= 0 ? " longer" : " less");
  }
  return text + ".";
}

std::string choice_text(const zeus::TuningReport& report) {
  const zeus::TuningResult& result = report.result;
  const std::string chosen = result.choice ? result.knob.text(*result.choice) : "";
  if (!result.choice) return "No setting was measured before the end.";
  if (!result.decided) {
    return "No setting was chosen before the end; " + chosen + " is the best of those measured.";
  }
  if (result.from_profile) return chosen + " was chosen from the measurements of an earlier run.";
  std::size_t measured = 0;
  for (std::size_t i = 0; i < result.costs.size(); ++i)
    measured += zeus::is_measured(result, i) ? 1 : 0;
  if (measured == 0) {
    return "No setting was measured. " + chosen + " was kept.";
  }
  if (!zeus::is_measured(result, *result.choice)) {
    return chosen + " was chosen: a model of " + std::to_string(measured) +
           " measured settings predicts that it is the best.";
  }
  std::string text =
      chosen + " was chosen: the best of " + std::to_string(measured) + " measured settings.";
  if (result.profilings > 1) {
    text += " The job changed, and was profiled " + std::to_string(result.profilings) + " times.";
  }
  return text;
}

std::string advice_text(const zeus::TuningReport& report) {
  const zeus::TuningResult& result = report.result;
  if (!zeus::is_measured(result, 0)) return "";
  const zeus::StepCost& found = result.costs[0];
  std::string text = "Measured at the present setting: " + fixed(found.time.value, 4) + " s and " +
                     fixed(found.energy.value, 2) + " J +- " + fixed(found.error.value, 2) +
                     " a step. ";
  if (!report.advice) return text + "No lower power limit is expected to help.";
  const zeus::Advice& advice = *report.advice;
  const std::string setting = report.could_be.text(advice.setting);
  return text + "A model fitted to other jobs predicts for " + setting + " about " +
         fixed(advice.saving * 100, 0) + " % less energy and " + fixed(advice.slowdown * 100, 0) +
         " % more time. With an agent that allows it (docs/agent.md), this command measures it; "
         "root can set it with: harpe limit set " +
         shortest(report.could_be[advice.setting]) + "W";
}

}  // namespace

int RunReport::gpus() const {
  return static_cast<int>(
      std::ranges::count(used.devices, DeviceEnergy::Kind::kGpu, &DeviceEnergy::kind));
}

bool RunReport::measured() const {
  return total_of(used).source != EnergySource::kNone;
}

std::string run_text(const RunReport& report, int columns, bool coloured) {
  const EnergyEstimate total = total_of(report.used);
  const std::string end = end_text(report.exit);
  std::string text = "\n" + painted("harpe run:", Paint::kBold, coloured) + " " +
                     shell_text(report.command) + (end.empty() ? "" : " (" + end + ")") + "\n" +
                     seconds_text(report.used.time.value);
  if (total.source == EnergySource::kNone) {
    text += "\n" + nothing_text(report, columns);
  } else {
    text += ", " + energy_text(total);
    text += error_known(total) ? ", " + fixed(total.mean_power().value, 1) + " W\n" : "\n";
    text += energy_table(report.used, columns, coloured);
    for (const std::string& line : carbon_lines(report)) text += wrapped_text(line, columns);
  }
  for (const std::string& line : energy_remarks(report.used)) text += wrapped_text(line, columns);
  if (report.tuning) text += tuning_text(*report.tuning, columns, coloured);
  for (const std::string& note : report.notes) text += wrapped_text(note, columns);
  if (report.simulated) text += painted(kSimulatedRemark, Paint::kBold, coloured) + "\n";
  return text;
}

std::string run_json(const RunReport& report) {
  Json document = {
      {"format", "harpe.run/1"},
      {"id", report.id},
      {"command", report.command},
      {"exit_status", report.exit.status},
      {"signal", report.exit.signal == 0 ? Json() : Json(signal_text(report.exit.signal))},
      {"simulated", report.simulated}};
  document.update(energy_json(report.used));
  document["carbon"] = carbon_json(report);
  document["embodied"] = nullptr;
  if (report.embodied && report.gpus() > 0) {
    document["embodied"] = {{"grams", embodied_share_of_all(report).value},
                            {"grams_per_gpu", report.embodied->mass.value},
                            {"lifetime_s", report.embodied->lifetime.value}};
  }
  document["intervals"] =
      report.measured() ? own_json(carbon::intervals_json(report.ledger)) : Json(nullptr);
  if (report.tuning) document["optimize"] = zeus::tuning_json(*report.tuning);
  document["notes"] = report.notes;
  Json backends = Json::array();
  for (const BackendState& backend : report.backends) {
    backends.push_back(
        {{"name", backend.name}, {"available", backend.available}, {"detail", backend.detail}});
  }
  document["backends"] = std::move(backends);
  return json_text(document);
}

std::string tuning_text(const zeus::TuningReport& report, int columns, bool coloured) {
  const zeus::TuningResult& result = report.result;
  std::vector<std::string> lines;
  std::string text = painted("optimized:", Paint::kBold, coloured) + " " + objective_text(report) +
                     "; " + std::to_string(result.steps) + " steps\n";
  if (!report.why_nothing_was_set.empty()) {
    lines.push_back("Nothing was set: " + report.why_nothing_was_set);
  }
  if (!result.failure.empty()) lines.push_back("Tuning ended early: " + result.failure);
  if (result.steps == 0) {
    lines.emplace_back(
        "No step was recorded: the command must append a line to the file that HARPE_STEPS names "
        "at the beginning of each step: echo >> \"$HARPE_STEPS\" (docs/zeus.md).");
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
    lines.push_back(
        std::to_string(report.refused_lines) +
        " lines of the file of steps followed too fast to be steps and were not counted.");
  }
  lines.insert(lines.end(), report.notes.begin(), report.notes.end());
  for (const std::string& line : lines) {
    if (!line.empty()) text += wrapped_text(line, columns);
  }
  return text;
}

}  // namespace harpe::command
