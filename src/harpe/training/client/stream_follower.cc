#include "harpe/training/client/stream_follower.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <exception>
#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"

namespace harpe::training {
namespace {

using Event = StreamLibrary::Event;

constexpr std::size_t kMostUnderWay = std::size_t{1} << 14;
constexpr std::chrono::seconds kStopWait{2};

struct RecordedCall {
  StreamCall call;
  Event event = nullptr;  ///< null if there is none to wait for
};

}  // namespace

struct StreamFollower::Shared {
  Shared(StreamLibrary used, StreamLibrary::Context of, Listener heard, Clock& given)
      : library(used), context(of), listener(std::move(heard)), clock(given) {}

  StreamLibrary library;
  StreamLibrary::Context context;
  Listener listener;
  Clock& clock;

  SpscQueue<RecordedCall, kMostUnderWay> told;
  SpscQueue<Event, 2 * kMostUnderWay> spare;  ///< events for training's thread to use again
  std::atomic<int> calls = 0;                 ///< rises with each `wake`, which the follower awaits
  std::atomic<int> error = 0;                 ///< first fatal error code; 0 if none
  std::atomic<bool> stopping = false;

  Mutex mutex;  ///< held while the listener is called
  CondVar ended;
  bool has_ended HARPE_GUARDED_BY(mutex) = false;
  bool let_go HARPE_GUARDED_BY(mutex) = false;  ///< true if the listener is gone

  void wake() {
    calls.fetch_add(1, std::memory_order_release);
    calls.notify_one();
  }
  void note_fault(int code) noexcept {
    int none = 0;
    error.compare_exchange_strong(none, code);
  }
};

/// The loop of the follower's thread.
class StreamFollower::Follow {
 public:
  explicit Follow(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}

  void run() {
    if (const int code = library().use(shared_->context)) shared_->note_fault(code);
    library().disregard_captures();
    RecordedCall told;
    for (;;) {
      const int calls = shared_->calls.load(std::memory_order_acquire);
      if (shared_->told.pop(told)) {
        if (!follow(told)) break;
      } else if (shared_->stopping) {
        break;
      } else {
        shared_->calls.wait(calls);
      }
    }
    finish_iteration();
    while (shared_->told.pop(told)) keep(told.event);
    Event event = nullptr;
    while (shared_->spare.pop(event)) library().destroy(event);
    {
      const MutexLock lock(shared_->mutex);
      shared_->has_ended = true;
    }
    shared_->ended.notify_all();
  }

 private:
  const StreamLibrary& library() const { return shared_->library; }

  /// Handles a call. Returns false if the listener is gone.
  bool follow(const RecordedCall& told) {
    const bool passed = told.event != nullptr && pass(told.event);
    const Instant awake = shared_->clock.now();
    std::int64_t iteration = iteration_;
    if (!heard([&](const Listener& listener) { iteration = listener.reached(told.call); })) {
      keep(told.event);
      return false;
    }
    say_fault();
    if (iteration != iteration_) {
      finish_iteration();
      iteration_ = iteration;
    }
    const bool is_of_instruction = told.call.kind == RankEvent::Kind::kInstructionBegin ||
                                   told.call.kind == RankEvent::Kind::kInstructionEnd;
    if (is_of_instruction && !(passed && take_time(told.event, awake))) complete_ = false;
    if (told.event != first_) keep(told.event);
    const bool is_end = told.call.kind == RankEvent::Kind::kIterationEnd ||
                        told.call.kind == RankEvent::Kind::kPause;
    if (is_end) finish_iteration();
    return true;
  }

  /// Keeps an event to be used again.
  void keep(Event event) {
    if (event != nullptr) shared_->spare.push(event);
  }

  /// Waits for an event. Returns false if the device cannot report its time.
  bool pass(Event event) {
    if (shared_->error != 0) return false;
    const int code = library().wait(event);
    if (code != 0 && !StreamLibrary::is_about_capture(code)) shared_->note_fault(code);
    return code == 0;
  }

  bool take_time(Event event, Instant awake) {
    std::int64_t since_first = 0;
    if (first_ == nullptr) {
      first_ = event;
    } else if (library().elapsed(first_, event, since_first) != 0) {
      return false;
    }
    times_.push_back(since_first);
    first_at_ = std::min(first_at_, awake.ns - since_first);
    return true;
  }

  void finish_iteration() {
    const std::uint64_t lost = shared_->told.lost();
    if (std::exchange(lost_, lost) != lost) complete_ = false;
    if (complete_ && !times_.empty() && times_.size() % 2 == 0) {
      std::vector<TimeSpan> spans;
      for (std::size_t i = 0; i < times_.size(); i += 2) {
        spans.push_back({{first_at_ + times_[i]}, {first_at_ + times_[i + 1]}});
      }
      heard([&](const Listener& listener) { listener.times(iteration_, spans); });
    }
    keep(std::exchange(first_, nullptr));
    times_.clear();
    first_at_ = std::numeric_limits<std::int64_t>::max();
    complete_ = true;
  }

  void say_fault() {
    const int code = shared_->error;
    if (code == 0 || std::exchange(told_fault_, true)) return;
    heard([&](const Listener& listener) {
      listener.log("the GPU's stream can no longer be followed: " + library().words(code) +
                   "; training continues, clocks follow its calls, and nothing is reported");
    });
  }

  /// Calls the listener. Returns false if it is gone.
  template <class Call>
  bool heard(const Call& call) {
    const MutexLock lock(shared_->mutex);
    if (!shared_->let_go) call(shared_->listener);
    return !shared_->let_go;
  }

  std::shared_ptr<Shared> shared_;
  std::int64_t iteration_ = -1;
  Event first_ = nullptr;            ///< first event of the iteration
  std::vector<std::int64_t> times_;  ///< ns since `first_`, begins and ends in turn
  std::int64_t first_at_ = std::numeric_limits<std::int64_t>::max();  ///< on the machine's clock
  bool complete_ = true;
  std::uint64_t lost_ = 0;
  bool told_fault_ = false;
};

Result<std::unique_ptr<StreamFollower>> StreamFollower::start(Listener listener, Clock& clock) {
  auto library = HARPE_TRY(StreamLibrary::find());
  StreamLibrary::Context context;
  if (const int code = library.context(context)) {
    return Error::of(ErrorCode::kUnavailable,
                     "this thread uses no GPU yet (" + library.words(code) +
                         "): follow its stream once the model is on the device");
  }
  try {
    return std::unique_ptr<StreamFollower>(
        new StreamFollower(std::make_shared<Shared>(library, context, std::move(listener), clock)));
  } catch (const std::exception& error) {
    return Error::of(ErrorCode::kUnavailable,
                     std::string("the GPU's stream cannot be followed: ") + error.what());
  }
}

StreamFollower::StreamFollower(std::shared_ptr<Shared> shared)
    : shared_(std::move(shared)), thread_([follow = Follow(shared_)]() mutable { follow.run(); }) {}

StreamFollower::~StreamFollower() {
  shared_->stopping = true;
  shared_->wake();
  bool has_ended = false;
  {
    MutexLock lock(shared_->mutex);
    has_ended = shared_->ended.wait_for(
        shared_->mutex, kStopWait,
        [this]() HARPE_REQUIRES(shared_->mutex) { return shared_->has_ended; });
    shared_->let_go = true;
  }
  if (has_ended) {
    thread_.join();
  } else {
    // A device that hangs must not hold up the end of the program.
    thread_.detach();
  }
  if (unused_ != nullptr) shared_->library.destroy(unused_);
}

bool StreamFollower::tell(StreamLibrary::Stream stream, const StreamCall& call) noexcept {
  const RecordedCall told{.call = call, .event = mark(stream)};
  const bool taken = shared_->told.push(told);
  if (!taken) unused_ = told.event;
  shared_->wake();
  return taken;
}

StreamLibrary::Event StreamFollower::mark(StreamLibrary::Stream stream) noexcept {
  const StreamLibrary& library = shared_->library;
  if (shared_->error.load(std::memory_order_relaxed) != 0) return nullptr;
  if (library.is_capturing(stream)) return nullptr;
  Event event = std::exchange(unused_, nullptr);
  int code = 0;
  if (event == nullptr && !shared_->spare.pop(event)) code = library.make(event);
  if (code == 0) code = library.record(event, stream);
  if (code == 0) return event;
  if (!StreamLibrary::is_about_capture(code)) shared_->note_fault(code);
  unused_ = event;
  return nullptr;
}

}  // namespace harpe::training
