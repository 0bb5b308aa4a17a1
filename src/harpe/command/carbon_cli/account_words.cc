#include "harpe/command/carbon_cli/account_words.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon_source/cached_series.h"

namespace harpe::command {
namespace {

constexpr double kJoulesPerWattHour = 3600;

constexpr int kMostDecimals = 9;

std::string text_in(double value, const TextUnit& unit) {
  const double number = value / unit.size;
  int decimals = unit.decimals;
  if (const double size = std::abs(number); size > 0 && size < 0.1) {
    const int two_digits = 1 - static_cast<int>(std::floor(std::log10(size)));
    decimals = std::clamp(two_digits, decimals, kMostDecimals);
  }
  return grouped(number, decimals) + " " + unit.name;
}

Json time_json(const std::optional<carbon::UtcTime>& time) {
  return time ? Json(carbon::utc_text(*time)) : Json(nullptr);
}

}  // namespace

std::string share_text(double share) {
  const double percent = 100 * share;
  return grouped(percent, percent > 0 && percent < 10 ? 1 : 0) + " %";
}

TextUnit mass_unit(Grams grams) {
  const double size = std::abs(grams.value);
  if (size >= 1e6) return {1e6, "t", 3};
  if (size >= 1e3) return {1e3, "kg", 3};
  if (size >= 0.1 || size == 0) return {1, "g", size < 1 ? 3 : 2};
  if (size >= 1e-4) return {1e-3, "mg", 2};
  if (size >= 1e-7) return {1e-6, "µg", 2};
  return {1e-9, "ng", 2};
}

TextUnit energy_unit(Joules energy) {
  const double watt_hours = std::abs(energy.value) / kJoulesPerWattHour;
  if (watt_hours >= 1e6) return {1e6 * kJoulesPerWattHour, "MWh", 3};
  if (watt_hours >= 1e3) return {1e3 * kJoulesPerWattHour, "kWh", 3};
  return {kJoulesPerWattHour, "Wh", watt_hours < 1 ? 4 : 2};
}

std::string mass_text(Grams grams) {
  return mass_text(grams, mass_unit(grams));
}

std::string mass_text(Grams grams, const TextUnit& unit) {
  return text_in(grams.value, unit);
}

std::string mass_text(Grams grams, Grams half_width, const TextUnit& unit) {
  if (half_width.value <= 0) return mass_text(grams, unit);
  const double error = half_width.value / unit.size;
  // Two significant digits of the error.
  const int decimals = std::clamp(1 - static_cast<int>(std::floor(std::log10(error))), 0, 6);
  return grouped(grams.value / unit.size, decimals) + " ± " + grouped(error, decimals) + " " +
         unit.name;
}

std::string kilowatt_hours_text(Joules energy) {
  return kilowatt_hours_text(energy, energy_unit(energy));
}

std::string kilowatt_hours_text(Joules energy, const TextUnit& unit) {
  return text_in(energy.value, unit);
}

std::string basis_text(const carbon::CarbonAccount& account) {
  std::string text;
  for (std::size_t i = 0; i < carbon::kIntensityBases; ++i) {
    if (account.by_basis[i].value <= 0) continue;
    text += (text.empty() ? "" : ", ") + share_text(account.by_basis[i] / account.site) + " " +
            std::string(carbon::text_of(static_cast<carbon::IntensityBasis>(i)));
  }
  return text;
}

std::string intensity_label(const carbon::AccountingIntensity& intensity) {
  const carbon::SourceIdentity& identity = intensity.identity;
  std::string text = identity.provider == "constant" ? identity.zone : identity.name();
  if (!text.empty()) text += ", ";
  text += text_of(intensity.intensity.series.kind);
  return text + (intensity.data_source.empty() ? "" : ", " + intensity.data_source);
}

std::string fetched_text(const carbon::AccountingIntensity& intensity) {
  if (!intensity.fetched_from || !intensity.fetched_to) return {};
  if (*intensity.fetched_from == *intensity.fetched_to) {
    return "fetched " + carbon::utc_text(*intensity.fetched_to);
  }
  return "fetched from " + carbon::utc_text(*intensity.fetched_from) + " to " +
         carbon::utc_text(*intensity.fetched_to);
}

std::string kind_warning(IntensityKind kind, bool market_based) {
  if (kind == IntensityKind::kMarginal) {
    return "The intensity is marginal: grams are the change that one kilowatt-hour more or less "
           "would have caused. They are not an inventory: do not add them to figures with an "
           "average "
           "intensity, and do not compare them.";
  }
  if (market_based) {
    return "The intensity is market-based, from a contract. It is reported in addition to a "
           "location-based figure, never instead of it; SCI uses only location-based figures.";
  }
  return {};
}

Json account_json(const carbon::CarbonAccount& account) {
  constexpr double kJoulesPerKwhHere = 1000 * kJoulesPerWattHour;
  Json bases = Json::object();
  for (std::size_t i = 0; i < carbon::kIntensityBases; ++i) {
    if (account.by_basis[i].value <= 0) continue;
    bases[std::string(carbon::text_of(static_cast<carbon::IntensityBasis>(i)))] =
        account.by_basis[i] / account.site;
  }
  const bool known = account.site > account.without_intensity();
  return {{"from", carbon::utc_text(account.begin)},
          {"to", carbon::utc_text(account.end)},
          {"energy_kwh", account.used.energy.value / kJoulesPerKwhHere},
          {"energy_error_kwh", account.used.half_width().value / kJoulesPerKwhHere},
          {"energy_sensor_error_kwh", account.used.sensor_error.value / kJoulesPerKwhHere},
          {"energy_without_error_kwh", account.used.without_error.value / kJoulesPerKwhHere},
          {"host_kwh", account.used.host.value / kJoulesPerKwhHere},
          {"site_kwh", account.site.value / kJoulesPerKwhHere},
          {"device_hours", account.used.device_time.value / 3600},
          {"device_hours_unmeasured", account.used.unmeasured().value / 3600},
          {"iterations", account.used.iterations},
          {"kind", carbon::kind_word(account.kind)},
          {"market_based", account.market_based},
          {"grams", known ? Json(account.operational.value) : Json(nullptr)},
          {"error_grams", account.half_width().value},
          {"sensor_error_grams", account.sensor_error.value},
          {"grams_per_kwh", known ? Json(account.grams_per_kwh()) : Json(nullptr)},
          {"without_intensity_kwh", account.without_intensity().value / kJoulesPerKwhHere},
          {"basis", std::move(bases)},
          {"embodied_grams", account.embodied.value}};
}

Json intensity_json(const carbon::AccountingIntensity& intensity, std::size_t most) {
  const carbon::IntensitySeries& series = intensity.intensity.series;
  Json values = nullptr;
  if (series.size() <= most) {
    values = Json::array();
    for (std::size_t i = 0; i < series.size(); ++i) {
      values.push_back({{"start", carbon::utc_text(series.start_of(i))},
                        {"grams_per_kwh", series.known(i) ? Json(series.values[i]) : Json(nullptr)},
                        {"basis", carbon::text_of(intensity.intensity.bases[i])}});
    }
  }
  return {{"provider", intensity.identity.provider},
          {"zone", intensity.identity.zone},
          {"kind", carbon::kind_word(series.kind)},
          {"unit", "gCO2eq/kWh"},
          {"data_source", intensity.data_source},
          {"method", intensity.method},
          {"step_s", series.step.count()},
          {"fetched_from", time_json(intensity.fetched_from)},
          {"fetched_to", time_json(intensity.fetched_to)},
          {"notes", intensity.notes},
          {"values", std::move(values)}};
}

}  // namespace harpe::command
