#pragma once
/// \file
/// Invariants that are checked in every build, if continuing would be worse than stopping: a plan
/// from a broken flow, a GPU held by two leases, a change that no process could undo.
///
/// Only for Harpe's own invariants. External input (a file, a request, a driver, a database) is
/// rejected with an `Error`, however wrong it is.

namespace harpe {

/// Prints the place, the broken condition and its meaning, and ends the program.
[[noreturn]] void end_at_broken_invariant(const char* file, int line, const char* condition,
                                          const char* meaning) noexcept;

}  // namespace harpe

/// Ends the program unless `condition` holds. Costs one branch; the condition should cost no more
/// than the work it guards.
///
///     HARPE_CHECK(distance >= 0, "the horizon only shrinks");
#define HARPE_CHECK(condition, meaning)                                          \
  do {                                                                           \
    if (!(condition)) [[unlikely]]                                               \
      ::harpe::end_at_broken_invariant(__FILE__, __LINE__, #condition, meaning); \
  } while (false)
