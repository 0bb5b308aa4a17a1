/* Puts load on a simulated GPU and prints quantities that its sensors only approximate.
 *
 *   HARPE_SIMULATION=simulations/a100x4.toml simulated_load */

#include <stdio.h>

#include "harpe_sim.h"

int main(void) {
  harpe_sim_truth_t truth;
  if (harpe_sim_set_load(0, 1) != 0 || harpe_sim_truth(0, &truth) != 0) {
    fprintf(stderr, "%s\n", harpe_sim_error());
    return 1;
  }
  printf("%.0f W at %.0f MHz\n", truth.power, truth.clock);
  return 0;
}
