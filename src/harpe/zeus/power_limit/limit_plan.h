#pragma once
/// \file
/// Plan of the power limits of a batch size that are worth measuring, from measurements with other
/// batch sizes of the same job.
///
/// The model is of the logarithm of a step's score (`ScoreWeights`) over (size, limit). Each size
/// has its own level, without a prior. About the level lies the prior of setting_model.h at x =
/// (power limit) / (power that this size draws without a limit), and about that a Gaussian process
/// with the prior's deviations, which is shared more between sizes that are nearer in the
/// logarithm. Each limit also has an independent error: on a GPU that waits for its host, times
/// scatter from limit to limit and their order is chance. The deviation of that error is estimated
/// from the data: four values are equally likely a priori, a size most likely has the value of the
/// others, and the promise of a limit is its mean over the possible values. (Rasmussen and
/// Williams, 2006, chapters 2 and 5.)
///
/// A limit is worth measuring if its expected improvement on the best measured limit, in all
/// remaining epochs, exceeds the cost of measuring. An epoch in which limits are measured costs the
/// mean over these limits.
///
/// If no other size was measured, the highest limit is measured first, because its power shows from
/// which limit on power is reduced; then the rule above applies.
///
/// Pure. O(m^3 + n m^2) per call, for n limits and m <= 5 n measurements, of the size itself and of
/// the four nearest sizes.

#include <optional>
#include <span>
#include <vector>

#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe::zeus {

/// Measurements with one batch size: of the same work under each limit, a step or an epoch.
struct SizeProfile {
  int batch_size = 0;
  /// In the order of measurement. Settings are power limits; all figures are finite and above 0.
  std::vector<Measurement> measured = {};

  /// Returns the cheapest measurement, among equals that of the higher limit; null if none.
  const Measurement* best(const ScoreWeights& weights) const;
  bool has(double limit) const;
};

struct LimitPlanOptions {
  ScoreWeights weights{};
  int gpus = 1;       ///< measured together
  double epochs = 1;  ///< remaining, with the best limit
  /// Number of the newest of the size's measurements that share the current epoch.
  std::size_t in_epoch = 0;
};

/// Returns the position in `limits` of the next limit to measure with `own.batch_size`; nullopt if
/// none is worth measuring. Never nullopt if there are limits and the size has no measurement.
/// \param others  of the same job; may be empty, or have no measurements
std::optional<std::size_t> next_limit(const Knob& limits, const SizeProfile& own,
                                      std::span<const SizeProfile> others,
                                      const LimitPlanOptions& options);

}  // namespace harpe::zeus
