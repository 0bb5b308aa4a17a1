#include "harpe/carbon/carbon/forecaster.h"

#include <algorithm>
#include <cmath>

#include "harpe/carbon/carbon/same_hour.h"

namespace harpe::carbon {
namespace {

class Persistence final : public Forecaster {
 public:
  std::string name() const override { return "persistence"; }
  void observe(const LogHistory& /*history*/) override {}
  bool forecast(const LogHistory& history, std::span<double> ahead) override {
    if (history.size() == 0) return false;
    std::ranges::fill(ahead, history[history.size() - 1]);
    return true;
  }
};

class SameHour final : public Forecaster {
 public:
  std::string name() const override { return "same-hour"; }
  void observe(const LogHistory& /*history*/) override {}
  bool forecast(const LogHistory& history, std::span<double> ahead) override {
    if (history.size() < history.slots_per_day()) return false;
    for (std::size_t k = 0; k < ahead.size(); ++k) {
      ahead[k] = history[same_hour_before(history.size() - 1, k + 1, history.slots_per_day())];
    }
    return true;
  }
};

class WeeklyProfile final : public Forecaster {
 public:
  std::string name() const override { return "weekly-profile"; }
  void observe(const LogHistory& /*history*/) override {}
  bool forecast(const LogHistory& history, std::span<double> ahead) override {
    if (history.size() < kProfileDays * history.slots_per_day()) return false;
    for (std::size_t k = 0; k < ahead.size(); ++k) {
      ahead[k] = weekly_profile(history, history.size() - 1, k + 1);
    }
    return true;
  }
};

}  // namespace

double to_log(double grams_per_kwh) {
  return std::asinh(grams_per_kwh / 2);
}

double from_log(double value) {
  // Beyond any intensity: what a wild forecast gives stays finite.
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
  return std::make_unique<Persistence>();
}

std::unique_ptr<Forecaster> make_same_hour() {
  return std::make_unique<SameHour>();
}

std::unique_ptr<Forecaster> make_weekly_profile() {
  return std::make_unique<WeeklyProfile>();
}

}  // namespace harpe::carbon
