/** \file
 * What a training rank links, for C and for every language that calls C: the library
 * `libharpe_client`. The calls are those of `harpe::RankClient` (client.h); docs/client.md has
 * the whole story.
 *
 *     harpe_client *harpe = harpe_client_start(NULL, NULL, NULL, error, sizeof error);
 *     harpe_client_instruction_begin(harpe, HARPE_FORWARD, chunk, micro_batch);
 *     harpe_client_instruction_end(harpe);
 *     ...
 *     harpe_client_stop(harpe);
 *
 * Threads: one thread, or several one after another, calls the functions named `instruction` and
 * `iteration`, and what is about pauses, of one client; `counts` and `registered` may be called
 * from any. `stop` comes after all others.
 *
 * Failure: only `start` fails, on wrong options. All others do nothing on a null client, so that a
 * program may go on without one. Nothing is thrown, no signal is caught, no process is ended.
 *
 * Cost: `instruction_begin`, `instruction_end` and `label` take no lock, allocate nothing and
 * never wait.
 *
 * Versions: functions and struct members are only ever added; a change of one that is there raises
 * HARPE_CLIENT_ABI and the library's soname.
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

/** Kinds of computations. Loading, sending and the like are not reported. */
enum harpe_instruction {
  HARPE_FORWARD = 0,
  HARPE_BACKWARD = 1, /**< the input gradient alone, where HARPE_WEIGHT follows */
  HARPE_WEIGHT = 2,
  HARPE_RECOMPUTE = 3,
  HARPE_RECOMPUTE_BACKWARD = 4,
  HARPE_FORWARD_BACKWARD = 5 /**< two micro-batches overlapped; give the forward's numbers */
};

/** HARPE_CLIENT_ABI of the library that was loaded. */
int harpe_client_abi(void);

/** Hears what a person should know, from a thread of the client's own; must not block. */
typedef void (*harpe_client_log)(const char* text, void* context);

/**
 * Starts a client; does not wait for server or agent.
 *
 * \param options  JSON (docs/client.md), such as {"server": "http://10.0.0.1:7787", "job": "gpt3",
 *                 "stage": 1}; what is left out is taken from the environment; NULL: all of it
 * \param log      NULL: standard error
 * \param error    where to say what is wrong (cut to `error_size`, always ended); may be NULL
 * \return NULL where the options are wrong
 */
harpe_client* harpe_client_start(const char* options, harpe_client_log log, void* context,
                                 char* error, size_t error_size);
/** Sends what is left for up to two seconds, gives the clock back and frees the client. */
void harpe_client_stop(harpe_client* client);

/** \param micro_batch  -1 where training does not count them */
void harpe_client_instruction_begin(harpe_client* client, int kind, int chunk, int micro_batch);
void harpe_client_instruction_end(harpe_client* client);

/**
 * What the plan says of how to run the instruction that began last, such as a kernel schedule, in
 * its profile's words: at most 31 letters, digits or _-.:+/; "" where it says nothing. On the
 * thread that reports instructions; lasts until the next one begins. Plans with labels are for
 * training that asks: where it never has, it runs at all-max.
 */
const char* harpe_client_label(harpe_client* client);

/**
 * Where calls only put work into a stream of a GPU (cudaStream_t or hipStream_t; NULL: the default
 * one): from now on, a call counts from when the device gets there. Again whenever training
 * goes on in another stream. Call it once the model is on the device.
 *
 * \return 0; or -1, with a reason in `error`, where this process uses neither CUDA nor HIP, or this
 *         thread no GPU yet
 */
int harpe_client_follow_stream(harpe_client* client, void* stream, char* error, size_t error_size);

/** May be left out: see docs/client.md. */
void harpe_client_iteration_begin(harpe_client* client, int64_t iteration);

/** Nanoseconds on the clock of `harpe_client_now`. */
typedef struct harpe_span {
  int64_t begin_ns, end_ns;
} harpe_span;
/** \param device_times  when each instruction of it ran on the device; NULL: as called */
void harpe_client_iteration_end(harpe_client* client, const harpe_span* device_times, size_t count);

/** From now on reports wait for times of the device, `most` seconds at longest; 0: they do not. */
void harpe_client_await_device_times(harpe_client* client, double most);
/** Such times, known after their iteration has ended; iterations in their order. From any thread.
 */
void harpe_client_device_times(harpe_client* client, int64_t iteration, const harpe_span* times,
                               size_t count);

/** A pause that training is asked for. */
typedef struct harpe_pause {
  double until;  /**< when it should end, in seconds since 1970; 0: not known */
  char why[129]; /**< for people; may be empty */
} harpe_pause;
/**
 * Whether training is asked to pause before this iteration (-1: the next). Between iterations,
 * before each or every few, the same ones on all ranks: all get the same answer. Training that is
 * asked writes what it wants to keep and waits, or ends.
 *
 * \param size  sizeof(harpe_pause) of the caller: no more is written; `pause` may be NULL
 * \return 1 where it is asked
 */
int harpe_client_pause_requested(harpe_client* client, int64_t iteration, harpe_pause* pause,
                                 size_t size);
/**
 * Waits until training is to go on, `most` seconds at longest; below 0: however long it takes. None
 * of that time counts as an iteration's.
 *
 * \return 1 where training is to go on, 0 where `most` came first
 */
int harpe_client_wait_for_resume(harpe_client* client, double most);

/** CLOCK_BOOTTIME. */
int64_t harpe_client_now(void);

/** 1 where the server knows this rank. */
int harpe_client_registered(const harpe_client* client);

typedef struct harpe_client_counts {
  uint64_t iterations, instructions;
  uint64_t clock_changes; /**< asked for */
  uint64_t asked_ahead;   /**< of these, while another instruction ran */
  uint64_t unexpected;    /**< instructions that were not the next of the schedule */
  uint64_t unknown;       /**< that the schedule does not have */
  uint64_t reports_sent, reports_dropped;
  uint64_t events_lost;
  uint64_t version; /**< of the assignments in force; 0: none */
} harpe_client_counts;
/** \param size  sizeof(harpe_client_counts) of the caller: no more is written */
void harpe_client_get_counts(const harpe_client* client, harpe_client_counts* counts, size_t size);

#ifdef __cplusplus
}
#endif

/* NOLINTEND(modernize-*,readability-identifier-naming,performance-enum-size) */

#endif
