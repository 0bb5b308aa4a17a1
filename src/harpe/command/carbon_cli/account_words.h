#pragma once
/// \file
/// Accounts in words and as JSON: what `harpe run --carbon` and `harpe carbon report` share. Only
/// for `.cc` files.

#include <string>
#include <vector>

#include "harpe/carbon/carbon/carbon_account.h"
#include "harpe/carbon/carbon_source/accounting_intensity.h"
#include "harpe/command/command/json_output.h"

namespace harpe::command {

/// The unit that a text uses for all quantities of one kind, so that they can be compared.
struct TextUnit {
  double size;       ///< in grams or joules
  const char* name;  ///< "kg"
  int decimals;      ///< of numbers near the quantity that the unit was chosen for
};

/// The largest unit that is no larger than the mass: t, kg, g, mg, µg or ng.
TextUnit mass_unit(Grams grams);
/// The same of an energy: MWh, kWh or Wh.
TextUnit energy_unit(Joules energy);

/// "2.28 g", "1.340 kg", "2.125 t", "8.83 mg".
std::string mass_text(Grams grams);
/// In that unit; numbers below a tenth have two digits at least: "0.0024 kg".
std::string mass_text(Grams grams, const TextUnit& unit);
/// The same with its half-width, "1.340 ± 0.002 kg"; without where that is 0.
std::string mass_text(Grams grams, Grams half_width, const TextUnit& unit);
/// "0.598 kWh", "12.4 Wh", "2.1 MWh".
std::string kilowatt_hours_text(Joules energy);
std::string kilowatt_hours_text(Joules energy, const TextUnit& unit);

/// "92 %", "3.1 %".
std::string share_text(double share);
/// "92 % measured, 8 % nearest value", by energy.
std::string basis_text(const carbon::CarbonAccount& account);
/// "uk:13, average, direct, carbonintensity.org.uk".
std::string intensity_label(const carbon::AccountingIntensity& intensity);
/// "fetched 2026-11-25T04:00:00Z", or from ... to ...; empty where it is not known.
std::string fetched_text(const carbon::AccountingIntensity& intensity);

/// What a reader of a number by that kind of intensity has to know; empty: nothing.
std::string kind_warning(IntensityKind kind, bool market_based);

/// The numbers of an account.
Json account_json(const carbon::CarbonAccount& account);
/// What the intensities are and where they come from, with every value that was used.
/// \param most  values; beyond, they are left out and the list is null
Json intensity_json(const carbon::AccountingIntensity& intensity, std::size_t most);

}  // namespace harpe::command
