#pragma once
/// \file
/// A command run as if it had been started in this process's place: same terminal, same process
/// group, same environment, same open files; signals reach it; its end is reported as shells do.

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::command {

/// How a command ended.
struct ChildExit {
  int status = 0;       ///< as a shell says it: exit code; 128 + signal; 126, 127: not executed
  int signal = 0;       ///< that ended it, or 0
  std::string failure;  ///< why it could not be executed; empty: it was
};

/// Signals of a parent that waits for one child. While it lives, signals for this process wait;
/// `run` passes them on:
///
/// * what a terminal sends to its whole process group (Ctrl-C, Ctrl-\, Ctrl-Z) the child has had
///   already, and only waits for what the child makes of it;
/// * what was sent to this process alone (kill, a job scheduler) goes to the child too;
/// * when the child stops, this process stops, so that the shell has its terminal back, and goes on
///   with it.
///
/// Make it before any thread, so that threads inherit the mask. Not thread-safe.
class ChildRunner {
 public:
  ChildRunner();
  ~ChildRunner();
  ChildRunner(const ChildRunner&) = delete;
  ChildRunner& operator=(const ChildRunner&) = delete;

  /// Runs `command` (not empty), found in PATH, to its end. Fails only if no process can be made.
  Result<ChildExit> run(const std::vector<std::string>& command);

  // The same step by step, for those who have something else to do meanwhile.
  /// Starts the command, once. One that cannot be executed has ended.
  Status start(const std::vector<std::string>& command);
  /// Passes signals on for at most this long; how the command ended, once it has.
  std::optional<ChildExit> wait(Seconds longest);
  /// Sends a signal to the command, while it runs.
  void send(int signal);

  /// Whether a signal asked this process to end (SIGINT, SIGTERM, SIGHUP, SIGQUIT) since `run`.
  bool asked_to_end();

 private:
  void forget_signals();

  pid_t child_ = -1;  ///< -1: none runs
  ChildExit exit_;
  sigset_t waited_{}, before_{};
  struct sigaction child_before_{};
};

}  // namespace harpe::command
