#pragma once
/// \file
/// The thread that owns the driver of one GPU. Everything that touches the GPU is queued to it; a
/// slow call delays this GPU alone, and only who asked for a response waits.
///
/// Order: the newest clock command of the channel first, then what leases ask for, in its order,
/// then what is due (gpu_duties.h), then polling, then what readers ask for: they wait in a queue
/// of their own and get a fifth of the thread's time, so that a client that may only read neither
/// keeps those who may set from their GPU nor slows them down by more than one call.

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
    Seconds longest_shutdown{10};  ///< how long restoring is tried when the thread ends
    Seconds look_at_processes{0};  ///< between looks at who computes on it; 0: none
  };
  /// How the owner speaks up. Called on its thread.
  struct Observers {
    std::function<void(const GpuReading&)> heard;      ///< every `poll` while there are listeners
    std::function<void(const std::string&)> on_event;  ///< what an operator should know
    /// Who computes on the GPU.
    std::function<void(const Result<std::vector<std::int64_t>>&)> processes = {};
  };

  GpuOwner(std::unique_ptr<GpuControl> control, Options options, Counters& counters, Clock& clock,
           Observers observers);
  GpuOwner(const GpuOwner&) = delete;
  GpuOwner& operator=(const GpuOwner&) = delete;
  /// Refuses what is queued, puts everything back, and ends the thread.
  ~GpuOwner();
  /// Begins what the destructor does, without waiting for it.
  void begin_shutdown();
  /// Waits for the end that was begun. False where a driver's call still hangs: then the thread is
  /// left behind, no caller gets a response any more, and neither this nor what was given to it may
  /// ever be destroyed.
  bool join_until(std::chrono::steady_clock::time_point until);

  /// Queues work that sets the GPU (`sets`) or reads from it. An error is the response at once
  /// where too much waits already, or at its turn where the GPU could not be restored yet.
  template <class T>
  void ask(const Done<T>& done, std::function<Result<T>(GpuControl&)> work, bool sets = false);
  /// One reading for all who wait for one.
  void read(Done<GpuReading> done);

  /// Commands of this slot are served from now on, in place of those of any other.
  Status attach(std::shared_ptr<ClockSlot> slot, Holder holder);
  /// Takes no more from the channel of that lease and puts the GPU back. Never refused.
  void end_lease(const Holder& holder, Done<std::monostate> done);

  void set_listening(bool listening);
  /// Whether something of an ended lease is still to be restored; from any thread.
  bool could_not_restore() const { return duties_.could_not_restore(); }

 private:
  using Task = std::function<void()>;
  enum class Urgency : unsigned char { kUsual, kAlways };

  /// Calls those who wait for a response, unless none listens any more.
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
  GpuDuties duties_;  ///< the thread's alone
  std::atomic<std::uint32_t> doorbell_ =
      0;  ///< 1 while the thread sleeps; it may wait for the slot's

  Mutex mutex_;                                               ///< of the queue, and of `slot_`
  std::shared_ptr<ClockSlot> slot_ HARPE_GUARDED_BY(mutex_);  ///< whose doorbell wakes the thread
  std::deque<Task> tasks_ HARPE_GUARDED_BY(mutex_);
  std::deque<Task> reads_ HARPE_GUARDED_BY(mutex_);
  std::vector<Done<GpuReading>> readers_ HARPE_GUARDED_BY(mutex_);
  std::atomic<bool> has_tasks_ = false, has_reads_ = false;
  std::atomic<bool> stopping_ = false;
  std::atomic<bool> listening_ = false;

  // Only the thread itself touches what follows.
  Instant next_poll_, next_look_, next_read_;
  cpu_set_t cpus_{};  ///< those of the options; none: any
  int cpu_ = -1;      ///< the one of these that it is on alone; -1: any of them

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
