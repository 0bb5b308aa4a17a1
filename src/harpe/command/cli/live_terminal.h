#pragma once
/// \file
/// A full-screen view that is redrawn regularly: `harpe monitor`, `harpe job watch`. It uses the
/// terminal's alternate screen, so that the earlier content is restored at its end. Keys are read
/// at once and not echoed.
///
/// The terminal is restored by the destructor, when a signal ends or stops the process, and when
/// the process crashes, but not after SIGKILL. Not thread-safe; at most one at a time, because the
/// state of a terminal belongs to the whole process.

#include <signal.h>

#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/command/command/console.h"

namespace harpe::command {

/// Keys that a terminal sends.
enum class Key : unsigned char {
  kCharacter,
  kUp,
  kDown,
  kPageUp,
  kPageDown,
  kHome,
  kEnd,
  kEscape,
};

struct KeyPress {
  Key key = Key::kCharacter;
  char character = 0;  ///< printable ASCII, of `kCharacter`
  friend bool operator==(const KeyPress&, const KeyPress&) = default;
};

/// Returns the keys of bytes that were read together. An escape byte that nothing follows is the
/// escape key. Other sequences and characters that are not printable ASCII are ignored.
std::vector<KeyPress> keys_of(std::string_view bytes);

class LiveTerminal {
 public:
  /// `console.out` must be standard output and a terminal. Blocks signals, which `wait` receives,
  /// so create it before any thread. The first `draw` switches to the alternate screen.
  explicit LiveTerminal(Console& console);
  ~LiveTerminal();
  LiveTerminal(const LiveTerminal&) = delete;
  LiveTerminal& operator=(const LiveTerminal&) = delete;

  /// Shows these lines, from the top; lines that do not fit are not shown. Shows nothing while
  /// another program has the terminal.
  void draw(const std::string& text);
  /// Restores the terminal.
  /// \param keep  the last drawn lines stay on it
  void leave(bool keep = false);

  enum class Event : unsigned char {
    kTime,     ///< the time has passed
    kEnd,      ///< SIGINT, SIGTERM, SIGHUP, SIGQUIT, or the terminal is closed
    kResized,  ///< also after it returned to the foreground: redraw
    kKey,      ///< see `key`
  };
  /// Waits that long, or until another event.
  Event wait(Seconds time);
  KeyPress key() const { return key_; }

 private:
  void enter();
  void stop_until_continued();
  Event take_signal();
  void read_keys();

  Console& console_;
  sigset_t waited_{}, before_{};
  int signals_ = -1;    ///< signalfd
  bool shown_ = false;  ///< the alternate screen is shown
  bool keys_come_ = false;
  bool ended_ = false;
  std::deque<KeyPress> pressed_;
  KeyPress key_;
  std::string drawn_;
};

}  // namespace harpe::command
