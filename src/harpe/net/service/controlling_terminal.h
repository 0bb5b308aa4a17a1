#pragma once
/// \file
/// The terminal that a daemon was started in. SIGHUP means two things: an operator asks for logs to
/// be opened again, or the terminal has closed. A daemon that outlived its terminal would go on
/// without a log, unseen.

namespace harpe::net {

/// Thread-safe after construction.
class ControllingTerminal {
 public:
  /// Looks whether this process has a terminal: before handlers of SIGHUP are set. A process that
  /// ignores SIGHUP (nohup) has none here, as its user has said that it outlives the terminal.
  ControllingTerminal();

  /// Returns true if there was a terminal, and it has closed.
  bool has_closed() const;

 private:
  bool was_there_ = false;
};

}  // namespace harpe::net
