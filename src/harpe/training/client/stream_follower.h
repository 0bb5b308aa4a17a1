#pragma once
/// \file
/// A follower of a device's stream, for training that runs ahead of its device: a call takes effect
/// when the device has done the work that was put into the stream before the call.
///
/// Each call records an event of the device in the stream. A thread sleeps until each event in turn
/// and then passes on its call. So clocks are requested when instructions begin and end on the
/// device, as if training waited for it, but neither training nor the device is delayed. When an
/// iteration is over, the times between its events give the time of each instruction. The thread
/// wakes some tens of microseconds after an event; the earliest awakening of an iteration relative
/// to the device's clock fixes all of its times on the machine's clock.

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <thread>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/training/client/rank_event.h"
#include "harpe/training/client/stream_library.h"

namespace harpe::training {

/// One call of training.
struct StreamCall {
  RankEvent::Kind kind = RankEvent::Kind::kIterationBegin;
  InstructionKind instruction = InstructionKind::kForward;
  int chunk = 0, micro_batch = -1;
  std::int64_t iteration = 0;
  std::uint64_t labelled = 0;  ///< version whose labels training runs by; 0 if none
};

class StreamFollower {
 public:
  /// The listener's functions are called on the follower's thread.
  struct Listener {
    /// Called when the device has reached this call. Returns the iteration of the device then.
    std::function<std::int64_t(const StreamCall&)> reached;
    /// Called with the begin and end of each instruction of an iteration, on `clock`.
    std::function<void(std::int64_t iteration, std::span<const TimeSpan>)> times;
    std::function<void(const std::string&)> log;
  };

  /// Follows streams of the calling thread's current device. Fails if the thread uses none yet.
  static Result<std::unique_ptr<StreamFollower>> start(Listener listener, Clock& clock);
  /// Waits for the device's remaining work, at most two seconds, and ends calls of the listener.
  ~StreamFollower();
  StreamFollower(const StreamFollower&) = delete;
  StreamFollower& operator=(const StreamFollower&) = delete;

  /// Adds a call of training's thread. Never waits; allocates if more events are pending than ever
  /// before. While the stream captures a graph, no event is recorded: the call takes effect right
  /// after the one before, and the times of that iteration are not reported. Returns false if the
  /// call was dropped because thousands of calls are pending.
  bool tell(StreamLibrary::Stream stream, const StreamCall& call) noexcept;

 private:
  struct Shared;
  class Follow;
  explicit StreamFollower(std::shared_ptr<Shared> shared);
  StreamLibrary::Event mark(StreamLibrary::Stream stream) noexcept;

  std::shared_ptr<Shared> shared_;         ///< with the thread, which may outlive this object
  StreamLibrary::Event unused_ = nullptr;  ///< of a call that was dropped
  std::thread thread_;
};

}  // namespace harpe::training
