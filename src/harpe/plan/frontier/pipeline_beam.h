#pragma once
/// \file
/// Plans of the whole pipeline by beam search next to a relaxed optimum.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harpe/plan/flow/network.h"
#include "harpe/plan/frontier/event_beam.h"
#include "harpe/plan/frontier/search_order.h"

namespace harpe {

/// Gives every event a time near its relaxed one, from the first to the last. The losses of a
/// partial answer do not tell that it is late and that what follows will have to be faster: that is
/// estimated from the curvature of the relaxed cost, as if all were as late.
class PipelineBeam {
 public:
  struct Options {
    std::size_t width = 1;  ///< partial answers that are followed
    /// How long after its relaxed time an event may be, in average steps from one option of an
    /// instruction to the next.
    double reach = 2;
    double drift = 1;  ///< how much the estimate counts
  };

  /// \param relaxed    the optimum at or a little before the deadline
  /// \param deadline   picoseconds
  /// \param curvature  half the second derivative of the relaxed cost by the deadline, over its
  ///                   first; per picosecond
  PipelineBeam(const ArcPrices& prices, const flow::State& relaxed, std::int64_t deadline,
               double curvature);

  /// An assignment that ends by the deadline; empty where no partial answer could be completed.
  /// O(events x width x options).
  Assignment plan(const Options& options);

 private:
  const SearchOrder& layout_;
  std::int64_t deadline_;
  double curvature_;
  EventBeam beam_;
  SearchRandom random_;
  EventTimes expected_;               // the relaxed times
  std::vector<std::int32_t> events_;  // in their order
  double step_ = 0;                   // average, picoseconds
};

}  // namespace harpe
