#pragma once
/// \file
/// Carbon accounts: grams from the energy of a ledger and the intensity of each interval.
///
///     operational = sum over intervals of energy x PUE x intensity
///     embodied    = kilograms of a device x time that devices were held / lifetime of a device
///     SCI         = (operational + embodied) per R          (ISO/IEC 21031:2024)
///
/// Each account keeps the basis of its numbers. The sum of accounts is the account of the sum:
/// splitting a ledger by time, run or user and adding the accounts gives the account of the whole
/// ledger. Adding different kinds of intensity fails, and so does adding a grid's intensity
/// (location-based) to a contract's (market-based).

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon/energy_ledger.h"
#include "harpe/carbon/carbon/intensity_series.h"

namespace harpe::carbon {

/// The basis of an interval's intensity, best first: the steps of the ladder, in the order in which
/// reports of the past descend it.
enum class IntensityBasis : unsigned char {
  kMeasured,          ///< the provider's value for that interval
  kEstimated,         ///< the provider's estimate for that interval
  kNeighbour,         ///< the nearest value, at most 2 steps away
  kForecast,          ///< the provider's earlier forecast
  kSameHourLastWeek,  ///< the provider's value a week before
  kGivenNumber,       ///< a number from the user, without a stated time, for all hours
  kYearlyMean,        ///< of the zone, for all hours
  kNone,              ///< no intensity is known
};
inline constexpr std::size_t kIntensityBases = 8;
/// Returns "measured", "estimated", ...
std::string_view text_of(IntensityBasis basis);

/// An intensity series with its gaps filled if possible, and the basis of each value.
struct AccountedSeries {
  IntensitySeries series;
  std::vector<IntensityBasis> bases;  ///< as long as the values; kNone for a NaN
};

/// Fills gaps: with the nearest value at most 2 steps away (the earlier of two equally near ones),
/// else with the value a week before, else with `yearly_mean`. O(values).
/// \param whole  basis of all known values; nullopt for measured, or estimated if the series marks
/// the value so
AccountedSeries accounted_series(IntensitySeries series, std::optional<double> yearly_mean = {},
                                 std::optional<IntensityBasis> whole = {});
/// Removes the values before `from`, which is on the series' grid. Call it after they have filled
/// gaps.
AccountedSeries without_before(AccountedSeries series, UtcTime from);

struct AccountTerms {
  double pue = 1;                               ///< of the site: at least 1; 1 if unknown
  std::optional<EmbodiedCarbon> embodied = {};  ///< of each device
  bool market_based = false;  ///< true if the intensity is a contract's, not the grid's
};

/// Reads a PUE: a number from 1 to 10.
Result<double> parse_pue(std::string_view text);

/// The emissions of energy, and their basis. Members are additive, except those from the terms.
struct CarbonAccount {
  IntensityKind kind = IntensityKind::kUnstated;
  bool market_based = false;

  EnergyUse used = {};      ///< of devices, without PUE
  Joules site = {};         ///< with PUE
  Grams operational = {};   ///< of the energy with a known intensity
  double variance = 0;      ///< square of the 95 % half-width of `operational`, g^2
  Grams sensor_error = {};  ///< possible error due to the sensors
  Grams embodied = {};
  /// Parts of `site`, by the basis of their intensity.
  std::array<Joules, kIntensityBases> by_basis = {};
  UtcTime begin = {}, end = {};  ///< of the intervals; both 0 if there are none

  Joules on(IntensityBasis basis) const { return by_basis[static_cast<std::size_t>(basis)]; }
  Joules without_intensity() const { return on(IntensityBasis::kNone); }
  Grams half_width() const;
  /// Returns the possible error of `operational` due to energy: half-width plus sensor error.
  Grams uncertainty() const { return half_width() + sensor_error; }
  /// Returns the mean, weighted by energy, over energy with a known intensity; 0 if there is none.
  double grams_per_kwh() const;
  Grams total() const { return operational + embodied; }
};

/// Returns the account of a ledger. Energy of a ledger interval that spans several intervals of the
/// series is spread evenly over them. Intervals outside of the series have no intensity.
/// O(intervals of both).
CarbonAccount account_for(const EnergyLedger& ledger, const AccountedSeries& intensity,
                          const AccountTerms& terms);

/// Fails if the kinds differ, or if exactly one account is market-based.
Result<CarbonAccount> sum_of(const CarbonAccount& a, const CarbonAccount& b);

/// The emissions of one interval of a ledger, for charts over time.
struct AccountedInterval {
  UtcTime start = {};
  EnergyUse used = {};
  Grams operational = {};
  IntensityBasis worst = IntensityBasis::kMeasured;  ///< basis among its parts
};
std::vector<AccountedInterval> account_by_interval(const EnergyLedger& ledger,
                                                   const AccountedSeries& intensity,
                                                   const AccountTerms& terms);

}  // namespace harpe::carbon
