#pragma once
/// \file
/// Accounts in words and as JSON, shared by `harpe run --carbon` and `harpe carbon report`. Include
/// only in `.cc` files.

#include <string>
#include <vector>

#include "harpe/carbon/carbon/carbon_account.h"
#include "harpe/carbon/carbon_source/accounting_intensity.h"
#include "harpe/command/command/json_output.h"

namespace harpe::command {

/// The unit of a text for all quantities of one kind, so that they can be compared.
struct TextUnit {
  double size;       ///< in grams or joules
  const char* name;  ///< "kg"
  int decimals;      ///< of numbers near the quantity that the unit was chosen for
};

/// Returns the largest unit that is not larger than the mass: t, kg, g, mg, µg or ng.
TextUnit mass_unit(Grams grams);
/// Returns the largest unit that is not larger than the energy: MWh, kWh or Wh.
TextUnit energy_unit(Joules energy);

/// Returns, for example, "2.28 g", "1.340 kg", "2.125 t", "8.83 mg".
std::string mass_text(Grams grams);
/// Returns the mass in that unit; numbers below a tenth have at least two digits: "0.0024 kg".
std::string mass_text(Grams grams, const TextUnit& unit);
/// Returns the mass with its half-width, "1.340 ± 0.002 kg"; without it if it is 0.
std::string mass_text(Grams grams, Grams half_width, const TextUnit& unit);
/// Returns, for example, "0.598 kWh", "12.4 Wh", "2.1 MWh".
std::string kilowatt_hours_text(Joules energy);
std::string kilowatt_hours_text(Joules energy, const TextUnit& unit);

/// Returns, for example, "92 %", "3.1 %".
std::string share_text(double share);
/// Returns the basis by energy: "92 % measured, 8 % nearest value".
std::string basis_text(const carbon::CarbonAccount& account);
/// Returns, for example, "uk:13, average, direct, carbonintensity.org.uk".
std::string intensity_label(const carbon::AccountingIntensity& intensity);
/// Returns "fetched 2026-11-25T04:00:00Z", or from ... to ...; empty if unknown.
std::string fetched_text(const carbon::AccountingIntensity& intensity);

/// Returns the warning that a reader of numbers by that kind of intensity needs; empty if none.
std::string kind_warning(IntensityKind kind, bool market_based);

/// Returns the numbers of an account.
Json account_json(const carbon::CarbonAccount& account);
/// Returns the description and the origin of the intensities, with every value used.
/// \param most  values; if there are more, the list is null
Json intensity_json(const carbon::AccountingIntensity& intensity, std::size_t most);

}  // namespace harpe::command
