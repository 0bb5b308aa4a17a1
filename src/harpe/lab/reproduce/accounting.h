#pragma once
/// \file
/// How Perseus's evaluation counts savings (SOSP'24, section 6). Pure.

#include "harpe/base/units.h"

namespace harpe::lab {

/// Time and energy of one iteration of one pipeline, all its GPUs, blocking included.
struct IterationFigures {
  Seconds time{};
  Joules energy{};
};

/// Returns what the iteration takes if the pipeline waits until then.
/// \param waiting_power  of all GPUs of the pipeline together
IterationFigures waiting_until(const IterationFigures& iteration, Seconds end, Watts waiting_power);

/// Data-parallel pipelines of which one is a straggler.
struct StragglingJob {
  int pipelines = 1;
  double slowdown = 1;  ///< of the straggler's iteration over a healthy one at all-max
  Watts waiting_power{};

  /// Returns the energy of an iteration of all pipelines.
  /// \param straggler  its plan as a healthy pipeline would run it: the slow one takes `slowdown`
  ///                   times the time and energy
  /// \param healthy    of each other pipeline; it waits until `end`
  Joules energy(const IterationFigures& straggler, const IterationFigures& healthy,
                Seconds end) const;
};

/// Returns by how many percent the energy is less than the baseline's.
double saving_percent(Joules energy, Joules baseline);

}  // namespace harpe::lab
