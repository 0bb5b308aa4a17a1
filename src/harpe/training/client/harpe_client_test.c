/* The client from plain C11: what a C program may do with it, and what it may do wrong. */
#include "harpe/training/client/harpe_client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPECT(condition)                                                      \
  do {                                                                         \
    if (!(condition)) {                                                        \
      fprintf(stderr, "%s:%d: expected %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                 \
    }                                                                          \
  } while (0)

struct heard {
  int events;
  char last[1024];
};

static void hear(const char* text, void* context) {
  struct heard* heard = context;
  heard->events++;
  snprintf(heard->last, sizeof heard->last, "%s", text);
}

static void iterate(harpe_client* client) {
  for (int micro_batch = 0; micro_batch < 2; micro_batch++) {
    harpe_client_instruction_begin(client, HARPE_FORWARD, 0, micro_batch);
    harpe_client_instruction_end(client);
    harpe_client_instruction_begin(client, HARPE_BACKWARD, 0, micro_batch);
    harpe_client_instruction_end(client);
  }
}

static void wrong_options_are_told(void) {
  char error[200];
  EXPECT(harpe_client_start("{\"sever\": 1}", NULL, NULL, error, sizeof error) == NULL);
  EXPECT(strstr(error, "server") != NULL);
  char small[5] = "full";
  EXPECT(harpe_client_start("nonsense", NULL, NULL, small, sizeof small) == NULL);
  EXPECT(strlen(small) == 4);
  EXPECT(harpe_client_start("[]", NULL, NULL, NULL, 0) == NULL);
  EXPECT(harpe_client_start("{\"server\": \"http://127.0.0.1:1\"}", NULL, NULL, error,
                            sizeof error) == NULL);
  EXPECT(strstr(error, "HARPE_JOB") != NULL);
}

static void a_null_client_does_nothing(void) {
  iterate(NULL);
  harpe_client_iteration_begin(NULL, 3);
  harpe_client_iteration_end(NULL, NULL, 0);
  harpe_client_device_times(NULL, 0, NULL, 0);
  harpe_client_await_device_times(NULL, 1);
  EXPECT(harpe_client_follow_stream(NULL, NULL, NULL, 0) == 0);
  EXPECT(!harpe_client_registered(NULL));
  EXPECT(strcmp(harpe_client_label(NULL), "") == 0);
  EXPECT(!harpe_client_pause_requested(NULL, -1, NULL, 0));
  EXPECT(harpe_client_wait_for_resume(NULL, -1) == 1);
  harpe_client_counts counts;
  memset(&counts, 7, sizeof counts);
  harpe_client_get_counts(NULL, &counts, sizeof counts);
  EXPECT(counts.instructions == 0 && counts.version == 0);
  harpe_client_stop(NULL);
}

static void training_goes_on_without_a_server(void) {
  struct heard heard = {0, ""};
  char error[500];
  /* No process listens on port 1. */
  harpe_client* client = harpe_client_start(
      "{\"server\": \"http://127.0.0.1:1\", \"job\": \"c\", \"clock_socket\": \"\", \"spec\": "
      "{\"name\": \"c\", \"data\": 1, \"stages\": 1, \"tensor\": 1, \"schedule\": \"1f1b\", "
      "\"micro_batches\": 2, \"chunks\": 1}}",
      hear, &heard, error, sizeof error);
  if (client == NULL) fprintf(stderr, "%s\n", error);
  EXPECT(client != NULL);
  EXPECT(harpe_client_follow_stream(client, NULL, error, sizeof error) == -1);
  EXPECT(strstr(error, "neither CUDA") != NULL);
  for (int i = 0; i < 3; i++) iterate(client);
  int64_t now = harpe_client_now();
  harpe_span times[4] = {
      {now, now + 1}, {now + 1, now + 2}, {now + 2, now + 3}, {now + 3, now + 4}};
  harpe_client_iteration_end(client, times, 4);
  harpe_client_await_device_times(client, 1.5);
  harpe_client_device_times(client, 1, times, 4);
  harpe_client_device_times(client, 1, NULL, 4);
  harpe_client_await_device_times(client, 0);
  harpe_client_instruction_begin(client, 77, -3, -3);
  EXPECT(strcmp(harpe_client_label(client), "") == 0);
  harpe_client_instruction_end(client);
  harpe_client_counts counts;
  harpe_client_get_counts(client, &counts, sizeof counts);
  EXPECT(counts.iterations == 4 && counts.instructions == 13 && counts.unknown == 1);
  /* A caller that was compiled with fewer members. */
  uint64_t two[3] = {0, 0, 99};
  harpe_client_get_counts(client, (harpe_client_counts*)two, 2 * sizeof two[0]);
  EXPECT(two[0] == 4 && two[1] == 13 && two[2] == 99);
  EXPECT(!harpe_client_registered(client));
  harpe_client_stop(client);
}

int main(void) {
  unsetenv("HARPE_SERVER");
  unsetenv("HARPE_JOB");
  EXPECT(harpe_client_abi() == HARPE_CLIENT_ABI);
  wrong_options_are_told();
  a_null_client_does_nothing();
  training_goes_on_without_a_server();
  puts("passed");
  return 0;
}
