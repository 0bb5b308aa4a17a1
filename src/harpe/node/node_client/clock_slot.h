#pragma once
/// \file
/// Memory that one client of the agent and the thread that owns one GPU share: the newest clock
/// that the client wants, what became of it, and a doorbell by which the client wakes the owner
/// when it sleeps.
///
/// The layout is plain, so that clients need not be C++ (all words in the machine's byte order):
///
///   offset  bytes  written by  what
///        0      4  agent       0x48434b31
///        4      4  agent       the version, 1
///       64      8  client      wanted: sequence << 32 | MHz; each command counts the sequence up
///       by
///                              one, skipping 0; 0 MHz takes the lock off
///       72      4  client      the CPU that the command was given on (sched_getcpu), a hint that
///                              counts only where the agent's options name that CPU
///      128      8  agent       sequence << 32 | outcome << 24 | MHz of the last command served
///      136      4  both        the doorbell, a futex: 1 while the owner sleeps
///      140      4  agent       how many commands were served and not applied
///
/// A client writes `wanted`, then exchanges the doorbell's word for 0, both sequentially
/// consistent. Where the word was 1 it wakes who waits for it (FUTEX_WAKE, one, not private).
///
/// The agent believes nothing it finds in the memory: a wanted clock is checked against what the
/// lease allows, what the agent writes it does not read again, and it never waits for the doorbell
/// alone for long. The memory cannot be shrunk under it (sealed).

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <memory>

#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/base/units.h"

namespace harpe::node {

/// What became of a command.
enum class ClockOutcome : std::uint8_t {
  kNone = 0,          ///< not served yet
  kApplied = 1,       ///< the driver took the clock
  kNotAllowed = 2,    ///< the policy does not allow it
  kNotSupported = 3,  ///< this GPU or driver cannot
  kFailed = 4,        ///< the driver, the state file or the audit log failed
  kDryRun = 5,        ///< the agent changes nothing
  kEnded = 6,         ///< the lease has ended, or another channel took this one's place
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
    std::uint32_t sequence = 0;  ///< 0: nothing yet
    Megahertz clock;
  };
  Wanted wanted() const;
  int cpu() const { return static_cast<int>(memory_->cpu.load(std::memory_order_relaxed)); }
  void serve(std::uint32_t sequence, ClockOutcome outcome, Megahertz clock);
  std::atomic<std::uint32_t>& doorbell() { return memory_->doorbell; }

  /// From any thread: no command is taken from this slot any more.
  void close() { closed_ = true; }
  bool closed() const { return closed_; }

  /// What is handed to the client; given away once.
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

/// Sleeps while `word` is `value`, until it is woken, a signal comes, or `timeout` is over
/// (null: no bound). May wake for nothing. False: `timeout` is over.
bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, const timespec* timeout);

/// Wakes one who waits for the word.
void futex_wake(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace harpe::node
