#pragma once
/// \file
/// Forecasters of a series of carbon intensities, which learn from each new value.
///
/// A forecaster receives one value of the grid after the other. After each value it can forecast
/// the values 1, 2, ... steps later. It has seen nothing else, so a backtest cannot leak the future
/// into it. The exception is data that a provider knows in advance (ExogenousSeries), which states
/// how far ahead it is known.
///
/// Forecasters work in the logarithm of the intensity (see to_log), where errors are relative: a
/// grid with twice the intensity has swings twice as large. Not thread-safe; deterministic.

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace harpe::carbon {

/// Returns asinh(g / 2): the natural logarithm of g/kWh, except for |g| of a few grams, where it
/// passes through 0, so that marginal intensities may be negative.
double to_log(double grams_per_kwh);
double from_log(double value);

/// The properties that all forecasters of one series share.
struct ForecastGrid {
  std::size_t slots_per_day = 24;
  std::size_t horizon = 96;  ///< number of steps to forecast
};

/// The values so far as logarithms. A gap is filled with the value a day before (before the first
/// day: with the last value), which is all that was known at that time.
class LogHistory {
 public:
  explicit LogHistory(std::size_t slots_per_day) : slots_per_day_(slots_per_day) {}

  /// \param grams  NaN if unknown
  void add(double grams);
  std::size_t size() const { return values_.size(); }
  bool known(std::size_t i) const { return known_[i]; }
  double operator[](std::size_t i) const { return values_[i]; }
  std::size_t slots_per_day() const { return slots_per_day_; }
  /// Returns the slot of the day of step `i`; slot 0 is the start of the series.
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
  /// Updates the forecaster with the newest value of the history, which the caller has just added.
  /// Called once for every value, in order.
  virtual void observe(const LogHistory& history) = 0;
  /// Forecasts the steps after the newest value as logarithms: ahead[k] is k + 1 steps later, for
  /// at most ForecastGrid::horizon steps. Returns false, with `ahead` undefined, if it has not seen
  /// enough yet.
  virtual bool forecast(const LogHistory& history, std::span<double> ahead) = 0;
};

/// Returns a forecaster that repeats the newest value (persistence).
std::unique_ptr<Forecaster> make_persistence();

/// Returns a forecaster that repeats the same hour of the newest day on which that hour is known:
/// up to 24 h ahead, the value 24 h before the target; beyond that, the fewest possible whole days
/// before.
std::unique_ptr<Forecaster> make_same_hour();

/// Returns a forecaster whose forecast is half yesterday's value and half the mean of that hour
/// over the six days before.
std::unique_ptr<Forecaster> make_weekly_profile();

// --- The same hour of earlier days: the simplest forecast, on which better ones are based.

/// Returns the position of the newest known value at the same hour as `ahead` steps after `newest`:
/// a day before the target for up to a day ahead, else the fewest whole days that lead to `newest`
/// or before.
/// \pre newest + 1 >= slots_per_day.
constexpr std::size_t same_hour_before(std::size_t newest, std::size_t ahead,
                                       std::size_t slots_per_day) {
  const std::size_t days = (ahead + slots_per_day - 1) / slots_per_day;
  return newest + ahead - days * slots_per_day;
}

/// Days of history that weekly_profile() reads.
inline constexpr std::size_t kProfileDays = 7;

/// Returns half the newest value of the same hour plus half its mean over the six days before. The
/// second half holds the hour's properties beyond one day's weather.
inline double weekly_profile(const LogHistory& history, std::size_t newest, std::size_t ahead) {
  const std::size_t day = history.slots_per_day();
  const std::size_t last = same_hour_before(newest, ahead, day);
  double sum = 0;
  for (std::size_t k = 1; k < kProfileDays; ++k) sum += history[last - k * day];
  return 0.5 * history[last] + 0.5 * sum / static_cast<double>(kProfileDays - 1);
}

// --- Outlooks for the coming hours: the forecast, with the errors of an earlier forecast at the
// same time of the day.
//
// Errors keep their order over the hours: an hour that is dirtier than expected is followed by
// others. They are relative (to_log), and so apply at a different level today.

/// Outlooks use earlier forecasts of up to this many days before, one a day, and at most this many.
inline constexpr std::size_t kErrorDays = 365, kMostOutlooks = 200;

/// Returns `expected` with the error of a forecast of `said` where the value was `came`, all in
/// g/kWh.
double with_error(double expected, double came, double said);

/// Returns the positions of at most kMostOutlooks of `count` forecasts, spread evenly over all.
std::vector<std::size_t> taken_of(std::size_t count);

}  // namespace harpe::carbon
