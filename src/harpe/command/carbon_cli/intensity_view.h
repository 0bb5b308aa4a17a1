#pragma once
/// \file
/// Labelled intensities for people, as JSON and as CSV. No number goes without its kind and the
/// step of the ladder that it stands on.

#include <string>

#include "harpe/carbon/carbon_source/open_source.h"

namespace harpe {

/// What a source said.
struct SourceView {
  std::string source;  ///< as the user wrote it
  SourceIdentity identity;
  std::string method;  ///< CarbonSource::method()
};

std::string current_text(const SourceView& view, const LabelledIntensity& current, bool coloured);
std::string current_json(const SourceView& view, const LabelledIntensity& current);

std::string history_text(const SourceView& view, const LabelledHistory& history);
std::string history_json(const SourceView& view, const LabelledHistory& history);
/// time,grams_per_kwh,estimated,fetched_at, with the label as comments.
std::string history_csv(const SourceView& view, const LabelledHistory& history);

std::string forecast_text(const SourceView& view, const LabelledForecast& forecast, bool coloured);
std::string forecast_json(const SourceView& view, const LabelledForecast& forecast);
/// time,grams_per_kwh,lower,upper.
std::string forecast_csv(const SourceView& view, const LabelledForecast& forecast);

}  // namespace harpe
