#pragma once
/// \file
/// A view that takes the whole terminal and is drawn again and again: `harpe monitor`,
/// `harpe job watch`. The terminal's other screen is used, so that what stood there before comes
/// back; keys come at once and are not shown.
///
/// The terminal is restored when this ends, when a signal ends or stops the process, and when the
/// process crashes; SIGKILL alone leaves it as it is.
/// Not thread-safe, and one at a time: what a terminal is, is of the whole process.

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

/// What was pressed, of bytes as they were read at once: an escape that nothing follows is the
/// escape key. Other sequences, and what is not printable ASCII, are left out.
std::vector<KeyPress> keys_of(std::string_view bytes);

class LiveTerminal {
 public:
  /// `console.out` is standard output, a terminal. Blocks signals, which `wait` finds: make it
  /// before any thread. The first `draw` takes the terminal.
  explicit LiveTerminal(Console& console);
  ~LiveTerminal();
  LiveTerminal(const LiveTerminal&) = delete;
  LiveTerminal& operator=(const LiveTerminal&) = delete;

  /// Shows these lines, from the top; what does not fit is not shown, nor anything while another
  /// program has the terminal.
  void draw(const std::string& text);
  /// Gives the terminal back. \param keep  what was drawn last stays on it
  void leave(bool keep = false);

  enum class Event : unsigned char {
    kTime,     ///< has passed
    kEnd,      ///< SIGINT, SIGTERM, SIGHUP, SIGQUIT, or the terminal is gone
    kResized,  ///< or came to the foreground: it is to be drawn again
    kKey,      ///< see `key`
  };
  /// Waits that long, or until something else happens.
  Event wait(Seconds time);
  KeyPress key() const { return key_; }

 private:
  void enter();
  void stop_until_continued();
  Event take_signal();
  void read_keys();

  Console& console_;
  sigset_t waited_{}, before_{};
  int signals_ = -1;    ///< descriptor that tells of them
  bool shown_ = false;  ///< the terminal is taken
  bool keys_come_ = false;
  bool ended_ = false;
  std::deque<KeyPress> pressed_;
  KeyPress key_;
  std::string drawn_;
};

}  // namespace harpe::command
