#pragma once
/// \file
/// A command run as if it replaced this process: same terminal, process group, environment and open
/// files. Signals reach it, and its end is reported as shells do.

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::command {

/// The exit of a command.
struct ChildExit {
  int status = 0;       ///< exit code as in a shell; 128 + signal; 126, 127: not executed
  int signal = 0;       ///< signal that ended it, or 0
  std::string failure;  ///< why it could not be executed; empty if it was
};

/// The signal handling of a parent that waits for one child. During its lifetime, signals for this
/// process are blocked; `run` forwards them:
///
/// * The child has already received signals that a terminal sends to its whole process group
///   (Ctrl-C, Ctrl-\, Ctrl-Z); this process only waits for the child's reaction.
/// * Signals sent to this process alone (kill, a job scheduler) are forwarded to the child.
/// * When the child stops, this process stops too, so that the shell gets its terminal back, and
///   continues together with the child.
///
/// Create it before any thread, so that threads inherit the mask. Not thread-safe.
class ChildRunner {
 public:
  ChildRunner();
  ~ChildRunner();
  ChildRunner(const ChildRunner&) = delete;
  ChildRunner& operator=(const ChildRunner&) = delete;

  /// Runs `command` (not empty), found in PATH, to its end. Fails only if no process can be
  /// created.
  Result<ChildExit> run(const std::vector<std::string>& command);

  // The same in steps, for callers with other work in the meantime.
  /// Starts the command. May be called once. If it cannot be executed, it counts as ended.
  Status start(const std::vector<std::string>& command);
  /// Forwards signals for at most this long. Returns the exit of the command once it has ended.
  std::optional<ChildExit> wait(Seconds longest);
  /// Sends a signal to the command if it is running.
  void send(int signal);

  /// Returns true if a signal has requested this process to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT)
  /// since `run`.
  bool asked_to_end();

 private:
  void forget_signals();

  pid_t child_ = -1;  ///< -1 if none is running
  ChildExit exit_;
  sigset_t waited_{}, before_{};
  struct sigaction child_before_{};
};

}  // namespace harpe::command
