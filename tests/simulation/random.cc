#include "simulation/random.h"

#include <cmath>

namespace harpe::simulation {

Seconds Random::around(Seconds low, Seconds high) {
  return Seconds{std::exp(between(std::log(low.value), std::log(high.value)))};
}

}  // namespace harpe::simulation
