// The statement of an inventory's method.
//
// The SCI requirements follow the specification of the Green Software Foundation (1.1, the base of
// ISO/IEC 21031:2024): E in kWh with the site's overhead, a location-based I of any one kind, M by
// share of a device's life, R named, boundary and method disclosed.

#include <algorithm>
#include <cmath>
#include <set>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/carbon_cli/account_words.h"
#include "harpe/command/carbon_cli/inventory_view.h"

namespace harpe::command {
namespace {

constexpr double kSecondsPerHour = 3600;

/// Returns text such as "a, b and c"; empty for no parts.
std::string list_text(const std::set<std::string>& parts) {
  std::string text;
  std::size_t i = 0;
  for (const std::string& part : parts) {
    if (i > 0) text += i + 1 == parts.size() ? " and " : ", ";
    text += part;
    ++i;
  }
  return text;
}

/// Joins with semicolons, since names of meters contain commas.
std::string semicolons_text(const std::set<std::string>& parts) {
  std::string text;
  for (const std::string& part : parts) text += (text.empty() ? "" : "; ") + part;
  return text;
}

std::string hours_text(Seconds time) {
  const double hours = time.value / kSecondsPerHour;
  return grouped(hours, hours < 1 ? 4 : 2);
}

/// Returns the length of an interval: "15 min", "90 s".
std::string step_text(carbon::WholeSeconds step) {
  const std::int64_t seconds = step.count();
  return seconds % 60 == 0 ? std::to_string(seconds / 60) + " min" : std::to_string(seconds) + " s";
}

std::string energy_sentence(const CarbonInventory& inventory) {
  const carbon::EnergyUse& used = inventory.total.used;
  std::set<std::string> steps;
  for (const carbon::LedgerRun& run : inventory.runs) {
    steps.insert(step_text(run.ledger.step()));
  }
  std::string text = "Energy: " + kilowatt_hours_text(used.energy, energy_unit(inventory)) +
                     " of devices, from " + carbon::utc_text(inventory.total.begin) + " to " +
                     carbon::utc_text(inventory.total.end) + ", in " +
                     counted(inventory.runs.size(), "run") + ", recorded in intervals of " +
                     list_text(steps) + " in UTC. ";
  if (used.without_error < used.energy && used.variance > 0) {
    text += "Known errors of measurement: ± " +
            kilowatt_hours_text(used.half_width(), energy_unit(inventory)) + " (95 %)";
    if (used.without_error.value > 0) {
      text += "; for " + share_text(used.without_error / used.energy) +
              " of the energy they are not known";
    }
    text += ". ";
  } else {
    text += "Errors of measurement are not known. ";
  }
  text += used.sensor_error.value > 0
              ? "Sensors may have an additional error of " +
                    kilowatt_hours_text(used.sensor_error, energy_unit(inventory)) +
                    ", all in one direction."
              : "The error of the sensors is not known; their manufacturers state about 5 %.";
  return text;
}

std::string boundary_sentence(const CarbonInventory& inventory) {
  const carbon::EnergyUse& used = inventory.total.used;
  std::set<std::string> meters, missing;
  for (const carbon::LedgerRun& run : inventory.runs) {
    meters.insert(run.meters.begin(), run.meters.end());
    missing.insert(run.notes.begin(), run.notes.end());
  }
  std::string text =
      "Boundary: " + (meters.empty() ? "the measurements in the files" : semicolons_text(meters)) +
      "; " +
      (used.host.value > 0 ? share_text(used.host / used.energy) + " of it CPUs and their memory"
                           : "no CPUs, memory or other parts of hosts") +
      "; no network, no storage. Devices were held for " + hours_text(used.device_time) +
      " device-hours";
  if (used.unmeasured() > 0.005 * used.device_time) {
    text += ", of which the energy of " + hours_text(used.unmeasured()) +
            " is not known and not included";
  }
  text += '.';
  for (const std::string& note : missing) text += " Note: " + note + ".";
  return text;
}

std::string site_sentence(const CarbonInventory& inventory) {
  const double pue = inventory.terms.account.pue;
  if (pue == 1) {
    return "Site: no PUE was given, so energy for cooling and power supply is not included.";
  }
  return "Site: energy times a PUE of " + shortest(pue) + ", as given, " +
         kilowatt_hours_text(inventory.total.site, energy_unit(inventory)) + ".";
}

void add_intensity(const std::string& word, const std::string& source,
                   const carbon::AccountingIntensity& intensity,
                   const carbon::CarbonAccount& account, std::vector<std::string>& lines) {
  std::string text = word + ": " + source + " (" +
                     std::string(text_of(intensity.intensity.series.kind)) +
                     (intensity.data_source.empty() ? "" : ", " + intensity.data_source) + ")";
  if (intensity.identity.provider != "constant") {
    text += ", intervals of " + step_text(intensity.intensity.series.step);
  }
  const std::string fetched = fetched_text(intensity);
  if (!fetched.empty()) text += ", " + fetched;
  text += ". By energy: " + basis_text(account) + ".";
  if (!intensity.method.empty()) text += " " + intensity.method + ".";
  lines.push_back(text);
}

std::string sum_sentence(const CarbonInventory& inventory) {
  const carbon::CarbonAccount& total = inventory.total;
  std::string text =
      "Grams: the sum over all intervals of energy times the intensity of the interval; within an "
      "interval, energy is spread evenly. ± is the error of measurement (95 %) plus the error of "
      "the sensors; providers state no error of their intensities.";
  if (total.without_intensity().value > 0) {
    text += " " + kilowatt_hours_text(total.without_intensity(), energy_unit(inventory)) +
            " have no intensity and are not included in the grams.";
  }
  return text;
}

std::string embodied_sentence(const CarbonInventory& inventory) {
  const auto& embodied = inventory.terms.account.embodied;
  if (!embodied) return "Embodied carbon is not included: no mass of CO2 per device was given.";
  const double years = embodied->lifetime.value / (365.25 * 86'400);
  return "Embodied: " + mass_text(inventory.total.embodied, mass_unit(inventory)) +
         ", the share of " + shortest(embodied->mass.value / 1000) + " kg per device for " +
         hours_text(inventory.total.used.device_time) + " device-hours of " + shortest(years, 2) +
         " years of use. Mass and lifetime are the user's values, an assumption unless they are "
         "from an assessment of that device.";
}

}  // namespace

std::string inventory_sentence(const CarbonInventory& inventory) {
  const carbon::CarbonAccount& total = inventory.total;
  std::string text = counted(inventory.runs.size(), "run") + " used " +
                     kilowatt_hours_text(total.site, energy_unit(inventory)) +
                     (inventory.terms.account.pue == 1 ? "" : " (with the site's overhead)");
  if (total.without_intensity() >= total.site)
    return text + "; no intensity is known for that time.";
  text += " and emitted " +
          mass_text(total.operational, total.uncertainty(), mass_unit(inventory)) +
          " CO2eq of operation, at " + shortest(total.grams_per_kwh(), 1) + " g/kWh (" +
          std::string(text_of(total.kind)) + ", " +
          inventory.source.substr(0, inventory.source.find('?')) + ")";
  if (total.without_intensity().value > 0) {
    text += ", without " + kilowatt_hours_text(total.without_intensity(), energy_unit(inventory)) +
            " that have no intensity";
  }
  if (inventory.terms.account.embodied)
    text += ", and " + mass_text(total.embodied, mass_unit(inventory)) + " embodied";
  return text + ".";
}

std::string sci_sentence(const CarbonInventory& inventory) {
  const carbon::CarbonAccount& total = inventory.total;
  const FunctionalUnit& unit = inventory.terms.unit;
  const double units = inventory.units();
  if (total.without_intensity().value > 0) {
    return "SCI is not stated: a part of the energy has no intensity.";
  }
  if (units <= 0) {
    return "SCI is not stated: the number of units of '" + unit.name + "' is not known.";
  }
  const std::string per =
      " per " + unit.name +
      " (R = " + (units == std::round(units) ? grouped(units, 0) : grouped(units, 3)) + ")";
  const TextUnit mass = mass_unit_per_unit(inventory);
  const std::string kind = std::string(text_of(total.kind));
  if (!inventory.terms.account.embodied) {
    return "O = E x I = " + mass_text(total.operational / units, mass) + " CO2eq" + per + ", I " +
           kind + ". It is only the operational part of SCI: SCI also needs M (--embodied).";
  }
  return "SCI = (E x I + M) per R = " + mass_text(total.total() / units, mass) + " CO2eq" + per +
         ": E x I = " + mass_text(total.operational / units, mass) + ", I " + kind +
         ", M = " + mass_text(total.embodied / units, mass) + " (ISO/IEC 21031:2024).";
}

std::vector<std::string> method_statement(const CarbonInventory& inventory) {
  std::vector<std::string> lines = {energy_sentence(inventory), boundary_sentence(inventory),
                                    site_sentence(inventory)};
  for (const InventoryStretch& stretch : inventory.stretches) {
    const std::string time =
        inventory.stretches.size() == 1
            ? std::string()
            : " of " + carbon::utc_text(stretch.from) + " to " + carbon::utc_text(stretch.to);
    const auto add = [&](const std::string& basis, const std::string& source,
                         const carbon::AccountingIntensity& intensity) {
      carbon::CarbonAccount account;
      for (std::size_t i = 0; i < inventory.runs.size(); ++i) {
        if (&stretch != &inventory.stretches[inventory.stretch_of[i]]) continue;
        const carbon::CarbonAccount one = carbon::account_for(
            inventory.runs[i].ledger, intensity.intensity, inventory.terms.account);
        for (std::size_t k = 0; k < carbon::kIntensityBases; ++k)
          account.by_basis[k] += one.by_basis[k];
        account.site += one.site;
      }
      add_intensity("Intensity" + time + ", " + basis, source, intensity, account, lines);
    };
    add("location-based", inventory.source, stretch.intensity);
    if (stretch.contract) add("market-based", inventory.contract_source, *stretch.contract);
  }
  lines.push_back(sum_sentence(inventory));
  lines.push_back(embodied_sentence(inventory));
  if (inventory.terms.unit.name == "token" && !inventory.terms.unit.count) {
    lines.emplace_back(
        "Tokens: iterations that ranks reported, times the tokens per iteration in the job's terms "
        "of carbon control at the time when its energy was requested.");
  }
  const std::string warning = kind_warning(inventory.total.kind, false);
  if (!warning.empty()) lines.push_back(warning);
  if (inventory.total_contract) lines.push_back(kind_warning(inventory.total_contract->kind, true));
  std::set<std::string> notes(inventory.notes.begin(), inventory.notes.end());
  for (const InventoryStretch& stretch : inventory.stretches) {
    notes.insert(stretch.intensity.notes.begin(), stretch.intensity.notes.end());
  }
  for (const std::string& note : notes) lines.push_back("Note: " + note + ".");
  if (inventory.simulated()) {
    lines.emplace_back("GPUs are simulated: these figures are not from real devices.");
  }
  return lines;
}

}  // namespace harpe::command
