#pragma once
/// \file
/// What the agent counted since its start (`Controller::Counts`), from all its threads.

#include <atomic>
#include <cstdint>

namespace harpe::node {

struct Counters {
  using Count = std::atomic<std::uint64_t>;
  Count leases_taken = 0, leases_expired = 0, leases_lost_with_process = 0;
  Count settings_applied = 0, settings_refused = 0, settings_failed = 0;
  Count clock_commands = 0, clock_commands_coalesced = 0;
  Count restores = 0, restore_failures = 0;
};

}  // namespace harpe::node
