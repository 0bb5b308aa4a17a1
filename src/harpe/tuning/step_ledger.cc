#include "harpe/tuning/step_ledger.h"

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

Saving& Saving::operator+=(const Saving& other) {
  saved += other.saved;
  at_highest += other.at_highest;
  error = {std::hypot(error.value, other.error.value)};
  return *this;
}

Saving StepLedger::saving(Watts host_power) const {
  Saving saving;
  const std::vector<StepCost> costs = this->costs();
  if (costs.empty() || costs[0].steps == 0) return saving;
  const Joules highest = costs[0].energy + host_power * costs[0].time;
  double variance = 0;
  Joules shared_error{};  // that of the highest setting is in every difference
  for (std::size_t i = 0; i < rows_.size(); ++i) {
    if (costs[i].steps == 0) continue;
    const auto begun = static_cast<double>(rows_[i].begun);
    saving.at_highest += highest * begun;
    if (i == 0) continue;
    saving.saved += (highest - costs[i].energy - host_power * costs[i].time) * begun;
    shared_error += costs[0].error * begun;
    variance += std::pow(costs[i].error.value * begun, 2);
  }
  saving.error = {std::hypot(shared_error.value, std::sqrt(variance))};
  return saving;
}

}  // namespace harpe
