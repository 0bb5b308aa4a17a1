#include "harpe/node/node_client/clock_slot.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <new>
#include <string>
#include <system_error>

namespace harpe::node {

namespace {

Error memory_failure(const char* what) {
  return Error::of(ErrorCode::kUnavailable,
                   std::string(what) + ": " + std::generic_category().message(errno));
}

}  // namespace

Result<std::shared_ptr<ClockSlot>> ClockSlot::make() {
  std::shared_ptr<ClockSlot> slot(new ClockSlot());
  slot->memory_file_ = UniqueFd(::memfd_create("harpe-clock", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const int file = slot->memory_file_.get();
  if (file < 0 || ::ftruncate(file, ClockMemory::kBytes) != 0 ||
      ::fcntl(file, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    return memory_failure("cannot allocate memory for a clock channel");
  }
  void* memory = ::mmap(nullptr, ClockMemory::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  if (memory == MAP_FAILED) return memory_failure("cannot map memory for a clock channel");
  slot->memory_ = new (memory) ClockMemory{};
  slot->memory_->magic = ClockMemory::kMagic;
  slot->memory_->version = ClockMemory::kVersion;
  return slot;
}

ClockSlot::~ClockSlot() {
  if (memory_ != nullptr) ::munmap(memory_, ClockMemory::kBytes);
}

ClockSlot::Wanted ClockSlot::wanted() const {
  const std::uint64_t word = memory_->wanted.load();
  constexpr std::uint32_t kHighest = 0x7fffffff;  // higher than the clock of any GPU
  const auto clock = std::min<std::uint32_t>(static_cast<std::uint32_t>(word), kHighest);
  return {static_cast<std::uint32_t>(word >> 32), {static_cast<int>(clock)}};
}

void ClockSlot::serve(std::uint32_t sequence, ClockOutcome outcome, Megahertz clock) {
  constexpr std::uint64_t kClockBits = 0xffffff;
  // Stored before `served`, so that a reader of `served` also sees all refusals up to then.
  if (outcome != ClockOutcome::kApplied) {
    memory_->refused.store(++refused_, std::memory_order_relaxed);
  }
  memory_->served.store(std::uint64_t{sequence} << 32 |
                            std::uint64_t{static_cast<std::uint8_t>(outcome)} << 24 |
                            (static_cast<std::uint64_t>(clock.value) & kClockBits),
                        std::memory_order_release);
}

namespace {

long futex(std::atomic<std::uint32_t>& word, int operation, std::uint32_t value,
           const timespec* timeout) noexcept {
  return ::syscall(SYS_futex, &word, operation, value, timeout, nullptr, 0);
}

}  // namespace

bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, const timespec* timeout) {
  return futex(word, FUTEX_WAIT, value, timeout) == 0 || errno != ETIMEDOUT;
}

void futex_wake(std::atomic<std::uint32_t>& word) noexcept {
  futex(word, FUTEX_WAKE, 1, nullptr);
}

}  // namespace harpe::node
