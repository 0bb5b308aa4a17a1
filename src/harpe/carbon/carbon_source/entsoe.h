#pragma once
/// \file
/// Parser of the ENTSO-E Transparency Platform's XML: generation by production type (A75) and, day
/// ahead, load (A65) and wind and solar (A69).
///
/// A GL_MarketDocument has TimeSeries, each of one production type, with Periods of Points. With
/// curveType A03 a missing position repeats the previous value, up to the end of the period; with
/// A01 it is a gap. Resolutions are PT15M, PT30M and PT60M; all are converted to one step. "No
/// data" is an Acknowledgement_MarketDocument, which is an error with code kNotFound and its
/// reason.
///
/// Consumption (outBiddingZone_Domain, as of pumps) is no generation. Imports are not included.
/// Source: ENTSO-E, Transparency Platform, RESTful API, user guide.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/carbon/carbon_source/emission_factors.h"
#include "harpe/carbon/carbon_source/provider_intensity.h"

namespace harpe::carbon {

/// Power in megawatts by name, all on one grid.
struct PowerSeries {
  UtcTime start{};
  WholeSeconds step{3600};
  /// By production type "B04", or "load" and "generation" for documents without types; NaN if
  /// unknown.
  std::map<std::string, std::vector<double>> megawatts = {};
  std::vector<std::string> notes = {};

  std::size_t size() const { return megawatts.empty() ? 0 : megawatts.begin()->second.size(); }
};

/// Parses a document. Fails on other documents, on points outside of their period, on quantities
/// that are not numbers, and on a document with over a million points. An interval less than half
/// covered is unknown. O(points). \param step  divides a day
Result<PowerSeries> parse_entsoe(std::string_view xml, WholeSeconds step);

/// Returns sum(MW x factor) / sum(MW) over the types that have a factor; life cycle. A type that
/// has generated but has no value for an interval keeps its last value for up to 3 h, and the
/// interval is marked as estimated; after that it is a gap, and so is an interval without
/// generation.
Result<ProviderIntensity> intensity_of_generation(const PowerSeries& generation,
                                                  const std::vector<EmissionFactor>& factors,
                                                  const std::string& zone);

}  // namespace harpe::carbon
