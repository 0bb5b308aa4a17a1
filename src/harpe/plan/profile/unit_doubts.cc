#include "harpe/plan/profile/unit_doubts.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/statistics.h"
#include "harpe/base/text.h"

namespace harpe::plan {
namespace {

constexpr double kLeastPower = 1, kMostPower = 20'000;             // W: other values are impossible
constexpr double kLeastLikelyPower = 15, kMostLikelyPower = 2000;  // W
constexpr double kLongestLikely = 20;                              // s, of one computation

bool is_likely_power(double watts) {
  return watts >= kLeastLikelyPower && watts <= kMostLikelyPower;
}

/// Medians of the computations.
struct Typical {
  double seconds = 0, joules = 0, watts = 0;
};

/// Returns questions about the units that would make a likely power of these numbers.
std::string guess(const Typical& typical) {
  std::vector<std::string> guesses;
  const auto add = [&](bool fits, const char* text) {
    if (fits) guesses.emplace_back(text);
  };
  const bool long_times = typical.seconds > 1;
  add(is_likely_power(typical.watts * 1e3) && long_times, "is the time in ms?");
  add(is_likely_power(typical.watts * 1e3) && !long_times, "is the energy in kJ?");
  add(is_likely_power(typical.watts * 1e6) && long_times, "is the time in us?");
  add(is_likely_power(typical.watts / 1e3), "is the energy in mJ?");
  add(is_likely_power(typical.watts / 1e6), "is the energy in uJ?");
  add(is_likely_power(typical.joules) && typical.watts > kMostLikelyPower,
      "is it power in W that the column 'energy' holds?");
  add(is_likely_power(1 / typical.watts), "are the columns 'time' and 'energy' exchanged?");
  if (typical.watts > kMostLikelyPower && typical.watts < kMostPower) {
    add(true, "is it the energy of all GPUs of a stage?");
  }
  std::string text;
  for (const std::string& one : guesses) text += "; " + one;
  return text;
}

}  // namespace

std::string four_digits(double value) {
  if (value == 0) return "0";
  if (std::abs(value) >= 1e4 && std::abs(value) < 1e15) return std::to_string(std::llround(value));
  const double scale = std::pow(10.0, 3 - std::floor(std::log10(std::abs(value))));
  return shortest(std::round(value * scale) / scale);
}

UnitDoubts unit_doubts(const Profile& profile) {
  std::vector<double> seconds, joules, watts;
  double longest = 0;
  for (const InstructionProfile& entry : profile.entries()) {
    if (is_fixed_time(entry.kind)) continue;
    double fastest = HUGE_VAL;
    for (const OperatingPoint& point : entry.points) {
      seconds.push_back(point.time.value);
      joules.push_back(point.energy.value);
      watts.push_back((point.energy / point.time).value);
      fastest = std::min(fastest, point.time.value);
    }
    longest = std::max(longest, fastest);
  }
  UnitDoubts doubts;
  if (watts.empty()) return doubts;
  const Typical typical{.seconds = lower_median(seconds),
                        .joules = lower_median(joules),
                        .watts = lower_median(watts)};
  const bool impossible = typical.watts < kLeastPower || typical.watts > kMostPower;
  if (impossible || !is_likely_power(typical.watts)) {
    const std::string power = typical.watts > kMostLikelyPower
                                  ? four_digits(typical.watts / 1e3) + " kW"
                                  : four_digits(typical.watts) + " W";
    (impossible ? doubts.impossible : doubts.unlikely)
        .push_back("computations draw " + power + ", " + four_digits(typical.joules) + " J in " +
                   four_digits(typical.seconds) +
                   " s: expected time in s and energy in J of one GPU" + guess(typical));
  } else if (longest > kLongestLikely) {
    doubts.unlikely.push_back("a computation takes " + four_digits(longest) +
                              " s at its fastest: expected time in s and energy in J of one GPU"
                              "; are they in ms and mJ?");
  }
  return doubts;
}

}  // namespace harpe::plan
