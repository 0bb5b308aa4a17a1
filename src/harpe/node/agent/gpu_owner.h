#pragma once
/// \file
/// The thread that owns the driver of one GPU. All work on the GPU is queued to it, so a slow call
/// delays only this GPU and the clients that wait for a response from it.
///
/// Order: the newest clock command of the channel first, then requests under leases in their order,
/// then duties that are due (gpu_duties.h), then polling, then requests of readers. Readers have
/// their own queue and get a fifth of the thread's time. So a client that may only read delays a
/// client that may set by at most one call.

#include <sched.h>

#include <atomic>
#include <chrono>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/gpu_duties.h"
#include "harpe/node/node_client/clock_slot.h"

namespace harpe::node {

class GpuOwner {
 public:
  struct Options {
    Seconds minimum_dwell{0.02};
    Seconds poll{0.05};
    bool prompt = true;            ///< `ControllerOptions::prompt_owners`
    std::vector<int> cpus = {};    ///< `ControllerOptions::owner_cpus`
    Seconds longest_shutdown{10};  ///< time for which restoring is retried when the thread ends
    Seconds look_at_processes{0};  ///< interval of reading the GPU's processes; 0 for never
  };
  /// Callbacks for readings and events. The owner calls them on its thread.
  struct Observers {
    std::function<void(const GpuReading&)> heard;      ///< every `poll` while there are listeners
    std::function<void(const std::string&)> on_event;  ///< events for the operator
    /// Ids of the processes that compute on the GPU, every `look_at_processes`.
    std::function<void(const Result<std::vector<std::int64_t>>&)> processes = {};
  };

  GpuOwner(std::unique_ptr<GpuControl> control, Options options, Counters& counters, Clock& clock,
           Observers observers);
  GpuOwner(const GpuOwner&) = delete;
  GpuOwner& operator=(const GpuOwner&) = delete;
  /// Refuses queued requests, restores all settings, and ends the thread.
  ~GpuOwner();
  /// Begins the shutdown of the destructor without waiting for it.
  void begin_shutdown();
  /// Waits for the end of the shutdown. Returns false if a driver call still hangs: the thread is
  /// then abandoned, no caller gets a response any more, and neither this object nor its arguments
  /// may ever be destroyed.
  bool join_until(std::chrono::steady_clock::time_point until);

  /// Queues work that sets the GPU (`sets`) or reads from it. Responds with an error at once if the
  /// queue is full, or later if `sets` and the GPU could not be restored yet.
  template <class T>
  void ask(const Done<T>& done, std::function<Result<T>(GpuControl&)> work, bool sets = false);
  /// Reads the GPU. All callers that wait share one reading.
  void read(Done<GpuReading> done);

  /// Serves the commands of this slot from now on, and of no other.
  Status attach(std::shared_ptr<ClockSlot> slot, Holder holder);
  /// Stops serving the channel of a lease and restores the lease's settings. Never refused.
  void end_lease(const Holder& holder, Done<std::monostate> done);

  void set_listening(bool listening);
  /// Returns true if a setting of an ended lease could not be restored yet. Thread-safe.
  bool could_not_restore() const { return duties_.could_not_restore(); }

 private:
  using Task = std::function<void()>;
  enum class Urgency : unsigned char { kUsual, kAlways };

  /// Calls `respond`, which responds to callers, unless the thread was abandoned.
  template <class Respond>
  void speak(Respond respond) {
    const MutexLock lock(voice_mutex_);
    if (!silent_) respond();
  }

  bool post(Task task, Urgency urgency = Urgency::kUsual);
  bool post_read(Task task);
  std::optional<Task> next_task();
  void serve_readers();
  void wake();
  static Error too_much_waits();
  static Error stops();

  void run();
  void be_prompt();
  void keep_to_cpus();
  void follow(int cpu);
  void poll();
  void shut_down();
  std::optional<Instant> next_due() const;
  bool wait();
  void slot_changed();

  const Options options_;
  Clock& clock_;
  const Observers observers_;
  GpuDuties duties_;  ///< used only by the thread
  std::atomic<std::uint32_t> doorbell_ =
      0;  ///< 1 while the thread sleeps on it; with a slot, it sleeps on the slot's doorbell

  Mutex mutex_;                                               ///< guards the queues and `slot_`
  std::shared_ptr<ClockSlot> slot_ HARPE_GUARDED_BY(mutex_);  ///< slot whose doorbell is used
  std::deque<Task> tasks_ HARPE_GUARDED_BY(mutex_);
  std::deque<Task> reads_ HARPE_GUARDED_BY(mutex_);
  std::vector<Done<GpuReading>> readers_ HARPE_GUARDED_BY(mutex_);
  std::atomic<bool> has_tasks_ = false, has_reads_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> listening_ = false;

  // Used only by the thread.
  Instant next_poll_, next_look_, next_read_;
  cpu_set_t cpus_{};  ///< CPUs of the options; empty for any CPU
  int cpu_ = -1;      ///< CPU of `cpus_` that the thread is bound to; -1 for all of them

  Mutex voice_mutex_;
  bool silent_ HARPE_GUARDED_BY(voice_mutex_) = false;
  std::promise<void> end_;
  const std::future<void> ended_{end_.get_future()};
  std::thread thread_;
};

template <class T>
void GpuOwner::ask(const Done<T>& done, std::function<Result<T>(GpuControl&)> work, bool sets) {
  const auto task = [this, done, work = std::move(work), sets] {
    Status ready = ok_status();
    if (stopping_) {
      ready = stops();
    } else if (sets) {
      ready = duties_.ready_to_set();
    }
    Result<T> result = ready.ok() ? work(duties_.control()) : Result<T>(std::move(ready).error());
    speak([&] { done(std::move(result)); });
  };
  if (!(sets ? post(task) : post_read(task))) done(too_much_waits());
}

}  // namespace harpe::node
