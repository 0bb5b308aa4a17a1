#pragma once
/// \file
/// From the energy of a ledger and the intensity of each interval to grams.
///
///     operational = sum over intervals of energy x PUE x intensity
///     embodied    = kilograms of a device x time that devices were held / lifetime of a device
///     SCI         = (operational + embodied) per R          (ISO/IEC 21031:2024)
///
/// Each number keeps what it stands on. Sums of accounts are accounts of sums: splitting a ledger
/// by time, by run or by user, and adding up, gives the whole again. Kinds of intensity never mix,
/// and neither do a grid's intensity (location-based) and a contract's (market-based): adding
/// those fails.

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

/// What the intensity of an interval stands on, best first: the steps of the ladder, as reports of
/// the past go down it.
enum class IntensityBasis : unsigned char {
  kMeasured,          ///< the provider's value for that interval
  kEstimated,         ///< the same, estimated by the provider
  kNeighbour,         ///< the nearest one, at most 2 steps away
  kForecast,          ///< the provider's forecast, made earlier
  kSameHourLastWeek,  ///< the provider's value a week before
  kGivenNumber,       ///< the user's, of no stated time, for all hours
  kYearlyMean,        ///< of the zone, for all hours
  kNone,              ///< there is none
};
inline constexpr std::size_t kIntensityBases = 8;
/// "measured", "estimated", ...
std::string_view text_of(IntensityBasis basis);

/// A series without holes that can be filled, and what each value stands on.
struct AccountedSeries {
  IntensitySeries series;
  std::vector<IntensityBasis> bases;  ///< as long as the values; kNone where one is NaN
};

/// Fills what is not known: from the nearest value at most 2 steps away (the earlier of two that
/// are as near), else from the same time a week before, else from `yearly_mean`. O(values).
/// \param whole  what every value that is known stands on; none: measured, or estimated where the
/// series says so
AccountedSeries accounted_series(IntensitySeries series, std::optional<double> yearly_mean = {},
                                 std::optional<IntensityBasis> whole = {});
/// The same series from `from` on, which is on its grid; what was before served the gaps.
AccountedSeries without_before(AccountedSeries series, UtcTime from);

struct AccountTerms {
  double pue = 1;  ///< of the site: at least 1; 1 where it is not known
  std::optional<EmbodiedCarbon> embodied = {};  ///< of each device
  bool market_based = false;                    ///< the intensity is a contract's, not the grid's
};

/// Reads a PUE: a number from 1 to 10.
Result<double> parse_pue(std::string_view text);

/// What energy emitted, and on what that stands. Members add up, but for those of the terms.
struct CarbonAccount {
  IntensityKind kind = IntensityKind::kUnstated;
  bool market_based = false;

  EnergyUse used = {};      ///< of devices, without PUE
  Joules site = {};         ///< with PUE
  Grams operational = {};   ///< of what has an intensity
  double variance = 0;      ///< square of the 95 % half-width of `operational`, g^2
  Grams sensor_error = {};  ///< by which it may be off because sensors are
  Grams embodied = {};
  /// Parts of `site`, by what their intensity stands on.
  std::array<Joules, kIntensityBases> by_basis = {};
  UtcTime begin = {}, end = {};  ///< of the intervals; both 0: there is none

  Joules on(IntensityBasis basis) const { return by_basis[static_cast<std::size_t>(basis)]; }
  Joules without_intensity() const { return on(IntensityBasis::kNone); }
  Grams half_width() const;
  /// By which `operational` may be off for errors of energy: its half-width and its sensors' error.
  Grams uncertainty() const { return half_width() + sensor_error; }
  /// Mean by energy, of what has an intensity; 0 where nothing has.
  double grams_per_kwh() const;
  Grams total() const { return operational + embodied; }
};

/// Energy of an interval that crosses several of the series' is spread evenly over them. Intervals
/// outside of the series have no intensity. O(intervals of both).
CarbonAccount account_for(const EnergyLedger& ledger, const AccountedSeries& intensity,
                          const AccountTerms& terms);

/// Fails where kinds differ, or one is market-based and the other is not.
Result<CarbonAccount> sum_of(const CarbonAccount& a, const CarbonAccount& b);

/// Grams of the interval of a ledger, for what draws them over time.
struct AccountedInterval {
  UtcTime start = {};
  EnergyUse used = {};
  Grams operational = {};
  IntensityBasis worst = IntensityBasis::kMeasured;  ///< of its parts
};
std::vector<AccountedInterval> account_by_interval(const EnergyLedger& ledger,
                                                   const AccountedSeries& intensity,
                                                   const AccountTerms& terms);

}  // namespace harpe::carbon
