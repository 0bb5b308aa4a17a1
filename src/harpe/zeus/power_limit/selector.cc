#include "harpe/zeus/power_limit/selector.h"

#include <cmath>
#include <string>

#include "harpe/base/text.h"

namespace harpe::zeus {
namespace {

bool is_slowdown(double factor) {
  return std::isfinite(factor) && factor >= 1;
}

bool is_power(Watts power) {
  return std::isfinite(power.value) && power.value >= 0;
}

Status check_measurements(std::span<const Measurement> measurements) {
  if (measurements.empty()) return Error::invalid("expected at least one measured setting");
  for (std::size_t i = 0; i < measurements.size(); ++i) {
    const Measurement& one = measurements[i];
    if (!std::isfinite(one.time.value) || one.time.value <= 0 || !std::isfinite(one.energy.value) ||
        one.energy.value <= 0 || !std::isfinite(one.setting)) {
      return Error::invalid("setting " + shortest(one.setting) +
                            ": time and energy must be numbers above 0");
    }
    if (i > 0 && one.setting >= measurements[i - 1].setting) {
      return Error::invalid("measured settings must descend, got " + shortest(one.setting) +
                            " after " + shortest(measurements[i - 1].setting));
    }
  }
  return ok_status();
}

}  // namespace

Status check(const Selector& selector) {
  Diagnostics diagnostics;
  if (!(selector.eta >= 0 && selector.eta <= 1)) {
    diagnostics.add("eta must be from 0 to 1, got " + shortest(selector.eta));
  }
  for (const double factor : {selector.slowdown, selector.most_slowdown.value_or(1)}) {
    if (is_slowdown(factor)) continue;
    diagnostics.add("a slowdown must be a factor of at least 1, got " + shortest(factor));
  }
  if (selector.gpus < 1) diagnostics.add("the number of GPUs must be at least 1");
  if (!is_power(selector.max_power) || !is_power(selector.host_power)) {
    diagnostics.add("power must be a number of watts of at least 0");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

ScoreWeights weights_of(const Selector& selector, double highest_setting) {
  const double host = selector.host_power.value;
  if (selector.kind == Selector::Kind::kTime) return {0, 1};
  if (selector.kind != Selector::Kind::kCost) return {1, host};
  const double max_power =
      (selector.max_power.value > 0 ? selector.max_power.value : highest_setting) * selector.gpus;
  // The host's power counts with weight eta in energy and with 1 - eta in time, so once in full.
  return {selector.eta, (1 - selector.eta) * max_power + host};
}

Result<std::size_t> choose(std::span<const Measurement> measurements, const Selector& selector) {
  HARPE_TRY(check(selector));
  HARPE_TRY(check_measurements(measurements));
  std::size_t best = 0;
  if (selector.kind == Selector::Kind::kMaxSlowdown) {
    const Seconds allowed = measurements[0].time * selector.slowdown;
    for (std::size_t i = 0; i < measurements.size(); ++i) {
      if (measurements[i].time <= allowed) best = i;
    }
    return best;
  }
  const ScoreWeights weights = weights_of(selector, measurements[0].setting);
  const auto score = [&](std::size_t i) {
    return weights.of(measurements[i].time, measurements[i].energy);
  };
  for (std::size_t i = 1; i < measurements.size(); ++i) {
    const bool allowed = !selector.most_slowdown ||
                         measurements[i].time <= measurements[0].time * *selector.most_slowdown;
    if (allowed && score(i) < score(best)) best = i;
  }
  return best;
}

}  // namespace harpe::zeus
