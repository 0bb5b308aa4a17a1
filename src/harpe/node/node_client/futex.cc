#include "harpe/node/node_client/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>

namespace harpe::node {
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
