#pragma once
/// \file
/// Identity of a process that is stored with its data, so that another process on the same machine
/// can find out if it is still running.

#include <cstdint>
#include <string>

namespace harpe::training {

struct ProcessIdentity {
  std::string boot;        ///< identifies the boot of the machine; empty if unknown
  std::string namespaces;  ///< namespaces of `pid` and `started`; empty if unknown
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< clock ticks from the machine's start to the process's

  /// Returns the identity of this process.
  static ProcessIdentity own();
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Returns true if `observer` (this process) can prove that the process has ended. False for a
/// process of another machine, boot or container; true for a process that was killed but not waited
/// for, or whose id now belongs to another process.
bool is_proven_gone(const ProcessIdentity& process, const ProcessIdentity& observer);

}  // namespace harpe::training
