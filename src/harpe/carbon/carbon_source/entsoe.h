#pragma once
/// \file
/// Answers of the ENTSO-E Transparency Platform: generation by production type (A75) and, day
/// ahead, load (A65) and wind and solar (A69), as XML.
///
/// A GL_MarketDocument has TimeSeries, each of one production type, with Periods of Points. With
/// curveType A03 a position that is missing repeats the value before it, up to the end of the
/// period; with A01 it is a gap. Resolutions are PT15M, PT30M and PT60M; all are brought to one
/// step. "No data" is an Acknowledgement_MarketDocument, an error of code kNotFound with its
/// reason.
///
/// What is consumed (outBiddingZone_Domain, as by pumps) is no generation. Imports are not seen.
/// Source: ENTSO-E, Transparency Platform, RESTful API, user guide.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/emission_factors.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

/// Megawatts by name, all on one grid.
struct PowerSeries {
  UtcTime start{};
  WholeSeconds step{3600};
  /// By production type "B04", or "load" and "generation" of documents without one; NaN: not told.
  std::map<std::string, std::vector<double>> megawatts = {};
  std::vector<std::string> notes = {};

  std::size_t size() const { return megawatts.empty() ? 0 : megawatts.begin()->second.size(); }
};

/// Fails on what is no such document, on points outside of their period, on quantities that are no
/// numbers, and on a document over a million points. An interval less than half covered is unknown.
/// O(points). \param step  divides a day
Result<PowerSeries> parse_entsoe(std::string_view xml, WholeSeconds step);

/// sum(MW x factor) / sum(MW) over the types that have a factor. A type that has generated and is
/// not told of an interval keeps its last value for up to 3 h, and the interval is flagged as
/// estimated; beyond that it is a gap, as where nothing generates. Life cycle.
Result<ProviderIntensity> intensity_of_generation(const PowerSeries& generation,
                                                  const std::vector<EmissionFactor>& factors,
                                                  const std::string& zone);

}  // namespace harpe::carbon
