#pragma once
/// \file
/// Which power limits of a batch size are worth measuring, from what was measured with other sizes
/// of the same job.
///
/// Modelled is the logarithm of a step's score (`ScoreWeights`) over (size, limit). Each size has a
/// level of its own, of which nothing is believed. About it lies the prior of setting_model.h at
/// x = (power limit) / (power that this size draws where nothing holds it back), and about that a
/// Gaussian process with the prior's deviations, which sizes share the more the nearer they are in
/// the logarithm. Each limit has besides an error that nothing else tells of: on a GPU that waits
/// for its host, times scatter from limit to limit and their order is chance. How large it is comes
/// from the data: four deviations are equally likely beforehand, a size has most likely that of the
/// others, and what a limit promises is its mean over what its own may be. (Rasmussen and Williams,
/// 2006, chapters 2 and 5.)
///
/// A limit is worth measuring where its expected improvement on the best measured one, in all
/// epochs to come, is more than what measuring costs. What that is: an epoch in which limits are
/// measured costs the mean over these.
///
/// For one size with nothing known of others the highest is measured first, as its power says where
/// limits begin to matter; then as above.
///
/// Pure. O(m^3 + n m^2) a call, for n limits and m <= 5 n measurements: of the four nearest sizes
/// and its own.

#include <optional>
#include <span>
#include <vector>

#include "harpe/zeus/power_limit/knob.h"
#include "harpe/zeus/power_limit/selector.h"

namespace harpe::zeus {

/// What was measured with one batch size: of as much work under each limit, a step or an epoch.
struct SizeProfile {
  int batch_size = 0;
  /// In the order they were; settings are power limits, all figures finite and above 0.
  std::vector<Measurement> measured = {};

  /// The cheapest measured; null: none. Of equals the higher limit.
  const Measurement* best(const ScoreWeights& weights) const;
  bool has(double limit) const;
};

struct LimitPlanOptions {
  ScoreWeights weights{};
  int gpus = 1;       ///< measured together
  double epochs = 1;  ///< that are to come with the best limit
  /// How many of the newest of the size's measurements share the epoch that is under way.
  std::size_t in_epoch = 0;
};

/// Position in `limits` of what is to be measured next with `own.batch_size`; none: nothing is
/// worth it. A size of which nothing was measured always has one, if there are limits.
/// \param others  of the same job; may be empty, or have no measurements
std::optional<std::size_t> next_limit(const Knob& limits, const SizeProfile& own,
                                      std::span<const SizeProfile> others,
                                      const LimitPlanOptions& options);

}  // namespace harpe::zeus
