#pragma once
/// \file
/// The client that a training rank links. It reports the time and energy of instructions to the
/// server and sets the GPU's clock by the plan:
///
///   auto harpe = harpe::RankClient::start(options);               // once
///   (*harpe)->on_instruction_begin(kForward, chunk, micro_batch);  // around each computation
///   (*harpe)->on_instruction_end();
///
/// Cost. The calls around instructions take no lock, allocate nothing and never wait. Their only
/// system call wakes the agent when the clock has to change. (For the cost with a stream, see
/// `follow_stream`.) Other work runs on two threads of the client and a third that samples the GPU.
///
/// Failure. Training never fails because of Harpe. Without a server or an agent it continues at
/// full clocks; the client logs this once and keeps trying to connect. No function throws.
///
/// Threads. The `on_...` and pause functions must be called by one thread at a time; `counts` and
/// `registered` may be called from any thread. If instructions only put work into a stream of the
/// device, pass that stream to `follow_stream`.

#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/training/client/rank_client_options.h"

namespace harpe {

class RankClient {
 public:
  /// Totals since the start.
  struct Counts {
    std::uint64_t iterations = 0, instructions = 0;
    std::uint64_t clock_changes = 0;  ///< all requests, including `asked_ahead`
    std::uint64_t asked_ahead = 0;    ///< requests made while the previous instruction was running
    std::uint64_t unexpected = 0;     ///< instructions that were not the next in the schedule
    std::uint64_t unknown = 0;        ///< instructions that are not in the schedule
    std::uint64_t reports_sent = 0, reports_dropped = 0;
    std::uint64_t events_lost = 0;
    std::uint64_t version = 0;  ///< of the assignment in force; 0 if none
  };

  /// A request that training pauses.
  struct Pause {
    std::optional<Seconds> until = {};  ///< expected end, since 1970; nullopt if not known
    std::string why = {};               ///< reason, for display; may be empty
  };

  /// Completes the options from the environment and starts the threads. Does not wait for the
  /// server or the agent. Fails if the options are wrong or no thread can be started.
  static Result<std::unique_ptr<RankClient>> start(RankClientOptions options = {});
  /// Sends the remaining reports, for at most two seconds, and ends the lease on the clock.
  virtual ~RankClient() = default;

  /// \param micro_batch  -1 if training does not number them: the next of that kind and chunk
  virtual void on_instruction_begin(InstructionKind kind, int chunk = 0,
                                    int micro_batch = -1) noexcept = 0;
  virtual void on_instruction_end() noexcept = 0;
  /// Returns the plan's label of the instruction that began last, such as a kernel schedule, as
  /// written in the profile; "" if it has none. The pointer is valid until the next instruction
  /// begins. Call it on the thread that reports instructions. A plan with labels is run only if
  /// training has called this function before; otherwise training runs at all-max.
  virtual const char* label() noexcept = 0;

  /// Follows a stream of a GPU, for training that puts work into it and does not wait for that
  /// work. From now on, a call takes effect when the device reaches that point of the stream, and
  /// instructions are reported with the device's times. Each call records an event in the stream
  /// and wakes a thread of the client that waits for the event; neither training nor the device
  /// waits. A call allocates if more events are pending than ever before. Call `follow_stream`
  /// again, which is cheap, whenever training continues in another stream of that GPU.
  ///
  /// Fails and changes nothing if this process uses neither CUDA nor HIP, or if the calling thread
  /// uses no GPU yet.
  ///
  /// \param stream  cudaStream_t or hipStream_t; null: the default stream
  virtual Status follow_stream(void* stream) noexcept = 0;

  /// Begins an iteration; its number must be the same on all ranks. This call is optional: without
  /// it, the first instruction after the last one of the stage's list begins the next iteration,
  /// counted from 0.
  virtual void on_iteration_begin(std::int64_t iteration) noexcept = 0;
  /// Ends an iteration. This call is optional. With `device_times`, it allocates and may wait
  /// briefly for a lock.
  ///
  /// \param device_times  begin and end of each instruction of this iteration on the device, in the
  ///                      order of the calls, on the clock of `system_clock` (CLOCK_BOOTTIME); they
  ///                      replace the times of the calls. Ignored after `follow_stream`, which
  ///                      measures them.
  virtual void on_iteration_end(std::span<const TimeSpan> device_times = {}) noexcept = 0;

  /// Sets how long the report of an iteration waits for its device times, for training whose calls
  /// return before the device has done the work. A report without them by then is dropped. Zero,
  /// the default: reports do not wait.
  virtual void await_device_times(Seconds most) noexcept = 0;
  /// Adds the device times of an iteration, as in `on_iteration_end`, if they are known only after
  /// its end. Iterations must be given in order. May be called from any thread; allocates.
  virtual void on_device_times(std::int64_t iteration,
                               std::span<const TimeSpan> times) noexcept = 0;

  /// Returns the pause that is requested before this iteration (-1: the next), or nullopt. Call it
  /// between iterations, before each or every few, but before the same ones on all ranks: then all
  /// ranks get the same result. If a pause is requested, training should save its state and then
  /// either call `wait_for_resume` or end; otherwise the pause is requested again before the next
  /// iteration. A requested pause ends the previous iteration here and unlocks the clock.
  virtual std::optional<Pause> pause_requested(std::int64_t iteration = -1) noexcept = 0;
  /// Waits until the pause is over. This time does not count as part of an iteration.
  /// \returns  false if `most` has elapsed first
  virtual bool wait_for_resume(Seconds most = Seconds{
                                   std::numeric_limits<double>::infinity()}) noexcept = 0;

  virtual Counts counts() const noexcept = 0;
  /// Returns true if this rank is registered with the server.
  virtual bool registered() const noexcept = 0;
};

}  // namespace harpe
