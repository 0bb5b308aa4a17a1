#pragma once
/// \file
/// Forecasts of a series of carbon intensities, made as time goes on.
///
/// A forecaster is told one value of the grid after the other. After each it can say what it
/// expects 1, 2, ... steps later; it has seen nothing else, so a backtest cannot leak the future
/// into it. The exception is what a provider knows ahead (ExogenousSeries), which says itself how
/// far ahead.
///
/// Forecasters work in the logarithm of the intensity (see to_log), where errors are relative:
/// a grid that is twice as dirty swings twice as far. Not thread safe, deterministic.

#include <memory>
#include <span>
#include <string>
#include <vector>

namespace harpe::carbon {

/// asinh(g / 2): the natural logarithm of g/kWh, but for |g| of a few grams, where it passes
/// through 0, so that marginal intensities may be negative.
double to_log(double grams_per_kwh);
double from_log(double value);

/// What all forecasters of one series have in common.
struct ForecastGrid {
  std::size_t slots_per_day = 24;
  std::size_t horizon = 96;  ///< steps ahead that are forecast
};

/// The values so far as logarithms. A gap is filled with the value a day before (before the first
/// day: with the last one), which is all that could be known of it then.
class LogHistory {
 public:
  explicit LogHistory(std::size_t slots_per_day) : slots_per_day_(slots_per_day) {}

  /// \param grams  NaN: not known
  void add(double grams);
  std::size_t size() const { return values_.size(); }
  bool known(std::size_t i) const { return known_[i]; }
  double operator[](std::size_t i) const { return values_[i]; }
  std::size_t slots_per_day() const { return slots_per_day_; }
  /// Of the day of `i`, which begins with slot 0 at the start of the series.
  std::size_t slot(std::size_t i) const { return i % slots_per_day_; }

 private:
  std::size_t slots_per_day_;
  std::vector<double> values_;
  std::vector<bool> known_;
};

class Forecaster {
 public:
  virtual ~Forecaster() = default;
  virtual std::string name() const = 0;
  /// Takes notice of the newest value of the history, which the caller has just added. Called once
  /// for every value, in order.
  virtual void observe(const LogHistory& history) = 0;
  /// What it expects of the steps after the newest value: ahead[k] is k + 1 steps later, as a
  /// logarithm. False, with `ahead` undefined, where it has not seen enough yet. At most
  /// ForecastGrid::horizon steps.
  virtual bool forecast(const LogHistory& history, std::span<double> ahead) = 0;
};

/// The newest value. Known as persistence.
std::unique_ptr<Forecaster> make_persistence();

/// The same hour of the newest day of which that hour is known: for up to 24 h ahead the value 24 h
/// before the target, beyond that as many whole days before it as it takes.
std::unique_ptr<Forecaster> make_same_hour();

/// The mean of yesterday's value and of that hour's mean over the six days before, half each.
std::unique_ptr<Forecaster> make_weekly_profile();

}  // namespace harpe::carbon
