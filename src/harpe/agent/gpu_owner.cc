#include "harpe/agent/gpu_owner.h"

#include <sys/resource.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cmath>
#include <ctime>
#include <utility>

#include "harpe/agent/futex.h"

namespace harpe {
namespace {

constexpr std::size_t kMostTasks = 256;
constexpr std::size_t kMostReaders = 4096;
constexpr Seconds kFirstRetry{0.1}, kLongestRetry{30};
/// Between commands that change nothing, and after so many rings without a command: a client that
/// rings without end gets no more of a core.
constexpr Seconds kPauseAfterNothing{0.001}, kPauseAfterRefusal{0.005};
constexpr int kWakesForNothing = 8;
/// A client may silence its bell; whatever else comes is not kept from the owner for longer.
constexpr Seconds kLongestTrust{0.1};
constexpr int kNiceOwner = -10;

ClockOutcome outcome_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::kNoPermission:
    case ErrorCode::kInvalidInput:
      return ClockOutcome::kNotAllowed;
    case ErrorCode::kNotSupported:
      return ClockOutcome::kNotSupported;
    case ErrorCode::kRefused:
      return ClockOutcome::kDryRun;
    default:
      return ClockOutcome::kFailed;
  }
}

}  // namespace

GpuOwner::GpuOwner(std::unique_ptr<GpuControl> control, Options options, Counters& counters,
                   Clock& clock, Ears ears)
    : control_(std::move(control)),
      options_(options),
      counters_(counters),
      clock_(clock),
      ears_(std::move(ears)),
      thread_([this] { run(); }) {}

GpuOwner::~GpuOwner() {
  begin_farewell();
  if (thread_.joinable()) thread_.join();
}

void GpuOwner::begin_farewell() {
  stopping_ = true;
  wake();
}

bool GpuOwner::join_until(std::chrono::steady_clock::time_point until) {
  if (ended_.wait_until(until) == std::future_status::ready) {
    if (thread_.joinable()) thread_.join();
    return true;
  }
  thread_.detach();
  const std::lock_guard lock(voice_mutex_);
  silent_ = true;
  return false;
}

void GpuOwner::wake() {
  const auto ring = [](std::atomic<std::uint32_t>& bell) {
    if (bell.exchange(0) != 0) futex_wake(bell);
  };
  ring(bell_);
  const std::lock_guard lock(mutex_);
  if (slot_ != nullptr) ring(slot_->bell());
}

Error GpuOwner::too_much_waits() {
  return Error::of(ErrorCode::kUnavailable,
                   "too many requests wait for this GPU's driver; try again later");
}

bool GpuOwner::post(Task task, Urgency urgency) {
  {
    const std::lock_guard lock(mutex_);
    if (urgency == Urgency::kUsual && tasks_.size() >= kMostTasks) return false;
    tasks_.push_back(std::move(task));
    has_tasks_ = true;
  }
  wake();
  return true;
}

std::optional<GpuOwner::Task> GpuOwner::next_task() {
  if (!has_tasks_) return std::nullopt;
  const std::lock_guard lock(mutex_);
  Task task = std::move(tasks_.front());
  tasks_.pop_front();
  has_tasks_ = !tasks_.empty();
  return task;
}

void GpuOwner::read(Done<GpuReading> done) {
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    if (readers_.size() < kMostReaders) {
      first = readers_.empty();
      readers_.push_back(std::exchange(done, nullptr));
    }
  }
  if (done) return done(too_much_waits());
  if (!first) return;
  // One of these waits at a time, so it is never refused.
  post(
      [this] {
        std::vector<Done<GpuReading>> readers;
        {
          const std::lock_guard lock(mutex_);
          readers.swap(readers_);
        }
        const Result<GpuReading> reading = control_->read(clock_.now());
        speak([&] {
          for (const Done<GpuReading>& reader : readers) reader(reading);
        });
      },
      Urgency::kAlways);
}

Status GpuOwner::attach(std::shared_ptr<ClockSlot> slot, Holder holder) {
  const bool posted = post([this, slot = std::move(slot), holder = std::move(holder)] {
    drop_slot();
    if (slot->closed()) return slot->serve(0, ClockOutcome::kEnded, {});
    set_slot(slot);
    slot_holder_ = holder;
    last_sequence_ = 0;
  });
  return posted ? ok_status() : Status(too_much_waits());
}

void GpuOwner::end_lease(const Holder& holder, Done<std::monostate> done) {
  post(
      [this, holder, done = std::move(done)] {
        if (slot_ != nullptr && slot_holder_.lease == holder.lease) drop_slot();
        Status status = put_back(holder);
        if (!status) {
          const std::string due = control_->due_text();
          status = Error::of(status.error().code, status.error().text() + "; it is tried again" +
                                                      (due.empty() ? "" : ", to put back: " + due));
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
  ::sched_getaffinity(0, sizeof all_cpus_, &all_cpus_);
  if (options_.prompt) be_prompt();
  int for_nothing = 0;  // wake-ups in a row
  for (;;) {
    const bool served = serve_clock();
    if (auto task = next_task()) {
      (*task)();
      for_nothing = 0;
      continue;
    }
    if (stopping_) break;
    serve_what_is_due();
    if (served) for_nothing = 0;
    if (for_nothing >= kWakesForNothing) {
      next_command_ = std::max(next_command_, clock_.now() + kPauseAfterNothing);
    }
    for_nothing = wait() ? for_nothing + 1 : 0;
  }
  say_farewell();
  end_.set_value();
}

void GpuOwner::be_prompt() {
  sched_param first{};
  first.sched_priority = 1;
  // Threads that a driver's library makes are ordinary ones.
  if (::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &first) == 0) return;
  // Not permitted (CAP_SYS_NICE, RLIMIT_RTPRIO): as good as it gets.
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), kNiceOwner);
}

/// To the CPU that a command came from: it is awake when the next comes, whereas waking another one
/// takes longer than all the rest.
void GpuOwner::follow(int cpu) {
  if (!options_.prompt || cpu == cpu_ || cpu < 0 || cpu >= CPU_SETSIZE) return;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  if (!CPU_ISSET(cpu, &all_cpus_)) return;
  if (::sched_setaffinity(0, sizeof one, &one) == 0) cpu_ = cpu;
}

void GpuOwner::set_slot(std::shared_ptr<ClockSlot> slot) {
  const std::lock_guard lock(mutex_);
  slot_ = std::move(slot);
}

void GpuOwner::drop_slot() {
  if (slot_ == nullptr) return;
  slot_->close();
  slot_->serve(last_sequence_, ClockOutcome::kEnded, {});
  set_slot(nullptr);
  if (cpu_ >= 0) ::sched_setaffinity(0, sizeof all_cpus_, &all_cpus_);
  cpu_ = -1;
}

/// Whether there was a new command that could be served.
bool GpuOwner::serve_clock() {
  if (slot_ == nullptr || slot_->closed()) return false;
  const ClockSlot::Wanted wanted = slot_->wanted();
  if (wanted.sequence == last_sequence_) return false;
  const Instant now = clock_.now();
  if (now < next_command_) return false;
  serve(wanted, now);
  return true;
}

void GpuOwner::serve(ClockSlot::Wanted wanted, Instant now) {
  const std::uint64_t before = control_->clock_calls();
  Status ready = ready_to_set();
  Result<Megahertz> clock = ready ? control_->set_clock(slot_holder_, wanted.clock, now)
                                  : Result<Megahertz>(std::move(ready).error());
  // Sequences are the client's word: believed for counting only, and not far.
  constexpr std::uint32_t kBelieved = 1000;
  const std::uint32_t skipped = wanted.sequence - last_sequence_ - 1;
  if (skipped < kBelieved) counters_.clock_commands_coalesced += skipped;
  ++counters_.clock_commands;
  last_sequence_ = wanted.sequence;
  slot_->serve(wanted.sequence, clock ? ClockOutcome::kApplied : outcome_of(clock.error().code),
               clock ? *clock : wanted.clock);
  const bool called = control_->clock_calls() != before;
  next_command_ = clock_.now() + (!clock   ? std::max(kPauseAfterRefusal, options_.minimum_dwell)
                                  : called ? options_.minimum_dwell
                                           : kPauseAfterNothing);
  follow(slot_->cpu());
}

Status GpuOwner::ready_to_set() {
  if (!next_retry_) return ok_status();
  // Whoever asks often does not make it tried more often.
  if (clock_.now() < last_try_ + kFirstRetry) return *last_failure_;
  return put_back(to_put_back_);
}

Status GpuOwner::put_back(const Holder& holder) {
  to_put_back_ = holder;
  last_try_ = clock_.now();
  Status status = control_->restore(holder);
  if (status) {
    if (next_retry_) ears_.notice(control_->name() + " was put back at last");
    next_retry_.reset();
    retry_pause_ = {};
    return status;
  }
  if (!next_retry_) {
    ears_.notice(control_->name() +
                 " could not be put back and is tried again: " + status.error().text());
  }
  last_failure_ = status.error();
  retry_pause_ = std::clamp(retry_pause_ * 2, kFirstRetry, kLongestRetry);
  next_retry_ = clock_.now() + retry_pause_;
  return status;
}

void GpuOwner::serve_what_is_due() {
  const Instant now = clock_.now();
  if (next_retry_ && *next_retry_ <= now) (void)put_back(to_put_back_);
  if (const auto due = control_->clock_changes_due(); due && *due <= now) {
    if (Status status = control_->flush_clock_changes(); !status) {
      ears_.notice(status.error().text());
    }
  }
  if (listening_ && next_poll_ <= now) {
    ears_.heard(control_->read_power(now));
    next_poll_ = std::max(next_poll_ + options_.poll, now);
  }
}

std::optional<Instant> GpuOwner::next_due() const {
  std::optional<Instant> due;
  const auto consider = [&](std::optional<Instant> other) {
    if (other && (!due || *other < *due)) due = other;
  };
  if (slot_ != nullptr && !slot_->closed()) {
    if (next_command_ > clock_.now()) consider(next_command_);
  }
  consider(next_retry_);
  consider(control_->clock_changes_due());
  if (listening_) consider(next_poll_);
  return due;
}

/// Until something is due or somebody rings; whether it may have been the latter.
bool GpuOwner::wait() {
  const Instant begin = clock_.now();
  // Nobody is heard before the next command may be served: then the newest is looked at anyway.
  const bool listens = slot_ != nullptr && !slot_->closed() && next_command_ <= begin;
  std::atomic<std::uint32_t>& bell = listens ? slot_->bell() : bell_;
  bell = 1;
  std::optional<Instant> until = next_due();
  if (listens) until = std::min(until.value_or(begin + kLongestTrust), begin + kLongestTrust);
  // Nobody rings for what came before the bell was set.
  const bool came =
      has_tasks_ || stopping_ || (listens && slot_->wanted().sequence != last_sequence_);
  bool woken = true;
  if (!came) {
    const std::int64_t ns = until ? std::max<std::int64_t>(0, until->ns - begin.ns) : 0;
    const timespec timeout{static_cast<time_t>(ns / 1'000'000'000),
                           static_cast<long>(ns % 1'000'000'000)};
    woken = futex_wait(bell, 1, until ? &timeout : nullptr);
  }
  bell = 0;
  return woken;
}

void GpuOwner::say_farewell() {
  drop_slot();
  const Instant until = clock_.now() + options_.longest_farewell;
  // Also what is no lease's any more: nothing else will put it back before the next start.
  to_put_back_.controls = {};
  while (control_->changed() && !put_back(to_put_back_)) {
    if (clock_.now() + retry_pause_ > until) break;
    clock_.sleep_until(clock_.now() + retry_pause_);
  }
  (void)control_->flush_clock_changes();
}

}  // namespace harpe
