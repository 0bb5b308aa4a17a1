#pragma once
/// \file
/// Waiting for a condition that other threads or processes fulfil.

#include <chrono>
#include <thread>

#include "harpe/base/units.h"

namespace harpe {

/// Checks `holds` repeatedly, so that a test takes no longer than its condition.
/// \returns  true if `holds` became true within `patience`, which is long for busy machines
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
