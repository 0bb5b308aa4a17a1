#pragma once
/// \file
/// Carbon intensity of electricity, always with where it comes from, and grams from joules.
///
///   const auto grid = harpe::parse_intensity("DE");
///   if (grid.ok()) std::printf("%.0f g\n", harpe::emissions(energy, *grid).value);

#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

/// Mass of greenhouse gases, in grams of CO2 equivalent.
using Grams = Quantity<struct MassDimension>;

/// g/kWh: no grid comes near.
inline constexpr double kHighestIntensity = 3000;

/// g/kWh below which a number looks like one in kg/kWh: no grid's life cycle comes near, as its
/// cleanest plants have 5 to 12 (UNECE, Life Cycle Assessment of Electricity Generation Options,
/// 2022), and no grid has 2 kg/kWh. Of chimneys alone a grid of water and wind may have as little.
inline constexpr double kLooksLikeKilograms = 2;

/// Kinds that must never be mixed in one sum or one decision.
enum class IntensityKind : unsigned char {
  kAverageLifecycle,  ///< of all generation, with mining, building and upstream gas
  kAverageDirect,     ///< of all generation, chimneys only
  kMarginal,          ///< of the plant that would answer one more kilowatt-hour
  kUnstated,          ///< a number that the user gave
  kPrice,             ///< no emissions at all: money, which jobs can be paced by in the same way
};
/// "average, life cycle".
std::string_view text_of(IntensityKind kind);

struct CarbonIntensity {
  double grams_per_kwh = 0;
  IntensityKind kind = IntensityKind::kUnstated;
  std::string zone = {};    ///< "DE"; empty: not told
  std::string source = {};  ///< for the reader of a report: "Ember, yearly mean of 2023"
};

/// Greenhouse gases of energy used under one intensity.
Grams emissions(Joules energy, const CarbonIntensity& intensity);

/// A number in gCO2eq/kWh ("302.5"), or a zone of the table of yearly means ("DE", "fr", "WORLD").
/// Fails on negative numbers, on numbers over 3000, and on unknown zones, naming near ones.
Result<CarbonIntensity> parse_intensity(std::string_view text);

/// The zones of the table: ISO 3166 codes of two letters, and WORLD.
std::vector<std::string> known_zones();

/// What making a device emitted, and over how long it is written off.
struct EmbodiedCarbon {
  Grams mass;
  Seconds lifetime;
};

/// The share of one device's embodied carbon that falls on `time` of its use.
Grams embodied_share(const EmbodiedCarbon& embodied, Seconds time);

/// "150kg/5y": kilograms of CO2 equivalent a device and years of use (h, d, y). Both positive.
Result<EmbodiedCarbon> parse_embodied(std::string_view text);

}  // namespace harpe
