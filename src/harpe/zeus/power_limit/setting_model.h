#pragma once
/// \file
/// Model that predicts time and power under unmeasured settings from measured ones.
///
/// Both are relative to the highest setting, over x = (power limit) / (power drawn at the highest
/// setting, per GPU). A limit far above the power that a GPU draws has no effect; below it, power
/// follows the limit and time rises ever faster, because voltage stops falling with the clock. So
/// the prior of log time is a softplus that saturates, A w log(1 + exp((x0 - x) / w)), and that of
/// power is a soft minimum of x and 1. A job's deviation from the priors is a Gaussian process,
/// whose standard deviation grows with the prior of time itself (Rasmussen and Williams, "Gaussian
/// Processes for Machine Learning", 2006, chapter 2). A clock has the x of the power that a GPU of
/// usual static power draws at it.
///
/// Constants: fitted by least absolute deviations (scripts/fit_setting_model.py); the constants
/// of the kernels were chosen by least mean loss. The data are the 164 (job, batch size) curves of
/// V100, P100 and RTX 6000 in the traces published with Zeus. No run of an A40 was used, because
/// the choice is judged on it.
///
/// Complexity: O(n m^2 + m^3) for n settings, m of them measured.

#include <optional>
#include <span>
#include <vector>

#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe::zeus {

/// Natural logarithms relative to the highest setting, with the variance of the next window.
struct SettingForecast {
  double log_time = 0, time_variance = 0;
  double log_power = 0, power_variance = 0;
};

class SettingModel {
 public:
  /// \param highest  measured at the knob's first setting
  /// \param gpus     measured together
  SettingModel(const Knob& knob, const Measurement& highest, int gpus);

  /// Returns one forecast per setting.
  /// \param measured  one per setting; the first setting must have been measured
  std::vector<SettingForecast> forecast(std::span<const std::optional<Measurement>> measured) const;

 private:
  std::vector<double> position_;  ///< x
};

/// Forecast of the score of a setting, and of its deviation (natural logarithms).
struct ScoreForecast {
  double log_score = 0, deviation = 0;
  /// Expected improvement (Jones, Schonlau, Welch 1998, equation 15).
  double improvement_on(double log_best) const;
};
ScoreForecast score_of(const SettingForecast& forecast, const Measurement& highest,
                       const ScoreWeights& weights);

// --- The prior: time and power expected before this job was measured, over x, as natural
// logarithms.

/// The prior at one x: its mean, and the standard deviation of the Gaussian process about it.
struct PriorCurve {
  double mean = 0, deviation = 0;
};
/// Length scales of the process, in x.
inline constexpr double kPriorTimeLength = 0.1, kPriorPowerLength = 0.2;

/// Returns x of a setting.
/// \param drawn  W per GPU, at the knob's first setting
double prior_position(KnobKind kind, double setting, double highest, double drawn);
/// Returns the prior of time, relative to the time under a setting that limits nothing.
PriorCurve prior_log_time(double x);
/// Returns the prior of power, relative to the power under such a setting.
PriorCurve prior_log_power(double x);
/// Returns the power (W) that a GPU would draw without a limit if it draws `power` under `limit`;
/// infinite if it draws all that the limit allows.
double prior_unlimited_power(double limit, double power);

}  // namespace harpe::zeus
