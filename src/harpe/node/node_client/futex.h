#pragma once
/// \file
/// Waiting for a word of memory to change, also between processes (futex(2)).

#include <atomic>
#include <cstdint>
#include <ctime>

namespace harpe::node {

static_assert(sizeof(std::atomic<std::uint32_t>) == 4);

/// Sleeps while `word` is `value`, until it is woken, a signal comes, or `timeout` is over
/// (null: no bound). May wake for nothing. False: `timeout` is over.
bool futex_wait(std::atomic<std::uint32_t>& word, std::uint32_t value, const timespec* timeout);

/// Wakes one who waits for the word.
void futex_wake(std::atomic<std::uint32_t>& word) noexcept;

}  // namespace harpe::node
