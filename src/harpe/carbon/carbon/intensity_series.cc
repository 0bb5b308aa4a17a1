#include "harpe/carbon/carbon/intensity_series.h"

#include <algorithm>

#include "harpe/base/text.h"

namespace harpe::carbon {
std::size_t IntensitySeries::gaps() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(values, [](double value) { return std::isnan(value); }));
}

std::size_t IntensitySeries::estimates() const {
  return static_cast<std::size_t>(std::ranges::count(estimated, 1));
}

Result<IntensitySeries> joined(const IntensitySeries& earlier, const IntensitySeries& later) {
  if (earlier.kind != later.kind) {
    return Error::invalid(
        "intensities of two kinds cannot be joined: " + std::string(text_of(earlier.kind)) +
        ", and " + std::string(text_of(later.kind)));
  }
  if (!earlier.zone.empty() && !later.zone.empty() && earlier.zone != later.zone) {
    return Error::invalid("intensities of two zones cannot be joined: " + earlier.zone + " and " +
                          later.zone);
  }
  if (earlier.step != later.step) {
    return Error::invalid("intensities of two intervals cannot be joined: " +
                          minutes_text(earlier.step) + " and " + minutes_text(later.step));
  }
  const WholeSeconds between = later.start - earlier.end();
  if (between.count() < 0) {
    return Error::invalid("the earlier intensities end at " + utc_text(earlier.end()) +
                          ", after the later ones begin, at " + utc_text(later.start));
  }
  if (between % later.step != WholeSeconds(0)) {
    return Error::invalid("the earlier intensities are not on the grid of the later ones: " +
                          utc_text(earlier.end()) + " and " + utc_text(later.start));
  }
  const auto missing = static_cast<std::size_t>(between / later.step);
  if (missing > kLongestSeries || earlier.size() + missing + later.size() > kLongestSeries) {
    return Error::invalid("the time from " + utc_text(earlier.start) + " to " +
                          utc_text(later.end()) + " is too long");
  }
  IntensitySeries both = earlier;
  both.values.insert(both.values.end(), missing, kNoValue);
  both.estimated.insert(both.estimated.end(), missing, 0);
  both.values.insert(both.values.end(), later.values.begin(), later.values.end());
  both.estimated.insert(both.estimated.end(), later.estimated.begin(), later.estimated.end());
  if (!later.zone.empty()) both.zone = later.zone;
  if (!later.source.empty()) both.source = later.source;
  return both;
}

Result<IntensitySeries> coarsened(const IntensitySeries& series, WholeSeconds step) {
  if (step < series.step || step % series.step != WholeSeconds(0) ||
      whole_days(1) % step != WholeSeconds(0)) {
    return Error::invalid("intervals of " + minutes_text(series.step) +
                          " cannot be averaged to intervals of " + minutes_text(step));
  }
  const auto group = static_cast<std::size_t>(step / series.step);
  IntensitySeries coarse = series;
  coarse.step = step;
  coarse.values.clear();
  coarse.estimated.clear();
  for (std::size_t i = 0; i + group <= series.size(); i += group) {
    double sum = 0;
    std::size_t known = 0;
    std::uint8_t estimated = 0;
    for (std::size_t j = i; j < i + group; ++j) {
      if (!series.known(j)) continue;
      sum += series.values[j];
      ++known;
      estimated = std::max(estimated, series.estimated[j]);
    }
    coarse.values.push_back(2 * known >= group ? sum / static_cast<double>(known) : kNoValue);
    coarse.estimated.push_back(2 * known >= group ? estimated : std::uint8_t{0});
  }
  if (coarse.values.empty()) {
    return Error::invalid("the series is shorter than one interval of " + minutes_text(step));
  }
  return coarse;
}

IntensitySeries with_gaps_filled(IntensitySeries series) {
  const std::size_t day = series.slots_per_day();
  const auto first = std::ranges::find_if(series.values, [](double v) { return !std::isnan(v); });
  if (first == series.values.end()) return series;
  const double first_value = *first;
  for (std::size_t i = 0; i < series.size(); ++i) {
    if (series.known(i)) continue;
    series.values[i] =
        i >= day ? series.values[i - day] : (i > 0 ? series.values[i - 1] : first_value);
  }
  return series;
}

}  // namespace harpe::carbon
