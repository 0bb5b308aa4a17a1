#pragma once
/// \file
/// Waiting that Ctrl-C ends, for commands that have something to say or to restore at their end.

#include <signal.h>

#include "harpe/base/units.h"

namespace harpe::command {

/// While it lives, SIGINT, SIGTERM and SIGHUP do not end the process but are found by `wait`, and
/// SIGTSTP and the like work as ever. Make it before any thread. Not thread-safe.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Waits that long, or until a signal; returns whether one came, now or before.
  bool wait(Seconds time);
  /// Whether one came.
  bool interrupted() { return wait({0}); }
  /// The signal that came, or 0.
  int signal() const { return signal_; }

 private:
  sigset_t waited_{}, before_{};
  int signal_ = 0;
};

}  // namespace harpe::command
