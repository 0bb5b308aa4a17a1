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

#include <cstddef>
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

// --- The same hour of earlier days: the simplest forecast, from which better ones start.

/// Where, `ahead` steps after `newest`, the same hour of the newest day lies of which it is known:
/// a day before the target for up to a day ahead, else as many whole days as it takes to be at or
/// before `newest`. The caller has seen to it that newest + 1 >= slots_per_day.
constexpr std::size_t same_hour_before(std::size_t newest, std::size_t ahead,
                                       std::size_t slots_per_day) {
  const std::size_t days = (ahead + slots_per_day - 1) / slots_per_day;
  return newest + ahead - days * slots_per_day;
}

/// Days of history that weekly_profile() reads.
inline constexpr std::size_t kProfileDays = 7;

/// Half the same hour's newest value, half its mean over the six days before that. Whatever an
/// hour has of its own beyond one day's weather is in the second half.
inline double weekly_profile(const LogHistory& history, std::size_t newest, std::size_t ahead) {
  const std::size_t day = history.slots_per_day();
  const std::size_t last = same_hour_before(newest, ahead, day);
  double sum = 0;
  for (std::size_t k = 1; k < kProfileDays; ++k) sum += history[last - k * day];
  return 0.5 * history[last] + 0.5 * sum / static_cast<double>(kProfileDays - 1);
}

// --- Possible outcomes of the hours to come: the forecast, with the errors that an earlier
// forecast made at the same time of the day.
//
// Errors keep their order over the hours: an hour that comes out dirtier than expected is followed
// by others. They are relative (to_log), and so fit a level that is another today.

/// Earlier forecasts are taken from this many days before, one a day, and at most this many.
inline constexpr std::size_t kErrorDays = 365, kMostOutlooks = 200;

/// `expected` with the error of a forecast that said `said` where `came` came, all in g/kWh.
double with_error(double expected, double came, double said);

/// Returns the positions of at most kMostOutlooks of `count` forecasts, spread evenly over all.
std::vector<std::size_t> taken_of(std::size_t count);

}  // namespace harpe::carbon
