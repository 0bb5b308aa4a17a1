#include "harpe/carbon/carbon/carbon_account.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/base/decimal_comma.h"
#include "harpe/base/text.h"

namespace harpe::carbon {
namespace {

constexpr double kJoulesPerKilowattHour = 3.6e6;
constexpr std::size_t kNear = 2;  // steps

/// Returns the nearest known value at most kNear steps away; kNoValue if there is none.
double near_value(const IntensitySeries& series, std::size_t i) {
  for (std::size_t away = 1; away <= kNear; ++away) {
    if (i >= away && series.known(i - away)) return series.values[i - away];
    if (i + away < series.size() && series.known(i + away)) return series.values[i + away];
  }
  return kNoValue;
}

double week_before(const IntensitySeries& series, std::size_t i) {
  const std::size_t week = 7 * series.slots_per_day();
  return i >= week ? series.values[i - week] : kNoValue;
}

/// A part of a ledger's interval under one intensity.
struct Piece {
  double share = 0;  ///< of the interval
  double grams_per_kwh = 0;
  IntensityBasis basis = IntensityBasis::kNone;
};

/// Calls `on(piece)` for each part of an interval.
template <class On>
void for_pieces(UtcTime start, WholeSeconds step, const AccountedSeries& intensity, On on) {
  const IntensitySeries& series = intensity.series;
  const UtcTime end = start + step;
  for (UtcTime at = start; at < end;) {
    Piece piece;
    UtcTime until = end;
    if (at < series.start) {
      until = std::min(end, series.start);
    } else if (at < series.end()) {
      const auto i = static_cast<std::size_t>((at - series.start) / series.step);
      until = std::min(end, series.start_of(i + 1));
      if (series.known(i)) {
        piece.grams_per_kwh = series.values[i];
        piece.basis = intensity.bases[i];
      }
    }
    piece.share = static_cast<double>((until - at).count()) / static_cast<double>(step.count());
    on(piece);
    at = until;
  }
}

void add_piece(const EnergyUse& use, const Piece& piece, const AccountTerms& terms,
               CarbonAccount& account) {
  const Joules energy = use.energy * (terms.pue * piece.share);
  account.by_basis[static_cast<std::size_t>(piece.basis)] += energy;
  if (piece.basis == IntensityBasis::kNone) return;
  const double per_joule = piece.grams_per_kwh / kJoulesPerKilowattHour;
  const double factor = per_joule * terms.pue;
  account.operational.value += energy.value * per_joule;
  account.variance += use.variance * piece.share * factor * factor;
  account.sensor_error.value += use.sensor_error.value * piece.share * std::abs(factor);
}

}  // namespace

std::string_view text_of(IntensityBasis basis) {
  // In the order of the enumeration.
  static constexpr std::array kTexts = std::to_array<std::string_view>(
      {"measured", "estimated", "nearest value", "forecast", "same hour last week", "given number",
       "yearly mean", "no intensity"});
  return kTexts.at(static_cast<std::size_t>(basis));
}

AccountedSeries accounted_series(IntensitySeries series, std::optional<double> yearly_mean,
                                 std::optional<IntensityBasis> whole) {
  AccountedSeries filled{.series = series, .bases = {}};
  filled.bases.reserve(series.size());
  for (std::size_t i = 0; i < series.size(); ++i) {
    IntensityBasis basis = whole.value_or(series.estimated[i] != 0 ? IntensityBasis::kEstimated
                                                                   : IntensityBasis::kMeasured);
    double& value = filled.series.values[i];
    if (!series.known(i)) {
      basis = IntensityBasis::kNeighbour;
      value = near_value(series, i);
      if (std::isnan(value)) {
        basis = IntensityBasis::kSameHourLastWeek;
        value = week_before(series, i);
      }
      if (std::isnan(value) && yearly_mean) {
        basis = IntensityBasis::kYearlyMean;
        value = *yearly_mean;
      }
      if (std::isnan(value)) basis = IntensityBasis::kNone;
    }
    filled.bases.push_back(basis);
  }
  return filled;
}

AccountedSeries without_before(AccountedSeries series, UtcTime from) {
  IntensitySeries& all = series.series;
  if (from <= all.start) return series;
  const auto most = static_cast<std::int64_t>(all.size());
  const std::int64_t before = std::min((from - all.start) / all.step, most);
  all.values.erase(all.values.begin(), all.values.begin() + before);
  all.estimated.erase(all.estimated.begin(), all.estimated.begin() + before);
  series.bases.erase(series.bases.begin(), series.bases.begin() + before);
  all.start = all.start + before * all.step;
  return series;
}

Result<double> parse_pue(std::string_view text) {
  constexpr double kHighestPue = 10;
  const auto number = parse_number(text);
  if (number && *number >= 1 && *number <= kHighestPue) return *number;
  std::string message =
      "a PUE is the energy of a site divided by the energy of its computers: 1 to 10, not " +
      in_quotes(text);
  const std::string_view word = trim(text);
  if (!word.ends_with('%')) return Error::invalid(message + decimal_comma_hint(text));
  const auto percent = parse_number(trim(word.substr(0, word.size() - 1)));
  if (percent && *percent >= 0 && *percent < 100 * (kHighestPue - 1)) {
    const double more = *percent >= 100 ? *percent - 100 : *percent;
    message += "; write " + shortest(1 + more / 100, 6) + " for " + shortest(more, 4) + " % more";
  }
  return Error::invalid(message);
}

Grams CarbonAccount::half_width() const {
  return {std::sqrt(variance)};
}

double CarbonAccount::grams_per_kwh() const {
  const Joules known = site - without_intensity();
  return known.value > 0 ? operational.value / known.value * kJoulesPerKilowattHour : 0;
}

CarbonAccount account_for(const EnergyLedger& ledger, const AccountedSeries& intensity,
                          const AccountTerms& terms) {
  HARPE_CHECK(intensity.bases.size() == intensity.series.size(), "each value has a basis");
  CarbonAccount account{.kind = intensity.series.kind, .market_based = terms.market_based};
  account.begin = ledger.begin();
  account.end = ledger.end();
  for (const auto& [start, use] : ledger.uses()) {
    account.used += use;
    account.site += use.energy * terms.pue;
    for_pieces(start, ledger.step(), intensity,
               [&](const Piece& piece) { add_piece(use, piece, terms, account); });
  }
  if (terms.embodied) account.embodied = embodied_share(*terms.embodied, account.used.device_time);
  return account;
}

Result<CarbonAccount> sum_of(const CarbonAccount& a, const CarbonAccount& b) {
  if (a.kind != b.kind) {
    return Error::invalid("accounts with two kinds of intensity cannot be added: " +
                          std::string(text_of(a.kind)) + ", and " + std::string(text_of(b.kind)));
  }
  if (a.market_based != b.market_based) {
    return Error::invalid("a market-based account and a location-based account cannot be added");
  }
  CarbonAccount sum = a;
  sum.used += b.used;
  sum.site += b.site;
  sum.operational += b.operational;
  sum.variance += b.variance;
  sum.sensor_error += b.sensor_error;
  sum.embodied += b.embodied;
  for (std::size_t i = 0; i < kIntensityBases; ++i) sum.by_basis[i] += b.by_basis[i];
  if (a.end == UtcTime{}) {
    sum.begin = b.begin;
    sum.end = b.end;
  } else if (b.end != UtcTime{}) {
    sum.begin = std::min(a.begin, b.begin);
    sum.end = std::max(a.end, b.end);
  }
  return sum;
}

std::vector<AccountedInterval> account_by_interval(const EnergyLedger& ledger,
                                                   const AccountedSeries& intensity,
                                                   const AccountTerms& terms) {
  std::vector<AccountedInterval> intervals;
  intervals.reserve(ledger.size());
  for (const auto& [start, use] : ledger.uses()) {
    AccountedInterval one{.start = start, .used = use, .operational = {}};
    CarbonAccount account;
    for_pieces(start, ledger.step(), intensity, [&](const Piece& piece) {
      add_piece(use, piece, terms, account);
      one.worst = std::max(one.worst, piece.basis);
    });
    one.operational = account.operational;
    intervals.push_back(one);
  }
  return intervals;
}

}  // namespace harpe::carbon
