#pragma once
/// \file
/// The price of a kilowatt-hour, in the formats that users write.
///
///   // 0.12 of no stated currency
///   const auto price = harpe::carbon::parse_energy_price("12 ct/kWh");

#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe::carbon {

struct EnergyPrice {
  double per_kwh = 0;         ///< in `currency`, not negative
  std::string currency = {};  ///< ISO 4217, "EUR"; empty if unstated
};

/// Parses "0.10/kWh", "0.10 EUR/kWh", "EUR 0.10/kWh", "$0.10/kWh", "95 €/MWh", "12 ct/kWh" or
/// "0.10", which means per kilowatt-hour if it is at most 2. "ct" is a hundredth of an unstated
/// currency, "p" a hundredth of GBP. Fails on a negative number, on a number above 2 without a
/// unit, and on an unknown currency or unit; the error suggests the nearest currency.
Result<EnergyPrice> parse_energy_price(std::string_view text);

/// Returns "12 345.60 EUR", "0.04 EUR", or "12 346" for an unstated currency.
std::string money_text(double money, std::string_view currency);

}  // namespace harpe::carbon
