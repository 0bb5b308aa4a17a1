/* Work for simulated GPUs, and their true state: the calls of Harpe's libnvidia-ml.so.1 that NVML
 * does not have. The environment variable HARPE_SIMULATION names the simulation; nvmlInit is not
 * needed. Thread-safe. Plain C.
 *
 * Every function returns 0, or one of NVML's error codes; harpe_sim_error then has details. GPUs
 * are counted from 0, as in NVML.
 *
 *     harpe_sim_truth_t truth;
 *     harpe_sim_set_load(0, 1);
 *     harpe_sim_truth(0, &truth);
 */
#ifndef HARPE_SIM_H
#define HARPE_SIM_H

#ifdef __cplusplus
extern "C" {
#endif

#define HARPE_SIM_EXPORT __attribute__((visibility("default")))

/* The error of this thread's last failed call. Valid until its next call. */
HARPE_SIM_EXPORT const char* harpe_sim_error(void);

HARPE_SIM_EXPORT int harpe_sim_gpus(int* count);

/* Sets a constant load until any process changes it: 0 idle, 1 fully busy. */
HARPE_SIM_EXPORT int harpe_sim_set_load(int gpu, double activity);

/* Begin and end of a work, in seconds on CLOCK_BOOTTIME. */
typedef struct {
  double begin, end;
} harpe_sim_span;

/* Runs work on the GPU and returns when it is done: `seconds` at the highest clock without a power
 * limit, of which the share `memory_bound` (0 to 1) takes as long at any clock. `span` may be null.
 */
HARPE_SIM_EXPORT int harpe_sim_run(int gpu, double seconds, double memory_bound,
                                   harpe_sim_span* span);

/* Runs one instruction ("forward", "backward", ...) of a stage with the time and energy of a
 * profile (a CSV file of stage,instruction,frequency,time,energy), at the clock in force. */
HARPE_SIM_EXPORT int harpe_sim_run_profile(int gpu, const char* profile, int stage,
                                           const char* instruction, harpe_sim_span* span);

/* Values that the sensors only approximate. */
typedef struct {
  double time;        /* seconds on CLOCK_BOOTTIME */
  double energy;      /* joules since the simulation began */
  double power;       /* watts */
  double clock;       /* megahertz, in force */
  double temperature; /* degrees Celsius */
} harpe_sim_truth_t;
HARPE_SIM_EXPORT int harpe_sim_truth(int gpu, harpe_sim_truth_t* truth);

#ifdef __cplusplus
}
#endif

#endif
