#pragma once
/// \file
/// Waiting for what other threads and processes do.

#include <chrono>
#include <thread>

#include "harpe/base/units.h"

namespace harpe {

/// Looks again and again, so that a test takes as long as what it waits for.
/// \returns  whether `holds` has come true within `patience`, which is for busy machines
template <class Condition>
bool eventually(const Condition& holds, Seconds patience = Seconds{180}) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(patience.value);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace harpe
