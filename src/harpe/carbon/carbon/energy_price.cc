#include "harpe/carbon/carbon/energy_price.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <vector>

#include "harpe/base/decimal_comma.h"
#include "harpe/base/text.h"

namespace harpe::carbon {
namespace {

struct MoneyWord {
  std::string_view word;
  std::string_view currency;
  double share = 1;  ///< of one unit of the currency
};

constexpr std::array kCurrencies = std::to_array<std::string_view>(
    {"AED", "ARS", "AUD", "BGN", "BRL", "CAD", "CHF", "CLP", "CNY", "COP", "CZK", "DKK",
     "EGP", "EUR", "GBP", "HKD", "HUF", "IDR", "ILS", "INR", "ISK", "JPY", "KES", "KRW",
     "KZT", "MAD", "MXN", "MYR", "NGN", "NOK", "NZD", "PEN", "PHP", "PKR", "PLN", "QAR",
     "RON", "RSD", "SAR", "SEK", "SGD", "THB", "TRY", "TWD", "UAH", "USD", "VND", "ZAR"});
constexpr std::array kOtherWords = std::to_array<MoneyWord>({{"€", "EUR"},
                                                             {"$", "USD"},
                                                             {"£", "GBP"},
                                                             {"₹", "INR"},
                                                             {"₩", "KRW"},
                                                             {"ct", "", 0.01},
                                                             {"c", "", 0.01},
                                                             {"cent", "", 0.01},
                                                             {"cents", "", 0.01},
                                                             {"p", "GBP", 0.01}});

/// Highest price without a unit that is read as a price per kilowatt-hour: prices of electricity in
/// EUR or USD are below. A higher number may be in ct/kWh or per MWh.
constexpr double kHighestWithoutUnit = 2;
constexpr double kHighestPrice = 1e6;  ///< per kilowatt-hour, in the smallest currency

/// Returns the currency of a code in upper or lower case.
std::optional<std::string_view> currency_of(std::string_view code) {
  const auto found = std::ranges::find_if(
      kCurrencies, [&](std::string_view known) { return lower(known) == lower(code); });
  if (found == kCurrencies.end()) return std::nullopt;
  return *found;
}

Result<MoneyWord> money_of(std::string_view word) {
  if (word.empty()) return MoneyWord{};
  if (const auto currency = currency_of(word))
    return MoneyWord{.word = word, .currency = *currency};
  const auto other = std::ranges::find(kOtherWords, lower(word), &MoneyWord::word);
  if (other != kOtherWords.end()) return *other;
  std::vector<std::string> codes;
  for (const std::string_view code : kCurrencies) codes.push_back(lower(code));
  const auto near = nearest(lower(word), codes);
  return Error::invalid("unknown currency " + in_quotes(word) +
                        (near ? "; did you mean " + std::string(*currency_of(*near)) + "?" : ".") +
                        " Give its code, such as EUR, or ct, or leave it out");
}

/// Returns the number of kilowatt-hours in a unit of energy.
std::optional<double> kilowatt_hours(std::string_view unit) {
  const std::string word = lower(trim(unit));
  if (word == "kwh") return 1;
  if (word == "mwh") return 1000;
  return std::nullopt;
}

Error no_price(std::string_view text) {
  const std::string message =
      "expected a price of a kilowatt-hour such as 0.10/kWh, 0.10 EUR/kWh or 12 ct/kWh, found " +
      in_quotes(text);
  if (trim(text).ends_with('%')) return Error::invalid(message + "; a percentage is not accepted");
  return Error::invalid(message + decimal_comma_hint(text));
}

Error no_unit(std::string_view text) {
  const std::string amount(trim(text));
  return Error::invalid("a price of " + in_quotes(text) + " has no unit: write " + amount +
                        "/kWh or " + amount + "/MWh, or the amount in ct/kWh");
}

}  // namespace

Result<EnergyPrice> parse_energy_price(std::string_view text) {
  const Error expected = no_price(text);
  const std::size_t slash = std::min(text.find('/'), text.size());
  const auto unit =
      slash == text.size() ? std::optional(1.0) : kilowatt_hours(text.substr(slash + 1));
  if (!unit) return expected;
  const std::string_view amount = trim(text.substr(0, slash));
  constexpr std::string_view kDigits = "0123456789.+-";
  const std::size_t first = amount.find_first_of(kDigits);
  if (first == std::string_view::npos) return expected;
  const std::size_t last = amount.find_last_of(kDigits);
  std::optional<double> number = parse_number(amount);
  std::string_view word;
  if (!number) {
    // The currency precedes or follows the number.
    if (first > 0 && last + 1 < amount.size()) return expected;
    word = trim(first > 0 ? amount.substr(0, first) : amount.substr(last + 1));
    number = parse_number(amount.substr(first, last + 1 - first));
    if (!number) return expected;
  }
  if (word == "%") return expected;
  const MoneyWord money = HARPE_TRY(money_of(word));
  if (*number < 0) return Error::invalid("a price of " + in_quotes(text) + " is negative");
  const double per_kwh = *number * money.share / *unit;
  if (per_kwh > kHighestPrice) return expected;
  if (slash == text.size() && per_kwh > kHighestWithoutUnit) return no_unit(text);
  return EnergyPrice{.per_kwh = per_kwh, .currency = std::string(money.currency)};
}

std::string money_text(double money, std::string_view currency) {
  constexpr double kShownWhole = 1000;
  std::string text = grouped(money, std::abs(money) < kShownWhole ? 2 : 0);
  if (!currency.empty()) text += ' ' + std::string(currency);
  return text;
}

}  // namespace harpe::carbon
