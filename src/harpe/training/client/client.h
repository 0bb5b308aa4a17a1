#pragma once
/// \file
/// What a training rank links. It reports to the server what instructions cost and has its GPU's
/// clock follow the plan:
///
///   auto harpe = harpe::RankClient::start(options);               // once
///   (*harpe)->on_instruction_begin(kForward, chunk, micro_batch);  // around each computation
///   (*harpe)->on_instruction_end();
///
/// Cost. The calls around instructions take no lock, allocate nothing and never wait; the one
/// system call among them is waking the agent when the clock has to change. Everything else happens
/// on two threads of the client's own, and one that samples the GPU.
///
/// Failure. Training never fails because of Harpe: without a server or an agent it goes on, at full
/// clocks, and a line says so once; both are looked for again and again. No exception comes out.
///
/// Threads. One thread, or several one after another, calls `on_...` and what is about pauses;
/// `counts` may be called from any. Where instructions only put work into a queue of their device,
/// say which one
/// (`follow_stream`).

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
  /// What has happened since the start.
  struct Counts {
    std::uint64_t iterations = 0, instructions = 0;
    std::uint64_t clock_changes = 0;  ///< asked for, ahead or not
    std::uint64_t asked_ahead = 0;    ///< of these, while another instruction ran
    std::uint64_t unexpected = 0;     ///< instructions that were not the next of the schedule
    std::uint64_t unknown = 0;        ///< that the schedule does not have
    std::uint64_t reports_sent = 0, reports_dropped = 0;
    std::uint64_t events_lost = 0;
    std::uint64_t version = 0;  ///< of the assignments in force; 0: none
  };

  /// A pause that training is asked for.
  struct Pause {
    std::optional<Seconds> until = {};  ///< since 1970: when it should end; none: not known
    std::string why = {};               ///< for people; may be empty
  };

  /// Completes the options from the environment and starts the threads; waits for neither server
  /// nor agent. Fails only on options that are wrong.
  static Result<std::unique_ptr<RankClient>> start(RankClientOptions options = {});
  /// Sends what is left for up to two seconds, and gives the clock back.
  virtual ~RankClient() = default;

  /// \param micro_batch  -1 where training does not count them: the next of that kind and chunk
  virtual void on_instruction_begin(InstructionKind kind, int chunk = 0,
                                    int micro_batch = -1) noexcept = 0;
  virtual void on_instruction_end() noexcept = 0;
  /// What the plan says of how to run the instruction that began last, such as a kernel schedule,
  /// in its profile's words; "" where it says nothing. On the thread that reports instructions;
  /// lasts until the next one begins. Plans with labels are for training that asks: where it never
  /// has, it runs at all-max.
  virtual const char* label() noexcept = 0;

  /// Where calls only put work into a stream of a GPU (`stream`: cudaStream_t or hipStream_t; null:
  /// the default one): from now on, a call counts from when the device gets there. Each call
  /// then puts an event into the stream, and a thread of the client's waits for it; training and
  /// the device wait for nothing. Instructions are reported with the device's times. Again, and
  /// cheaply, whenever training goes on in another stream of that GPU.
  ///
  /// Fails, and changes nothing, where this process uses neither CUDA nor HIP, or the calling
  /// thread no GPU yet.
  virtual Status follow_stream(void* stream) noexcept = 0;

  /// The iteration's number, alike on all ranks. May be left out: the first instruction after the
  /// last of the schedule's list begins the next iteration, counted from 0.
  virtual void on_iteration_begin(std::int64_t iteration) noexcept = 0;
  /// May be left out. `device_times`: when each instruction of this iteration began and ended on
  /// the device, in the order of the calls and on the clock of `system_clock` (CLOCK_BOOTTIME);
  /// they replace the times of the calls. Allocates, and may wait shortly, where there are some. A
  /// stream that is followed says it by itself.
  virtual void on_iteration_end(std::span<const TimeSpan> device_times = {}) noexcept = 0;

  /// Where calls return before the device has done the work, its times are known long after the
  /// iteration has ended: from now on reports wait for them, `most` at longest, and are dropped
  /// without. Zero, as at first: they do not wait.
  virtual void await_device_times(Seconds most) noexcept = 0;
  /// Such times, as in `on_iteration_end`; iterations in their order. From any thread; allocates.
  virtual void on_device_times(std::int64_t iteration,
                               std::span<const TimeSpan> times) noexcept = 0;

  /// Whether training is asked to pause before this iteration, -1: the next. Between iterations,
  /// before each one or every few, the same ones on all ranks: all get the same answer. Training
  /// that is asked writes what it wants to keep and waits, or ends; one that does neither is asked
  /// again before the next. The iteration before counts up to here, and the clock is given back.
  virtual std::optional<Pause> pause_requested(std::int64_t iteration = -1) noexcept = 0;
  /// Waits until training is to go on. Nothing of that time counts as an iteration's.
  /// \returns  false where `most` came first
  virtual bool wait_for_resume(Seconds most = Seconds{
                                   std::numeric_limits<double>::infinity()}) noexcept = 0;

  virtual Counts counts() const noexcept = 0;
  /// The server knows this rank.
  virtual bool registered() const noexcept = 0;
};

}  // namespace harpe
