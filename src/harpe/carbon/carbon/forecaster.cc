#include "harpe/carbon/carbon/forecaster.h"

#include <algorithm>
#include <cmath>

namespace harpe::carbon {
namespace {

/// A forecaster that does not learn: a fixed rule over the last days.
class RuleForecaster final : public Forecaster {
 public:
  /// Returns the forecast for the step `ahead` steps after `newest`.
  using Rule = double (*)(const LogHistory& history, std::size_t newest, std::size_t ahead);

  /// \param days  days of history that the rule needs; 0 if it needs one value
  RuleForecaster(std::string name, std::size_t days, Rule rule)
      : name_(std::move(name)), days_(days), rule_(rule) {}

  std::string name() const override { return name_; }
  void observe(const LogHistory& /*history*/) override {}
  bool forecast(const LogHistory& history, std::span<double> ahead) override {
    const std::size_t needed = std::max<std::size_t>(1, days_ * history.slots_per_day());
    if (history.size() < needed) return false;
    for (std::size_t k = 0; k < ahead.size(); ++k)
      ahead[k] = rule_(history, history.size() - 1, k + 1);
    return true;
  }

 private:
  std::string name_;
  std::size_t days_;
  Rule rule_;
};

}  // namespace

double to_log(double grams_per_kwh) {
  return std::asinh(grams_per_kwh / 2);
}

double from_log(double value) {
  // The limits are above any intensity: an extreme forecast stays finite.
  return 2 * std::sinh(std::clamp(value, -20.0, 20.0));
}

void LogHistory::add(double grams) {
  const bool known = !std::isnan(grams);
  double value = 0;
  if (known) {
    value = to_log(grams);
  } else if (values_.size() >= slots_per_day_) {
    value = values_[values_.size() - slots_per_day_];
  } else if (!values_.empty()) {
    value = values_.back();
  }
  values_.push_back(value);
  known_.push_back(known);
}

std::unique_ptr<Forecaster> make_persistence() {
  return std::make_unique<RuleForecaster>(
      "persistence", 0,
      [](const LogHistory& history, std::size_t newest, std::size_t) { return history[newest]; });
}

std::unique_ptr<Forecaster> make_same_hour() {
  return std::make_unique<RuleForecaster>(
      "same-hour", 1, [](const LogHistory& history, std::size_t newest, std::size_t ahead) {
        return history[same_hour_before(newest, ahead, history.slots_per_day())];
      });
}

std::unique_ptr<Forecaster> make_weekly_profile() {
  return std::make_unique<RuleForecaster>("weekly-profile", kProfileDays, weekly_profile);
}

double with_error(double expected, double came, double said) {
  constexpr double kFarFromZero = 20;  // above this, to_log() is a logarithm
  if (expected > kFarFromZero && came > kFarFromZero && said > kFarFromZero) {
    return expected * came / said;
  }
  return from_log(to_log(expected) + to_log(came) - to_log(said));
}

std::vector<std::size_t> taken_of(std::size_t count) {
  const std::size_t taken = std::min(count, kMostOutlooks);
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < taken; ++i) positions.push_back(i * count / taken);
  return positions;
}

}  // namespace harpe::carbon
