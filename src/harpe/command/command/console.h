#pragma once
/// \file
/// Output of a command: its streams, their terminals, and a progress bar.

#include <signal.h>

#include <chrono>
#include <iosfwd>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/units.h"

namespace harpe::command {

enum class Paint : unsigned char { kBold, kGreen, kYellow, kRed, kDim };

/// The streams of one run of the command.
struct Console {
  std::ostream& out;
  std::ostream& err;
  bool colour_out = false;  ///< standard output shows colours
  bool colour_err = false;  ///< standard error shows colours
  /// Terminal on which lines can be replaced, regardless of NO_COLOR.
  bool out_is_terminal = false;
  bool show_progress = false;              ///< standard error is a terminal
  bool utf8 = true;                        ///< the locale's encoding is UTF-8
  int width = 100;                         ///< columns of the terminal, or a default
  bool json = false;                       ///< results and errors as JSON, on `out`
  bool out_is_others = false;              ///< a child command owns `out`: JSON goes to `err`
  std::vector<std::string> warnings = {};  ///< see warn()

  /// Warns of a possible mistake of the user without ending the command: at once on `err`, or in
  /// the member "warnings" of the JSON of the result or error.
  void warn(std::string sentence);

  /// Returns the streams of this process, with colours only on a terminal, and never with NO_COLOR
  /// set or TERM=dumb.
  static Console of_process();
};

struct TerminalSize {
  int columns = 80, lines = 0;  ///< 0 if unknown
};
/// Returns the current size of the terminal of a descriptor; if it has none, the environment's
/// COLUMNS, otherwise 80 columns.
TerminalSize terminal_size(int descriptor = 1);

/// Returns the local time: "14:03:59".
std::string time_of_day();

/// Returns `text` in a colour if `coloured`, otherwise unchanged.
std::string painted(std::string_view text, Paint paint, bool coloured);

/// A bar on standard error for work that takes over a second. Writes nothing in the first second,
/// or if standard error is not a terminal, and removes itself at the end.
class ProgressBar {
 public:
  ProgressBar(Console& console, std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the completed fraction, 0 to 1, followed by `standing`, the current state.
  void update(double fraction, std::string_view standing = {});

 private:
  using Clock = std::chrono::steady_clock;
  Console& console_;
  std::string label_;
  Clock::time_point started_;
  Clock::time_point drawn_{};
  bool visible_ = false;
};

/// A scope in which Ctrl-C ends a wait but not the process, for commands that report or restore
/// something at their end. In it, `wait` returns at SIGINT, SIGTERM and SIGHUP; SIGTSTP and other
/// signals keep their effect. Construct it before any thread starts. Not thread-safe.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;

  /// Waits that long, or until a signal. Returns true if a signal has arrived, now or before.
  bool wait(Seconds time);
  /// Returns true if a signal has arrived.
  bool interrupted() { return wait({0}); }
  /// Returns the signal that arrived, or 0.
  int signal() const { return signal_; }

 private:
  sigset_t waited_{}, before_{};
  int signal_ = 0;
};

}  // namespace harpe::command
