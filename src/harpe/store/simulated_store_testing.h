#pragma once
/// \file
/// The store of one server over a `SimulatedDatabase`: does what PostgresStore does, statement by
/// statement, by a clock that is given. See simulated_database_testing.h.

#include <functional>
#include <memory>

#include "harpe/store/simulated_database_testing.h"
#include "harpe/store/simulated_session_testing.h"
#include "harpe/store/store.h"

namespace harpe {

/// Thread-safe. Calls wait for each other, as those of the real store do, by sleeping; the lease
/// and the listener have threads and connections of their own.
class SimulatedStore final : public Store {
 public:
  /// Connects and joins the servers of the database, as `Store::open` does; an error where a fault
  /// forbids it. Of `options` count all but the name; `options.clock` is the clock of the server's
  /// machine. The database, the clock and what `process` refers to outlive the threads that were
  /// started: a thread ends when it next wakes up after the store is gone, and touches nothing of
  /// the store from its destruction on.
  ///
  /// Orderly destruction gives the lease up, as the real one does. Of a process that is dead, every
  /// call returns `kUnavailable` without a sleep and without touching the database, and nothing is
  /// given up: its row stays.
  static Result<std::unique_ptr<Store>> open(SimulatedDatabase& database,
                                             const StoreOptions& options, StoreProcess process);
};

}  // namespace harpe
