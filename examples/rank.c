/* A training rank in C. Job, place and server come from the environment (docs/client.md); without a
 * server it trains at full clocks. */

#include <stddef.h>
#include <stdio.h>

#include "harpe/training/client/harpe_client.h"

int main(void) {
  char error[256];
  harpe_client* harpe = harpe_client_start(NULL, NULL, NULL, error, sizeof error);
  if (harpe == NULL) {
    fprintf(stderr, "%s\n", error);
    return 2;
  }
  for (int iteration = 0; iteration < 3; ++iteration) {
    harpe_pause pause;
    if (harpe_client_pause_requested(harpe, iteration, &pause, sizeof pause)) {
      printf("asked to pause: %s\n", pause.why); /* write a checkpoint here */
      harpe_client_wait_for_resume(harpe, -1);
    }
    harpe_client_iteration_begin(harpe, iteration);
    for (int micro_batch = 0; micro_batch < 4; ++micro_batch) {
      harpe_client_instruction_begin(harpe, HARPE_FORWARD, 0, micro_batch);
      harpe_client_instruction_end(harpe);
      harpe_client_instruction_begin(harpe, HARPE_BACKWARD, 0, micro_batch);
      harpe_client_instruction_end(harpe);
    }
    harpe_client_iteration_end(harpe, NULL, 0);
  }
  printf("trained; %s\n", harpe_client_registered(harpe) ? "the server knows it" : "no server");
  harpe_client_stop(harpe);
  return 0;
}
