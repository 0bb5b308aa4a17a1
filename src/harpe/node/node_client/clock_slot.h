#pragma once
/// \file
/// Memory shared by one client of the agent and the thread that owns one GPU: the clock that the
/// client wants, the outcome of the last command, and a doorbell that wakes the sleeping owner.
///
/// The layout is independent of C++ (all words in the machine's byte order):
///
///   offset  bytes  written by  what
///        0      4  agent       0x48434b31
///        4      4  agent       the version, 1
///       64      8  client      wanted: sequence << 32 | MHz; each command adds one to the
///                              sequence and skips 0; 0 MHz restores the lock before the lease
///       72      4  client      CPU that sent the command (sched_getcpu), a hint that is used
///                              only if the agent's options contain that CPU
///      128      8  agent       sequence << 32 | outcome << 24 | MHz of the last command served
///      136      4  both        the doorbell, a futex: 1 while the owner sleeps
///      140      4  agent       number of commands served but not applied
///
/// A client writes `wanted`, then exchanges the doorbell's word for 0, both sequentially
/// consistent. If the word was 1, it wakes one waiter (FUTEX_WAKE, not private).
///
/// The agent trusts nothing in the memory: it checks a wanted clock against the lease, never reads
/// the words that it writes, and never relies on the doorbell alone for long. The memory is sealed,
/// so that a client cannot shrink it.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/base/units.h"

namespace harpe::node {

/// The outcome of a command.
enum class ClockOutcome : std::uint8_t {
  kNone = 0,          ///< not served yet
  kApplied = 1,       ///< the clock is in force
  kNotAllowed = 2,    ///< the policy does not allow the clock
  kNotSupported = 3,  ///< this GPU or driver does not support locking clocks
  kFailed = 4,        ///< the driver, the state file or the audit log failed
  kDryRun = 5,        ///< the agent is in dry-run mode and changes nothing
  kEnded = 6,         ///< the lease has ended, or another channel replaced this one
};

struct ClockMemory {
  static constexpr std::size_t kBytes = 4096;
  static constexpr std::uint32_t kMagic = 0x48434b31;
  static constexpr std::uint32_t kVersion = 1;

  std::atomic<std::uint32_t> magic, version;
  alignas(64) std::atomic<std::uint64_t> wanted;
  std::atomic<std::uint32_t> cpu;
  alignas(64) std::atomic<std::uint64_t> served;
  std::atomic<std::uint32_t> doorbell;
  std::atomic<std::uint32_t> refused;
};
static_assert(offsetof(ClockMemory, wanted) == 64 && offsetof(ClockMemory, cpu) == 72);
static_assert(offsetof(ClockMemory, served) == 128 && offsetof(ClockMemory, doorbell) == 136);
static_assert(offsetof(ClockMemory, refused) == 140);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

/// The agent's side of one slot.
class ClockSlot {
 public:
  static Result<std::shared_ptr<ClockSlot>> make();
  ClockSlot(const ClockSlot&) = delete;
  ClockSlot& operator=(const ClockSlot&) = delete;
  ~ClockSlot();

  struct Wanted {
    std::uint32_t sequence = 0;  ///< 0 if there is no command yet
    Megahertz clock;
  };
  Wanted wanted() const;
  int cpu() const { return static_cast<int>(memory_->cpu.load(std::memory_order_relaxed)); }
  void serve(std::uint32_t sequence, ClockOutcome outcome, Megahertz clock);
  std::atomic<std::uint32_t>& doorbell() { return memory_->doorbell; }

  /// Stops the service of this slot: no further command is served. Thread-safe.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }

  /// Returns the descriptor of the memory for the client. Transfers ownership, so call it once.
  UniqueFd take_memory() { return std::move(memory_file_); }

 private:
  ClockSlot() = default;

  ClockMemory* memory_ = nullptr;
  UniqueFd memory_file_;
  std::uint32_t refused_ = 0;
  std::atomic<bool> closed_ = false;
};

// Waiting for a word of memory to change, also between processes (futex(2)).

static_assert(sizeof(std::atomic<std::uint32_t>) == 4);

/// Sleeps if `word` is `value`, until a wake-up, a signal, or the end of `timeout` (null for no
/// limit). May wake spuriously. Returns false if `timeout` has passed.
bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, const timespec* timeout);

/// Wakes one thread that waits for the word.
void futex_wake(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace harpe::node
