#include "harpe/lab/reproduce/accounting.h"

namespace harpe::lab {

IterationFigures waiting_until(const IterationFigures& iteration, Seconds end,
                               Watts waiting_power) {
  return {end, iteration.energy + waiting_power * (end - iteration.time)};
}

Joules StragglingJob::energy(const IterationFigures& straggler, const IterationFigures& healthy,
                             Seconds end) const {
  return straggler.energy * slowdown +
         waiting_until(healthy, end, waiting_power).energy * (pipelines - 1);
}

double saving_percent(Joules energy, Joules baseline) {
  return 100 * (1 - energy / baseline);
}

}  // namespace harpe::lab
