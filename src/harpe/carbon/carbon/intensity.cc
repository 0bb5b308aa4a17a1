#include "harpe/carbon/carbon/intensity.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/carbon/carbon/intensity_csv.h"

namespace harpe {
namespace {

constexpr double kJoulesPerKwh = 3.6e6;

struct YearlyMean {
  std::string_view zone;
  double grams_per_kwh;
};

// Ember, Yearly Electricity Data, release of 2024 (CC BY 4.0): generation, life cycle, whole grams;
// of 2023 (Europe), and of 2022 or 2023 (elsewhere).
constexpr std::array kYearlyMeans = std::to_array<YearlyMean>(
    {{"AE", 561}, {"AR", 395}, {"AT", 111}, {"AU", 570},    {"BE", 138}, {"BG", 335}, {"BR", 106},
     {"CA", 161}, {"CH", 35},  {"CL", 354}, {"CN", 586},    {"CO", 215}, {"CY", 534}, {"CZ", 450},
     {"DE", 381}, {"DK", 152}, {"EE", 417}, {"EG", 570},    {"ES", 174}, {"EU", 244}, {"FI", 79},
     {"FR", 56},  {"GB", 238}, {"GR", 337}, {"HK", 700},    {"HR", 205}, {"HU", 204}, {"ID", 676},
     {"IE", 291}, {"IL", 583}, {"IN", 705}, {"IS", 28},     {"IT", 331}, {"JP", 513}, {"KE", 83},
     {"KR", 442}, {"KZ", 830}, {"LT", 160}, {"LU", 105},    {"LV", 123}, {"MA", 663}, {"MX", 475},
     {"MY", 606}, {"NG", 516}, {"NL", 268}, {"NO", 30},     {"NZ", 111}, {"PE", 252}, {"PH", 601},
     {"PK", 464}, {"PL", 662}, {"PT", 166}, {"QA", 603},    {"RO", 241}, {"RS", 636}, {"SA", 707},
     {"SE", 41},  {"SG", 474}, {"SI", 231}, {"SK", 117},    {"TH", 561}, {"TR", 465}, {"TW", 640},
     {"UA", 260}, {"US", 386}, {"VN", 410}, {"WORLD", 486}, {"ZA", 730}});
constexpr const char* kYearlySource = "Ember, newest yearly mean (2022 or 2023)";

std::string upper(std::string_view text) {
  std::string result(text);
  for (char& c : result) {
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return result;
}

/// Splits "150kg" into the number and its unit.
std::optional<std::pair<double, std::string>> number_and_unit(std::string_view text) {
  const std::size_t unit = text.find_first_not_of("0123456789.eE+-");
  const auto number = parse_number(text.substr(0, unit));
  if (!number || unit == std::string_view::npos) return std::nullopt;
  return std::pair(*number, std::string(trim(text.substr(unit))));
}

/// Returns an intensity in g/kWh that the user gave as `text`; an error if it is out of range.
Result<CarbonIntensity> given_intensity(double grams, std::string_view text) {
  if (grams < 0 || grams > kHighestIntensity) {
    return Error::invalid("a carbon intensity of " + in_quotes(trim(text)) +
                          (parse_number(trim(text)) ? " g/kWh" : "") +
                          " is out of range: expected 0 to 3000 g/kWh");
  }
  return CarbonIntensity{
      .grams_per_kwh = grams, .kind = IntensityKind::kUnstated, .zone = {}, .source = "given"};
}

}  // namespace

std::string_view text_of(IntensityKind kind) {
  // In the order of the enumeration.
  static constexpr std::array kTexts = std::to_array<std::string_view>(
      {"average, life cycle", "average, direct", "marginal", "kind not stated", "price"});
  return kTexts.at(static_cast<std::size_t>(kind));
}

Grams emissions(Joules energy, const CarbonIntensity& intensity) {
  return {energy.value / kJoulesPerKwh * intensity.grams_per_kwh};
}

Result<CarbonIntensity> parse_intensity(std::string_view text) {
  const std::string word = upper(trim(text));
  if (const auto number = parse_number(word)) {
    if (*number > 0 && *number < kLooksLikeKilograms) {
      return Error::invalid("a carbon intensity of " + in_quotes(word) +
                            " g/kWh looks like kg/kWh: give " + shortest(*number * 1000) + ", or " +
                            word + " g/kWh if that is meant");
    }
    return given_intensity(*number, text);
  }
  if (const auto given = number_and_unit(trim(text))) {
    if (const auto grams = carbon::parse_intensity_unit(given->second); grams.ok()) {
      return given_intensity(given->first * *grams, text);
    }
  }
  const auto found = std::ranges::find(kYearlyMeans, word, &YearlyMean::zone);
  if (found == kYearlyMeans.end()) {
    std::string message = "no yearly mean is known for the zone " + in_quotes(trim(text));
    const auto near = nearest(word, known_zones());
    message += near ? "; did you mean " + *near + "?" : ".";
    return Error::invalid(message +
                          " Give the intensity of your electricity in g/kWh, such as 302, or a "
                          "country's code, such as DE");
  }
  return CarbonIntensity{.grams_per_kwh = found->grams_per_kwh,
                         .kind = IntensityKind::kAverageLifecycle,
                         .zone = std::string(found->zone),
                         .source = kYearlySource};
}

std::vector<std::string> known_zones() {
  std::vector<std::string> zones;
  for (const YearlyMean& mean : kYearlyMeans) zones.emplace_back(mean.zone);
  return zones;
}

Grams embodied_share(const EmbodiedCarbon& embodied, Seconds time) {
  return embodied.mass * (time / embodied.lifetime);
}

Result<EmbodiedCarbon> parse_embodied(std::string_view text) {
  const Error expected = Error::invalid(
      "expected kilograms of CO2 per device and its years of use, "
      "such as 150kg/5y, not " +
      in_quotes(text));
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return expected;
  const auto mass = number_and_unit(trim(text.substr(0, slash)));
  const auto life = number_and_unit(trim(text.substr(slash + 1)));
  if (!mass || !life || mass->first <= 0 || life->first <= 0) return expected;
  constexpr std::array kMasses =
      std::to_array<std::pair<std::string_view, double>>({{"g", 1}, {"kg", 1e3}, {"t", 1e6}});
  constexpr std::array kTimes = std::to_array<std::pair<std::string_view, double>>(
      {{"h", 3600}, {"d", 86400}, {"y", 365.25 * 86400}});
  const auto factor = [](const auto& units, const std::string& unit) -> std::optional<double> {
    for (const auto& [name, value] : units) {
      if (name == unit) return value;
    }
    return std::nullopt;
  };
  const auto grams = factor(kMasses, mass->second);
  const auto seconds = factor(kTimes, life->second);
  if (!grams || !seconds) return expected;
  return EmbodiedCarbon{.mass = {mass->first * *grams}, .lifetime = {life->first * *seconds}};
}

}  // namespace harpe
