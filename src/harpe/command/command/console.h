#pragma once
/// \file
/// Where a command writes: streams, what of them is a terminal, and a progress bar.

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
  bool colour_out = false;       ///< standard output shows colours
  bool colour_err = false;       ///< standard error shows colours
  bool out_is_terminal = false;  ///< one on which lines can be replaced; NO_COLOR is no matter
  bool show_progress = false;    ///< standard error is a terminal
  bool utf8 = true;              ///< the locale says that terminals show UTF-8
  int width = 100;               ///< columns of the terminal, or a usual value
  bool json = false;             ///< results and errors as JSON, on `out`
  bool out_is_others = false;    ///< a command that is run owns `out`: JSON goes to `err`
  std::vector<std::string> warnings = {};  ///< see warn()

  /// Says what the user may not have meant, though the command goes on: on `err` at once, or in the
  /// JSON of the result or error as its member "warnings".
  void warn(std::string sentence);

  /// The streams of this process: colours only on a terminal, never with NO_COLOR set or
  /// TERM=dumb.
  static Console of_process();
};

struct TerminalSize {
  int columns = 80, lines = 0;  ///< 0: not known
};
/// Of the terminal behind a descriptor as it is now: what it says, else the environment's COLUMNS,
/// else 80 columns.
TerminalSize terminal_size(int descriptor = 1);

/// "14:03:59", local time.
std::string time_of_day();

/// `text` in a colour where `coloured`, else as it is.
std::string painted(std::string_view text, Paint paint, bool coloured);

/// A bar on standard error for work that takes over a second. Writes nothing before, nothing when
/// standard error is no terminal, and wipes itself at the end.
class ProgressBar {
 public:
  ProgressBar(Console& console, std::string label);
  ~ProgressBar();
  ProgressBar(const ProgressBar&) = delete;
  ProgressBar& operator=(const ProgressBar&) = delete;

  /// Shows the fraction done, 0 to 1, and behind it how things stand.
  void update(double fraction, std::string_view standing = {});

 private:
  using Clock = std::chrono::steady_clock;
  Console& console_;
  std::string label_;
  Clock::time_point started_;
  Clock::time_point drawn_{};
  bool visible_ = false;
};

/// Lets Ctrl-C end a wait and not the process, for commands that report or restore something at
/// their end. While it lives, `wait` returns SIGINT, SIGTERM and SIGHUP; SIGTSTP and other signals
/// keep their effect. Construct it before any thread starts. Not thread-safe.
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
