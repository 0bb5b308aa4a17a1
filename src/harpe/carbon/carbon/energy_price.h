#pragma once
/// \file
/// The price of a kilowatt-hour, as users write it.
///
///   // 0.12 of no stated currency
///   const auto price = harpe::carbon::parse_energy_price("12 ct/kWh");

#include <string>
#include <string_view>

#include "harpe/base/result.h"

namespace harpe::carbon {

struct EnergyPrice {
  double per_kwh = 0;         ///< in `currency`, not negative
  std::string currency = {};  ///< ISO 4217, "EUR"; empty: not stated
};

/// Reads "0.10/kWh", "0.10 EUR/kWh", "EUR 0.10/kWh", "$0.10/kWh", "95 €/MWh", "12 ct/kWh" or
/// "0.10", which is of a kilowatt-hour if it is at most 2. "ct" is a hundredth of a currency that
/// is not stated, "p" one of GBP. Fails on a negative number, a higher one without a unit, and on a
/// currency or unit that is not known, naming a near one.
Result<EnergyPrice> parse_energy_price(std::string_view text);

/// "12 345.60 EUR", "0.04 EUR", "12 346" of no stated currency.
std::string money_text(double money, std::string_view currency);

}  // namespace harpe::carbon
