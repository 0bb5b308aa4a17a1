// A replacement of CUDA's driver (libcuda.so.1) for streams and events: work in a stream runs in
// order on a thread of the stream. cuLaunchHostFunc enqueues work, as in CUDA. The clock of the
// device is the machine's clock, or the value "device_ns" once it is set.
//
// It is as strict as the driver: calls without a context fail; a captured event cannot be waited
// for; and a thread that waits while another thread captures breaks the capture, unless its capture
// mode ignores the captures of other threads.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <thread>
#include <utility>

#include "harpe/base/mutex.h"
#include "harpe/device/hw/script_testing.h"

namespace {

constexpr int kInvalidValue = 1, kInvalidContext = 201, kInvalidHandle = 400, kNotReady = 600;
constexpr int kCaptureUnsupported = 900, kCapturedEvent = 907;
constexpr int kGlobal = 0;

thread_local void* context = nullptr;
thread_local int capture_mode = kGlobal;

std::int64_t device_now() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return static_cast<std::int64_t>(
      value("device_ns", static_cast<std::uint64_t>(
                             std::chrono::duration_cast<std::chrono::nanoseconds>(now).count())));
}
bool is_capturing() {
  return value("capturing", 0) != 0;
}

/// An event. It is kept until the process ends, because it may be destroyed before it has passed.
struct Event {
  harpe::Mutex mutex;
  harpe::CondVar passed;
  int under_way HARPE_GUARDED_BY(mutex) = 0;
  bool recorded HARPE_GUARDED_BY(mutex) = false, captured HARPE_GUARDED_BY(mutex) = false;
  std::int64_t at HARPE_GUARDED_BY(mutex) = 0;
};

Event* new_event() {
  static harpe::Mutex mutex;
  static std::deque<Event> events;
  const harpe::MutexLock lock(mutex);
  return &events.emplace_back();
}

class Stream {
 public:
  Stream() : thread_([this] { run(); }) {}
  ~Stream() {
    put(nullptr);
    thread_.join();
  }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void put(std::function<void()> work) {
    {
      const harpe::MutexLock lock(mutex_);
      work_.push_back(std::move(work));
    }
    more_.notify_all();
  }

 private:
  void run() {
    for (;;) {
      harpe::MutexLock lock(mutex_);
      more_.wait(mutex_, [this]() HARPE_REQUIRES(mutex_) { return !work_.empty(); });
      const std::function<void()> work = std::move(work_.front());
      work_.pop_front();
      lock.unlock();
      if (!work) return;
      work();
    }
  }

  harpe::Mutex mutex_;
  harpe::CondVar more_;
  std::deque<std::function<void()>> work_ HARPE_GUARDED_BY(mutex_);
  std::thread thread_;
};

Stream& stream_of(void* handle) {
  static Stream default_stream;
  return handle == nullptr ? default_stream : *static_cast<Stream*>(handle);
}

/// Begins a call that needs a context. Returns its error code; 0 if it succeeds.
int begun(const char* function) {
  const int told = respond(function);
  return told != 0 ? told : context == nullptr ? kInvalidContext : 0;
}

}  // namespace

// NOLINTBEGIN(readability-identifier-naming): the driver's names.
extern "C" {

int cuCtxGetCurrent(void** current) {
  *current = context;
  return respond("cuCtxGetCurrent");
}
int cuCtxSetCurrent(void* now) {
  context = now;
  return respond("cuCtxSetCurrent");
}
int cuThreadExchangeStreamCaptureMode(int* mode) {
  std::swap(*mode, capture_mode);
  return begun("cuThreadExchangeStreamCaptureMode");
}

int cuStreamCreate(void** stream, unsigned) {
  if (const int code = begun("cuStreamCreate")) return code;
  *stream = new Stream;
  return 0;
}
int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return respond("cuStreamDestroy_v2");
}
int cuStreamIsCapturing(void*, int* status) {
  *status = is_capturing() ? 1 : 0;
  return begun("cuStreamIsCapturing");
}
int cuLaunchHostFunc(void* stream, void (*function)(void*), void* data) {
  if (const int code = begun("cuLaunchHostFunc")) return code;
  if (!is_capturing()) stream_of(stream).put([function, data] { function(data); });
  return 0;
}

int cuEventCreate(void** event, unsigned flags) {
  if (const int code = begun("cuEventCreate")) return code;
  if ((flags & 2U) != 0) return kInvalidValue;  // the client needs the times of events
  *event = new_event();
  return 0;
}
int cuEventDestroy_v2(void*) {
  return respond("cuEventDestroy_v2");
}
int cuEventRecord(void* handle, void* stream) {
  if (const int code = begun("cuEventRecord")) return code;
  auto* event = static_cast<Event*>(handle);
  {
    const harpe::MutexLock lock(event->mutex);
    event->recorded = true;
    event->captured = is_capturing();
    if (event->captured) return 0;
    ++event->under_way;
  }
  stream_of(stream).put([event] {
    const harpe::MutexLock lock(event->mutex);
    event->at = device_now();
    --event->under_way;
    event->passed.notify_all();
  });
  return 0;
}
int cuEventSynchronize(void* handle) {
  if (const int code = begun("cuEventSynchronize")) return code;
  if (is_capturing() && capture_mode == kGlobal) {
    remember("captures_broken", value("captures_broken", 0) + 1);
    return kCaptureUnsupported;
  }
  auto* event = static_cast<Event*>(handle);
  harpe::MutexLock lock(event->mutex);
  if (event->captured) return kCapturedEvent;
  event->passed.wait(event->mutex,
                     [event]() HARPE_REQUIRES(event->mutex) { return event->under_way == 0; });
  return 0;
}
int cuEventElapsedTime(float* milliseconds, void* from, void* to) {
  if (const int code = begun("cuEventElapsedTime")) return code;
  std::int64_t at[2] = {};
  for (const int which : {0, 1}) {
    auto* event = static_cast<Event*>(which == 0 ? from : to);
    const harpe::MutexLock lock(event->mutex);
    if (!event->recorded || event->captured) return kInvalidHandle;
    if (event->under_way != 0) return kNotReady;
    at[which] = event->at;
  }
  const std::int64_t half_microseconds = (at[1] - at[0]) / 500;
  *milliseconds = static_cast<float>(half_microseconds) * 0.0005F;
  return 0;
}

int cuGetErrorName(int code, const char** name) {
  *name = code == 700               ? "CUDA_ERROR_ILLEGAL_ADDRESS"
          : code == kInvalidContext ? "CUDA_ERROR_INVALID_CONTEXT"
                                    : "CUDA_ERROR";
  return 0;
}

}  // extern "C"
// NOLINTEND(readability-identifier-naming)
