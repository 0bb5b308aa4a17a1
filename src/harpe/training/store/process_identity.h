#pragma once
/// \file
/// Which process wrote something down, so that another one on the same machine can tell whether it
/// is still there.

#include <cstdint>
#include <string>

namespace harpe::training {

struct ProcessIdentity {
  std::string boot;        ///< of this start of the machine; empty: not known
  std::string namespaces;  ///< in which `pid` and `started` count; empty: not known
  std::int64_t pid = 0;
  std::int64_t started = 0;  ///< clock ticks from the machine's start to the process's

  /// Of this process.
  static ProcessIdentity own();
  friend bool operator==(const ProcessIdentity&, const ProcessIdentity&) = default;
};

/// Whether the process runs no more, as far as `observer` (this process) can prove it: false for
/// one of another machine, of another start of it, or of another container; true for one that was
/// killed and not waited for yet, and where its number belongs to another one.
bool is_proven_gone(const ProcessIdentity& process, const ProcessIdentity& observer);

}  // namespace harpe::training
