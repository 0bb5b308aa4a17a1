#include "harpe/zeus/power_limit/knob.h"

#include <cmath>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::zeus {
namespace {

/// No GPU has so many settings; a tiny step would make a list without end.
constexpr std::size_t kMostSettings = 10'000;

}  // namespace

Result<Knob> Knob::make(KnobKind kind, std::vector<double> settings) {
  if (settings.size() > kMostSettings) {
    return Error::invalid("expected at most " + std::to_string(kMostSettings) + " settings, got " +
                          std::to_string(settings.size()));
  }
  for (std::size_t i = 0; i < settings.size(); ++i) {
    if (!std::isfinite(settings[i]) || settings[i] <= 0) {
      return Error::invalid("a setting must be a number above 0, got " + shortest(settings[i]));
    }
    if (i > 0 && settings[i] >= settings[i - 1]) {
      return Error::invalid("settings must descend, got " + shortest(settings[i]) + " after " +
                            shortest(settings[i - 1]));
    }
  }
  Knob knob;
  knob.kind_ = kind;
  knob.settings_ = std::move(settings);
  return knob;
}

Result<Knob> Knob::power_limits(Watts lowest, Watts highest, Watts step) {
  const bool finite =
      std::isfinite(lowest.value) && std::isfinite(highest.value) && std::isfinite(step.value);
  if (!finite || lowest.value <= 0 || highest < lowest || step.value <= 0) {
    return Error::invalid("expected 0 < lowest <= highest limit and a step above 0, got " +
                          shortest(lowest.value) + ", " + shortest(highest.value) + " and " +
                          shortest(step.value) + " W");
  }
  const double count = std::floor((highest - lowest) / step + 1e-9) + 1;
  if (count > static_cast<double>(kMostSettings)) {
    return Error::invalid("a step of " + shortest(step.value) + " W gives too many limits");
  }
  std::vector<double> settings;
  for (int i = 0; i < static_cast<int>(count); ++i) {
    settings.push_back(highest.value - i * step.value);
  }
  return make(KnobKind::kPowerLimit, std::move(settings));
}

Knob Knob::within(double lowest, double highest) const {
  Knob allowed;
  allowed.kind_ = kind_;
  for (const double setting : settings_) {
    if (setting >= lowest && setting <= highest) allowed.settings_.push_back(setting);
  }
  return allowed;
}

std::string Knob::text(std::size_t index) const {
  return shortest(settings_[index]) + (kind_ == KnobKind::kPowerLimit ? " W" : " MHz");
}

}  // namespace harpe::zeus
