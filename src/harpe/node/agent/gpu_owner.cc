#include "harpe/node/agent/gpu_owner.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "harpe/node/node_client/clock_slot.h"

namespace harpe::node {
namespace {

constexpr std::size_t kMostTasks = 256;
constexpr std::size_t kMostReaders = 4096;
/// Pause after a reading: this multiple of the reading's duration, at most a second.
constexpr double kReadersWait = 4;
constexpr Seconds kLongestReadersWait{1};
/// Pause after this number of wake-ups without a command, so that a client that rings endlessly
/// does not occupy a core.
constexpr Seconds kPauseAfterNothing{0.001};
constexpr int kWakesForNothing = 8;
/// Longest wait for a client's doorbell: a client can silence it, which delays other work.
constexpr Seconds kLongestTrust{0.1};
constexpr int kNiceOwner = -10;

}  // namespace

GpuOwner::GpuOwner(std::unique_ptr<GpuControl> control, Options options, Counters& counters,
                   Clock& clock, Observers observers)
    : options_(std::move(options)),
      clock_(clock),
      observers_(std::move(observers)),
      duties_(std::move(control), options_.minimum_dwell, counters, clock, observers_.on_event),
      thread_([this] { run(); }) {}

GpuOwner::~GpuOwner() {
  begin_shutdown();
  if (thread_.joinable()) thread_.join();
}

void GpuOwner::begin_shutdown() {
  stopping_ = true;
  wake();
}

bool GpuOwner::join_until(std::chrono::steady_clock::time_point until) {
  if (ended_.wait_until(until) == std::future_status::ready) {
    if (thread_.joinable()) thread_.join();
    return true;
  }
  if (thread_.joinable()) thread_.detach();
  const MutexLock lock(voice_mutex_);
  silent_ = true;
  return false;
}

void GpuOwner::wake() {
  const auto ring = [](std::atomic<std::uint32_t>& doorbell) {
    if (doorbell.exchange(0) != 0) futex_wake(doorbell);
  };
  ring(doorbell_);
  const MutexLock lock(mutex_);
  if (slot_ != nullptr) ring(slot_->doorbell());
}

Error GpuOwner::stops() {
  return Error::of(ErrorCode::kUnavailable, "the agent is stopping");
}

Error GpuOwner::too_much_waits() {
  return Error::of(ErrorCode::kUnavailable,
                   "too many requests wait for this GPU's driver; try again later");
}

bool GpuOwner::post(Task task, Urgency urgency) {
  {
    const MutexLock lock(mutex_);
    if (urgency == Urgency::kUsual && tasks_.size() >= kMostTasks) return false;
    tasks_.push_back(std::move(task));
    has_tasks_ = true;
  }
  wake();
  return true;
}

std::optional<GpuOwner::Task> GpuOwner::next_task() {
  if (!has_tasks_) return std::nullopt;
  const MutexLock lock(mutex_);
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  has_tasks_ = !tasks_.empty();
  return task;
}

bool GpuOwner::post_read(Task task) {
  {
    const MutexLock lock(mutex_);
    if (reads_.size() >= kMostTasks) return false;
    reads_.push_back(std::move(task));
    has_reads_ = true;
  }
  wake();
  return true;
}

void GpuOwner::read(Done<GpuReading> done) {
  bool first = false;
  {
    const MutexLock lock(mutex_);
    if (readers_.size() < kMostReaders) {
      first = readers_.empty();
      readers_.push_back(std::exchange(done, nullptr));
      has_reads_ = true;
    }
  }
  if (done) return done(too_much_waits());
  if (first) wake();
}

Status GpuOwner::attach(std::shared_ptr<ClockSlot> slot, Holder holder) {
  const bool posted = post([this, slot = std::move(slot), holder = std::move(holder)] {
    duties_.attach(slot, holder);
    slot_changed();
  });
  return posted ? ok_status() : Status(too_much_waits());
}

void GpuOwner::end_lease(const Holder& holder, Done<std::monostate> done) {
  post(
      [this, holder, done = std::move(done)] {
        Status status = duties_.end_lease(holder);
        slot_changed();
        if (!status.ok()) {
          const std::string due = duties_.control().saved().due_text();
          status =
              Error::of(status.error().code, status.error().text() + "; the agent tries again" +
                                                 (due.empty() ? "" : " to restore: " + due));
        }
        speak([&] { done(status); });
      },
      Urgency::kAlways);
}

void GpuOwner::set_listening(bool listening) {
  listening_ = listening;
  wake();
}

// --- On the thread.

void GpuOwner::run() {
  keep_to_cpus();
  if (options_.prompt) be_prompt();
  int for_nothing = 0;  // consecutive wake-ups without work
  for (;;) {
    const bool served = duties_.serve_clock();
    if (served) {
      follow(duties_.slot()->cpu());
    } else {
      slot_changed();
    }
    if (auto task = next_task()) {
      (*task)();
      for_nothing = 0;
      continue;
    }
    if (stopping_) break;
    duties_.serve_due();
    poll();
    serve_readers();
    if (served) for_nothing = 0;
    if (for_nothing >= kWakesForNothing) duties_.pause(kPauseAfterNothing);
    for_nothing = wait() ? for_nothing + 1 : 0;
  }
  shut_down();
  end_.set_value();
}

void GpuOwner::be_prompt() {
  sched_param first{};
  first.sched_priority = 1;
  // Threads that a driver's library creates get normal priority.
  if (::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) == 0) return;
  // Not permitted (CAP_SYS_NICE, RLIMIT_RTPRIO): tries a lower nice value instead.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNiceOwner);
}

void GpuOwner::keep_to_cpus() {
  CPU_ZERO(&cpus_);
  for (const int cpu : options_.cpus) CPU_SET(cpu, &cpus_);
  if (CPU_COUNT(&cpus_) > 0) ::sched_setaffinity(0, sizeof cpus_, &cpus_);
}

/// Moves this thread to the CPU that sent a command, if the agent's options allow it. That CPU is
/// awake at the next command; waking another one takes longer than all other steps together.
void GpuOwner::follow(int cpu) {
  if (cpu == cpu_ || cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &cpus_)) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (::sched_setaffinity(0, sizeof one, &one) == 0) cpu_ = cpu;
}

void GpuOwner::slot_changed() {
  {
    const MutexLock lock(mutex_);
    if (slot_ == duties_.slot()) return;
    slot_ = duties_.slot();
  }
  if (cpu_ >= 0) keep_to_cpus();
  cpu_ = -1;
}

/// Reads once for all waiting readers or, if there are none, runs the next task of `reads_`.
void GpuOwner::serve_readers() {
  if (!has_reads_ || (clock_.now() < next_read_ && !stopping_)) return;
  std::vector<Done<GpuReading>> readers;
  Task task;
  {
    const MutexLock lock(mutex_);
    readers.swap(readers_);
    if (readers.empty() && !reads_.empty()) {
      task = std::move(reads_.front());
      reads_.pop_front();
    }
    has_reads_ = !reads_.empty();
  }
  const Instant begin = clock_.now();
  if (!readers.empty()) {
    const Result<GpuReading> reading =
        stopping_ ? Result<GpuReading>(stops()) : duties_.control().read(begin);
    speak([&] {
      for (const Done<GpuReading>& reader : readers) reader(reading);
    });
  } else if (task) {
    task();
  }
  const Instant end = clock_.now();
  next_read_ = end + std::min((end - begin) * kReadersWait, kLongestReadersWait);
}

void GpuOwner::poll() {
  const Instant now = clock_.now();
  if (listening_ && next_poll_ <= now) {
    observers_.heard(duties_.control().read_power(now));
    next_poll_ = std::max(next_poll_ + options_.poll, now);
  }
  if (options_.look_at_processes > Seconds{0} && next_look_ <= now) {
    observers_.processes(duties_.control().processes());
    next_look_ = clock_.now() + options_.look_at_processes;
  }
}

std::optional<Instant> GpuOwner::next_due() const {
  std::optional<Instant> due = duties_.next_due();
  if (listening_) due = std::min(due.value_or(next_poll_), next_poll_);
  if (options_.look_at_processes > Seconds{0}) due = std::min(due.value_or(next_look_), next_look_);
  if (has_reads_) due = std::min(due.value_or(next_read_), next_read_);
  return due;
}

/// Waits until something is due or the doorbell rings. Returns true if the doorbell may have rung.
bool GpuOwner::wait() {
  const Instant begin = clock_.now();
  // The doorbell is ignored until the next command may be served: the newest is then read anyway.
  const bool listens = duties_.listens();
  std::shared_ptr<ClockSlot> slot;
  if (listens) {
    const MutexLock lock(mutex_);
    slot = slot_;
  }
  std::atomic<std::uint32_t>& doorbell = slot != nullptr ? slot->doorbell() : doorbell_;
  doorbell = 1;
  std::optional<Instant> until = next_due();
  if (listens) until = std::min(until.value_or(begin + kLongestTrust), begin + kLongestTrust);
  // Work that arrived before the doorbell was set does not ring it.
  const bool reads = has_reads_ && next_read_ <= begin;
  const bool came = has_tasks_ || stopping_ || reads || (listens && duties_.has_command());
  bool woken = true;
  if (!came) {
    const std::int64_t ns = until ? std::max<std::int64_t>(0, until->ns - begin.ns) : 0;
    const timespec timeout{static_cast<time_t>(ns / 1'000'000'000),
                           static_cast<long>(ns % 1'000'000'000)};
    woken = futex_wait(doorbell, 1, until ? &timeout : nullptr);
  }
  doorbell = 0;
  return woken;
}

void GpuOwner::shut_down() {
  while (has_reads_) serve_readers();
  duties_.drop_slot();
  slot_changed();
  const Instant until = clock_.now() + options_.longest_shutdown;
  while (const auto again = duties_.put_all_back()) {
    if (*again > until) break;
    clock_.sleep_until(*again);
  }
  (void)duties_.control().flush_changes();
}

}  // namespace harpe::node
