#include "harpe/carbon/carbon/forecast_errors.h"

#include <algorithm>

#include "harpe/carbon/carbon/forecaster.h"

namespace harpe::carbon {

double with_error(double expected, double came, double said) {
  constexpr double kFarFromZero = 20;  // there to_log() is a logarithm
  if (expected > kFarFromZero && came > kFarFromZero && said > kFarFromZero) {
    return expected * came / said;
  }
  return from_log(to_log(expected) + to_log(came) - to_log(said));
}

std::vector<std::size_t> taken_of(std::size_t count) {
  const std::size_t taken = std::min(count, kMostOutlooks);
  std::vector<std::size_t> positions;
  for (std::size_t i = 0; i < taken; ++i) positions.push_back(i * count / taken);
  return positions;
}

}  // namespace harpe::carbon
