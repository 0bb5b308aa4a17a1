#pragma once
/// \file
/// One connection to a `SimulatedDatabase`, and the process that has it: how calls go that meet
/// faults, and what the caller hears of them. See simulated_database_testing.h.

#include <functional>
#include <string>

#include "harpe/store/simulated_database_testing.h"

namespace harpe {

/// The process that a store runs in. Its functions may be called by any thread of it.
struct StoreProcess {
  /// Runs the body as another thread of the process, from now on or later. The body returns when
  /// it next wakes up after the store is gone or the process dead.
  std::function<void(std::function<void()>)> start_thread;
  /// Whether it was killed, from when on it has no effect on anything; empty: it never is.
  std::function<bool()> dead = nullptr;
  /// Where it runs: others there can prove that it ended (`SimulatedDatabase::process_ended`).
  std::string machine = {};
};

}  // namespace harpe
