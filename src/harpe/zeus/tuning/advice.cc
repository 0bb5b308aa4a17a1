#include "harpe/zeus/tuning/advice.h"

#include <cmath>
#include <vector>

#include "harpe/zeus/power_limit/setting_model.h"

namespace harpe {
namespace {

// What a forecast says below that is nothing to act upon.
constexpr double kLeastGain = 0.01;

}  // namespace

std::optional<Advice> advise(const Knob& knob, const Measurement& highest,
                             const Selector& selector) {
  if (!knob.can_choose() || selector.kind == Selector::Kind::kMaxSlowdown) return std::nullopt;
  std::vector<std::optional<Measurement>> measured(knob.size());
  measured[0] = highest;
  const auto forecast = SettingModel(knob, highest, selector.gpus).forecast(measured);
  const ScoreWeights weights = weights_of(selector, knob[0]);
  double best = std::log(weights.of(highest.time, highest.energy) * (1 - kLeastGain));
  std::optional<Advice> advice;
  for (std::size_t i = 1; i < knob.size(); ++i) {
    const double slowdown = std::exp(forecast[i].log_time);
    if (selector.most_slowdown && slowdown > *selector.most_slowdown) continue;
    const double score = score_of(forecast[i], highest, weights).log_score;
    if (!(score < best)) continue;
    best = score;
    const double energy = std::exp(forecast[i].log_time + forecast[i].log_power);
    advice = Advice{.setting = i, .slowdown = slowdown - 1, .saving = 1 - energy};
  }
  return advice;
}

}  // namespace harpe
