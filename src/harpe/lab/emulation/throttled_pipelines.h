#pragma once
/// \file
/// The pipelines of an emulated cluster whose GPUs are throttled by heat: their plans and their
/// apparent slowdown.
///
///   ThrottledPipelines heat(cluster, all_max);
///   heat.set(stragglers.slowdowns(), stragglers.held_to());
///   cluster.run(number, {heat.throttled(plans, buffer), stragglers.slowdowns()}, ...);
///
/// A throttled pipeline runs a variant of its plan (`EmulatedPipeline::throttled`). A policy does
/// not know of heat: it sees the pipeline as a straggler with the slowdown that it has at all-max.
/// Not thread-safe.

#include <cstddef>
#include <map>
#include <span>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/lab/emulation/emulated_cluster.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::lab {

/// Returns the profile of GPUs under a power limit, from one measured without it. If an instruction
/// draws more than the limit at a clock, the GPU lowers the clock: the instruction then has the
/// time and energy of the highest measured clock within the limit, or of the lowest clock if none
/// is. With knobs, only points with the same knobs count. Settings do not change: a point describes
/// a GPU on which that clock is requested.
Profile at_power_limit(const Profile& profile, Watts limit);

/// Returns the factor, at least 1, by which throttling the GPUs to a clock lengthens the makespan
/// of a plan.
double throttled_slowdown(EmulatedCluster& cluster, std::size_t plan, Megahertz held_to);

class ThrottledPipelines {
 public:
  /// \param cluster  must outlive this
  /// \param all_max  number of its plan
  ThrottledPipelines(EmulatedCluster& cluster, std::size_t all_max)
      : cluster_(cluster), all_max_(all_max) {}

  /// Sets the slowdown and the highest clock of each pipeline.
  /// \param held_to  0: not throttled. Must stay valid until the next call
  void set(std::span<const double> slowdowns, std::span<const Megahertz> held_to);

  /// Returns the slowdown of each pipeline that a policy sees.
  std::span<const double> slowdowns() const { return slowdowns_; }

  /// Returns the plans that the throttled pipelines run: `plans` itself if no pipeline is
  /// throttled, otherwise `buffer`.
  std::span<const std::size_t> throttled(std::span<const std::size_t> plans,
                                         std::vector<std::size_t>& buffer);

 private:
  EmulatedCluster& cluster_;
  std::size_t all_max_;
  std::vector<double> slowdowns_;
  std::span<const Megahertz> held_to_;
  std::vector<std::size_t> hot_;            ///< pipelines that are throttled
  std::map<Megahertz, double> at_all_max_;  ///< slowdown at each clock
};

}  // namespace harpe::lab
