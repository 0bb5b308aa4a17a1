#include "harpe/zeus/tuning/step_ledger.h"

#include <cmath>

namespace harpe {

void StepLedger::add(std::size_t setting, std::int64_t steps, Seconds time, Joules energy,
                     Joules error) {
  Row& row = rows_[setting];
  row.measured += steps;
  row.seconds += time.value;
  row.joules += energy.value;
  row.variance += error.value * error.value;
}

std::vector<StepCost> StepLedger::costs() const {
  std::vector<StepCost> costs(rows_.size());
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    const Row& row = rows_[i];
    if (row.measured == 0) continue;
    const auto steps = static_cast<double>(row.measured);
    costs[i] = {.steps = row.measured,
                .time = {row.seconds / steps},
                .energy = {row.joules / steps},
                .error = {std::sqrt(row.variance) / steps}};
  }
  return costs;
}

std::vector<std::int64_t> StepLedger::begun() const {
  std::vector<std::int64_t> begun;
  for (const Row& row : rows_) begun.push_back(row.begun);
  return begun;
}

}  // namespace harpe
