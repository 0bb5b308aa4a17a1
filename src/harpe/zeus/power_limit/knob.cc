#include "harpe/zeus/power_limit/knob.h"

#include <cmath>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::zeus {
namespace {

/// No GPU has this many settings; a tiny step would make an endless list.
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

std::string Knob::text(std::size_t index) const {
  return shortest(settings_[index]) + (kind_ == KnobKind::kPowerLimit ? " W" : " MHz");
}

}  // namespace harpe::zeus
