#pragma once
/// \file
/// Training that runs ahead of its device: calls about work that was only put into a stream take
/// effect when the device gets there.
///
/// Each call puts an event of the device behind what is in the stream. A thread waits for one after
/// the other, asleep, and passes the calls on: clocks are then asked for when their instructions
/// begin and end on the device, as if training waited for it, though nothing holds up training or
/// the device. When an iteration is over, the times between its events say when each instruction
/// ran. A thread wakes some tens of microseconds after its event; the earliest awakening of an
/// iteration, against the device's own clock, places all of its times.

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

/// What training says with one call.
struct StreamCall {
  RankEvent::Kind kind = RankEvent::Kind::kIterationBegin;
  InstructionKind instruction = InstructionKind::kForward;
  int chunk = 0, micro_batch = -1;
  std::int64_t iteration = 0;
  std::uint64_t labelled = 0;  ///< version of the assignment whose labels training runs by; 0: none
};

class StreamFollower {
 public:
  /// All called on the follower's thread.
  struct Listener {
    /// The device has got to where this call was made. Returns the iteration that it is in by now.
    std::function<std::int64_t(const StreamCall&)> reached;
    /// When each instruction of an iteration ran, on the machine's clock (`clock`).
    std::function<void(std::int64_t iteration, std::span<const TimeSpan>)> times;
    std::function<void(const std::string&)> log;
  };

  /// Of the device that is current in the calling thread. Fails where training has not begun to use
  /// one.
  static Result<std::unique_ptr<StreamFollower>> start(Listener listener, Clock& clock);
  /// Waits for what the device has yet to do, two seconds at most. The listener is called no more.
  ~StreamFollower();
  StreamFollower(const StreamFollower&) = delete;
  StreamFollower& operator=(const StreamFollower&) = delete;

  /// By training's thread. Never waits; allocates where more events are under way than ever
  /// before. While the stream captures a graph there is nothing to follow: the call takes effect
  /// after the one before, and the times of that iteration are not given. False where thousands of
  /// calls are under way, and this one was dropped.
  bool tell(StreamLibrary::Stream stream, const StreamCall& call) noexcept;

 private:
  struct Shared;
  class Follow;
  explicit StreamFollower(std::shared_ptr<Shared> shared);
  StreamLibrary::Event mark(StreamLibrary::Stream stream) noexcept;

  std::shared_ptr<Shared> shared_;         ///< with the thread, which may outlive this
  StreamLibrary::Event unused_ = nullptr;  ///< of a call that was dropped
  std::thread thread_;
};

}  // namespace harpe::training
