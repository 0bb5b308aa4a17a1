#pragma once
/// \file
/// Carbon intensity of electricity with its source, and the emissions of an amount of energy.
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

/// Upper bound in g/kWh. Every real grid is far below it.
inline constexpr double kHighestIntensity = 3000;

/// Values in g/kWh below this one are taken for kg/kWh by mistake. No grid has a life-cycle
/// intensity this low: the cleanest plants have 5 to 12 (UNECE, Life Cycle Assessment of
/// Electricity Generation Options, 2022). No grid reaches 2 kg/kWh. The direct intensity of a grid
/// of water and wind may be below 2 g/kWh.
inline constexpr double kLooksLikeKilograms = 2;

/// Kinds of intensity. Sums and decisions must never mix them.
enum class IntensityKind : unsigned char {
  kAverageLifecycle,  ///< average of all generation, with mining, building and upstream gas
  kAverageDirect,     ///< average of all generation, stack emissions only
  kMarginal,          ///< of the plant that would supply one more kilowatt-hour
  kUnstated,          ///< a number that the user gave without its kind
  kPrice,             ///< money instead of emissions; jobs can be paced by it in the same way
};
/// Returns the name of the kind, such as "average, life cycle".
std::string_view text_of(IntensityKind kind);

struct CarbonIntensity {
  double grams_per_kwh = 0;
  IntensityKind kind = IntensityKind::kUnstated;
  std::string zone = {};    ///< such as "DE"; empty if unknown
  std::string source = {};  ///< shown in reports, such as "Ember, yearly mean of 2023"
};

/// Returns the greenhouse gases emitted by energy used under one intensity.
Grams emissions(Joules energy, const CarbonIntensity& intensity);

/// Parses a number in gCO2eq/kWh ("302.5"), a number with its unit, or a zone of the table of
/// yearly means ("DE", "fr", "WORLD"). Fails if the number is negative or above 3000 g/kWh, if it
/// has no unit and is between 0 and kLooksLikeKilograms, or if the zone is unknown; the error
/// suggests the nearest zone.
Result<CarbonIntensity> parse_intensity(std::string_view text);

/// Returns the zones of the table: ISO 3166 codes of two letters, and WORLD.
std::vector<std::string> known_zones();

/// Emissions of making a device, and the time over which they are written off.
struct EmbodiedCarbon {
  Grams mass;
  Seconds lifetime;
};

/// Returns the share of one device's embodied carbon that belongs to `time` of its use.
Grams embodied_share(const EmbodiedCarbon& embodied, Seconds time);

/// Parses "150kg/5y": CO2 equivalent of a device (g, kg, t) and time of use (h, d, y). Both are
/// positive.
Result<EmbodiedCarbon> parse_embodied(std::string_view text);

}  // namespace harpe
