#include "harpe/report/power_scale.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

#include "harpe/report/drawing.h"

namespace harpe::report {
namespace {

using Rgb = std::array<int, 3>;
constexpr double kEdge = 0.72;  ///< brightness of a border over that of its block
constexpr std::array<Rgb, 17> kStops = {{{250, 243, 224},
                                         {245, 229, 189},
                                         {241, 213, 159},
                                         {236, 197, 133},
                                         {231, 181, 110},
                                         {224, 165, 91},
                                         {216, 150, 73},
                                         {208, 134, 58},
                                         {199, 119, 45},
                                         {189, 103, 33},
                                         {178, 89, 23},
                                         {166, 75, 18},
                                         {153, 62, 19},
                                         {138, 50, 20},
                                         {124, 39, 20},
                                         {109, 29, 20},
                                         {94, 19, 19}}};

// For a dark ground: from hardly brighter than it to cream.
constexpr std::array<Rgb, 9> kDarkStops = {{{45, 40, 36},
                                            {72, 51, 38},
                                            {104, 62, 35},
                                            {140, 74, 28},
                                            {175, 91, 28},
                                            {205, 118, 47},
                                            {227, 152, 84},
                                            {242, 192, 136},
                                            {250, 232, 200}}};

std::array<std::string, PowerScale::kColours> make_colours(std::span<const Rgb> stops,
                                                           double shade) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::array<std::string, PowerScale::kColours> colours;
  for (std::size_t i = 0; i < colours.size(); ++i) {
    const double place = static_cast<double>(i) * static_cast<double>(stops.size() - 1) /
                         static_cast<double>(colours.size() - 1);
    const auto stop = std::min(static_cast<std::size_t>(place), stops.size() - 2);
    const double part = place - static_cast<double>(stop);
    colours[i] = "#";
    for (std::size_t c = 0; c < 3; ++c) {
      const double mixed = stops[stop][c] * (1 - part) + stops[stop + 1][c] * part;
      const auto value = static_cast<std::size_t>(std::lround(mixed * shade));
      colours[i] += {kDigits[value / 16], kDigits[value % 16]};
    }
  }
  return colours;
}

}  // namespace

PowerScale::PowerScale(Watts low, Watts high) : low_(low), high_(high) {
  if (!(high_ > low_)) high_ = low_ + Watts{std::max(1e-9, std::abs(low_.value))};
}

PowerScale::PowerScale(const std::vector<const Plan*>& plans)
    : PowerScale(Watts{0}, Watts{std::numeric_limits<double>::min()}) {
  double low = std::numeric_limits<double>::infinity();
  double high = -low;
  const auto include = [&](Watts power) {
    low = std::min(low, power.value);
    high = std::max(high, power.value);
  };
  for (const Plan* plan : plans) {
    for (const Watts power : plan->blocking_power) include(power);
    for (const auto& list : plan->instructions) {
      for (const PlannedInstruction& instruction : list) {
        if (instruction.time > Seconds{0} && instruction.kind != InstructionKind::kSwitch)
          include(instruction.energy / instruction.time);
      }
    }
  }
  if (low <= high) *this = PowerScale(Watts{low}, Watts{high});
}

int PowerScale::index(Watts power) const {
  const double fraction = (power - low_) / (high_ - low_);
  return static_cast<int>(std::lround(std::clamp(fraction, 0.0, 1.0) * (kColours - 1)));
}

const std::string& PowerScale::colour(int index) {
  static const auto kShades = make_colours(kStops, 1);
  return kShades[static_cast<std::size_t>(index)];
}

const std::string& PowerScale::border(int index) {
  static const auto kShades = make_colours(kStops, kEdge);
  return kShades[static_cast<std::size_t>(index)];
}

const std::string& PowerScale::dark_colour(int index) {
  static const auto kShades = make_colours(kDarkStops, 1);
  return kShades[static_cast<std::size_t>(index)];
}

const std::string& PowerScale::dark_border(int index) {
  static const auto kShades = make_colours(kDarkStops, kEdge);
  return kShades[static_cast<std::size_t>(index)];
}

}  // namespace harpe::report
