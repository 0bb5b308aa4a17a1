/** \file
 * The client that a training rank links, for C and for languages that call C: the library
 * `libharpe_client`. The functions are those of `harpe::RankClient` (client.h); see docs/client.md
 * for a guide.
 *
 *     harpe_client *harpe = harpe_client_start(NULL, NULL, NULL, error, sizeof error);
 *     harpe_client_instruction_begin(harpe, HARPE_FORWARD, chunk, micro_batch);
 *     harpe_client_instruction_end(harpe);
 *     ...
 *     harpe_client_stop(harpe);
 *
 * Threads: the functions named `instruction` and `iteration`, and the pause functions, must be
 * called by one thread at a time; `counts` and `registered` may be called from any thread. `stop`
 * must be the last call.
 *
 * Failure: only `start` and `follow_stream` fail. All functions do nothing on a null client, so
 * that a program can continue without one. The library throws no exception, catches no signal and
 * ends no process.
 *
 * Cost: `instruction_begin`, `instruction_end` and `label` take no lock, allocate nothing and
 * never wait.
 *
 * Versions: functions and struct members are only added. Any other change raises HARPE_CLIENT_ABI
 * and the library's soname.
 */
#ifndef HARPE_CLIENT_HARPE_CLIENT_H
#define HARPE_CLIENT_HARPE_CLIENT_H

#include <stddef.h>
#include <stdint.h>

/* NOLINTBEGIN(modernize-*,readability-identifier-naming,performance-enum-size): this is C. */

#ifdef __cplusplus
extern "C" {
#endif

#define HARPE_CLIENT_ABI 1

typedef struct harpe_client harpe_client;

/** Kinds of computations. Other instructions, such as loading and sending, are not reported. */
enum harpe_instruction {
  HARPE_FORWARD = 0,
  HARPE_BACKWARD = 1, /**< only the input gradient, if HARPE_WEIGHT follows */
  HARPE_WEIGHT = 2,
  HARPE_RECOMPUTE = 3,
  HARPE_RECOMPUTE_BACKWARD = 4,
  HARPE_FORWARD_BACKWARD = 5 /**< two overlapped micro-batches; give the forward's numbers */
};

/** Returns HARPE_CLIENT_ABI of the loaded library. */
int harpe_client_abi(void);

/**
 * Receives a message for the user, during `start` on the caller's thread and later on a thread of
 * the client; must not block.
 */
typedef void (*harpe_client_log)(const char* text, void* context);

/**
 * Starts a client. Does not wait for the server or the agent.
 *
 * \param options  JSON (docs/client.md), such as {"server": "http://10.0.0.1:7787", "job": "gpt3",
 *                 "stage": 1}; missing options are taken from the environment; NULL: all of them
 * \param log      NULL: standard error
 * \param error    receives the error message (cut to `error_size`, null-terminated); may be NULL
 * \return NULL if the options are wrong or no thread can be started
 */
harpe_client* harpe_client_start(const char* options, harpe_client_log log, void* context,
                                 char* error, size_t error_size);
/** Sends remaining reports for up to two seconds, ends the lease and frees the client. */
void harpe_client_stop(harpe_client* client);

/** \param micro_batch  -1 if training does not number them */
void harpe_client_instruction_begin(harpe_client* client, int kind, int chunk, int micro_batch);
void harpe_client_instruction_end(harpe_client* client);

/**
 * Returns the plan's label of the instruction that began last, such as a kernel schedule, as
 * written in the profile: at most 31 letters, digits or _-.:+/; "" if it has none. The pointer is
 * valid until the next instruction begins. Call it on the thread that reports instructions. A plan
 * with labels is run only if training has called this function before; otherwise training runs at
 * all-max.
 */
const char* harpe_client_label(harpe_client* client);

/**
 * Follows a stream of a GPU, for training that puts work into it and does not wait for that work.
 * From now on, a call takes effect when the device reaches that point of the stream. Call it once
 * the model is on the device, and again whenever training continues in another stream.
 *
 * \param stream  cudaStream_t or hipStream_t; NULL: the default stream
 * \return 0; or -1, with a reason in `error`, if this process uses neither CUDA nor HIP, or this
 *         thread uses no GPU yet
 */
int harpe_client_follow_stream(harpe_client* client, void* stream, char* error, size_t error_size);

/** Begins an iteration. This call is optional: see docs/client.md. */
void harpe_client_iteration_begin(harpe_client* client, int64_t iteration);

/** Nanoseconds on the clock of `harpe_client_now`. */
typedef struct harpe_span {
  int64_t begin_ns, end_ns;
} harpe_span;
/** \param device_times  begin and end of each instruction on the device; NULL: of the calls */
void harpe_client_iteration_end(harpe_client* client, const harpe_span* device_times, size_t count);

/** Makes reports wait for device times, for at most `most` seconds; 0: they do not wait. */
void harpe_client_await_device_times(harpe_client* client, double most);
/**
 * Adds device times that are known only after their iteration has ended. Iterations must be given
 * in order. May be called from any thread.
 */
void harpe_client_device_times(harpe_client* client, int64_t iteration, const harpe_span* times,
                               size_t count);

/** A request that training pauses. */
typedef struct harpe_pause {
  double until;  /**< expected end, in seconds since 1970; 0 if not known */
  char why[129]; /**< reason, for display; may be empty */
} harpe_pause;
/**
 * Reads the pause that is requested before this iteration (-1: the next). Call it between
 * iterations, before each or every few, but before the same ones on all ranks: then all ranks get
 * the same result. If a pause is requested, training should save its state and then either call
 * `harpe_client_wait_for_resume` or end.
 *
 * \param size  sizeof(harpe_pause) of the caller: no more is written; `pause` may be NULL
 * \return 1 if a pause is requested, else 0
 */
int harpe_client_pause_requested(harpe_client* client, int64_t iteration, harpe_pause* pause,
                                 size_t size);
/**
 * Waits until the pause is over, for at most `most` seconds; below 0: without a limit. This time
 * does not count as part of an iteration.
 *
 * \return 1 if the pause is over, 0 if `most` has elapsed first
 */
int harpe_client_wait_for_resume(harpe_client* client, double most);

/** Returns the time of CLOCK_BOOTTIME in nanoseconds. */
int64_t harpe_client_now(void);

/** Returns 1 if this rank is registered with the server, else 0. */
int harpe_client_registered(const harpe_client* client);

typedef struct harpe_client_counts {
  uint64_t iterations, instructions;
  uint64_t clock_changes; /**< all requests, including `asked_ahead` */
  uint64_t asked_ahead;   /**< requests made while the previous instruction was running */
  uint64_t unexpected;    /**< instructions that were not the next in the schedule */
  uint64_t unknown;       /**< instructions that are not in the schedule */
  uint64_t reports_sent, reports_dropped;
  uint64_t events_lost;
  uint64_t version; /**< of the assignment in force; 0 if none */
} harpe_client_counts;
/** \param size  sizeof(harpe_client_counts) of the caller: no more is written */
void harpe_client_get_counts(const harpe_client* client, harpe_client_counts* counts, size_t size);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*,readability-identifier-naming,performance-enum-size) */

#endif
