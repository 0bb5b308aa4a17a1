#include "harpe/command/cli/live_terminal.h"

#include <poll.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <optional>
#include <ostream>
#include <sstream>
#include <string_view>
#include <utility>

#include "harpe/command/cli/terminal_text.h"

namespace harpe::command {

namespace {

/// Bytes after ESC [ or ESC O, as xterm, the Linux console, rxvt and tmux send them.
constexpr std::array<std::pair<std::string_view, Key>, 12> kSequences{{{"A", Key::kUp},
                                                                       {"B", Key::kDown},
                                                                       {"H", Key::kHome},
                                                                       {"F", Key::kEnd},
                                                                       {"1~", Key::kHome},
                                                                       {"4~", Key::kEnd},
                                                                       {"5~", Key::kPageUp},
                                                                       {"6~", Key::kPageDown},
                                                                       {"7~", Key::kHome},
                                                                       {"8~", Key::kEnd},
                                                                       {"1;1A", Key::kUp},
                                                                       {"1;1B", Key::kDown}}};

std::optional<Key> key_of(std::string_view sequence) {
  for (const auto& [text, key] : kSequences) {
    if (text == sequence) return key;
  }
  return std::nullopt;
}

/// Returns the length of a control sequence after its introducer: parameters, then one final byte
/// (ECMA-48).
std::size_t length_of(std::string_view rest) {
  std::size_t end = 0;
  while (end < rest.size() && rest[end] >= 0x20 && rest[end] < 0x40) ++end;
  return end < rest.size() ? end + 1 : end;
}

}  // namespace

std::vector<KeyPress> keys_of(std::string_view bytes) {
  std::vector<KeyPress> keys;
  while (!bytes.empty()) {
    const char first = bytes[0];
    bytes.remove_prefix(1);
    if (first != '\x1b') {
      if (first >= ' ' && first <= '~') keys.push_back({Key::kCharacter, first});
      continue;
    }
    if (bytes.empty() || (bytes[0] != '[' && bytes[0] != 'O')) {
      keys.push_back({Key::kEscape, 0});
      continue;
    }
    bytes.remove_prefix(1);
    const std::size_t length = length_of(bytes);
    if (const auto key = key_of(bytes.substr(0, length))) keys.push_back({*key, 0});
    bytes.remove_prefix(length);
  }
  return keys;
}

namespace {

constexpr std::array kEnds = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
constexpr std::array kOthers = {SIGWINCH, SIGTSTP, SIGCONT};
constexpr std::array kCrashes = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

// Alternate screen, no cursor, no wrapping of long lines.
constexpr std::string_view kEnter = "\x1b[?1049h\x1b[?25l\x1b[?7l\x1b[2J";
constexpr std::string_view kLeave = "\x1b[?7h\x1b[?25h\x1b[?1049l";

/// State of the terminal before the view. Global, since a crash handler has no argument for it.
struct TakenTerminal {
  termios before{};
  bool has_keys = false;
};
TakenTerminal before_view;  // NOLINT(*-avoid-non-const-global-variables)
std::array<struct sigaction, kCrashes.size()>
    handlers_before;  // NOLINT(*-avoid-non-const-global-variables)

/// Restores the terminal with async-signal-safe calls only. Then the signal has its default effect.
void restore_at_crash(int signal) {
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, kLeave.data(), kLeave.size());
  if (before_view.has_keys) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_view.before);
  ::raise(signal);  // the handler is the default one now (SA_RESETHAND)
}

void handle_crashes(bool handle) {
  struct sigaction action{};
  action.sa_handler = restore_at_crash;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  for (std::size_t i = 0; i < kCrashes.size(); ++i) {
    if (handle) {
      ::sigaction(kCrashes[i], &action, &handlers_before[i]);
    } else {
      ::sigaction(kCrashes[i], &handlers_before[i], nullptr);
    }
  }
}

/// Returns true if another program has the terminal, as after `bg`.
bool in_background() {
  const pid_t front = ::tcgetpgrp(STDOUT_FILENO);
  return front > 0 && front != ::getpgrp();
}

}  // namespace

LiveTerminal::LiveTerminal(Console& console) : console_(console) {
  ::sigemptyset(&waited_);
  for (const int signal : kEnds) ::sigaddset(&waited_, signal);
  for (const int signal : kOthers) ::sigaddset(&waited_, signal);
  ::pthread_sigmask(SIG_BLOCK, &waited_, &before_);
  signals_ = ::signalfd(-1, &waited_, SFD_NONBLOCK | SFD_CLOEXEC);
}

LiveTerminal::~LiveTerminal() {
  leave();
  const timespec now{};
  while (::sigtimedwait(&waited_, nullptr, &now) > 0) {
  }
  if (signals_ >= 0) ::close(signals_);
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

void LiveTerminal::enter() {
  shown_ = true;
  // A background process that changes its terminal would be stopped.
  keys_come_ = ::isatty(STDIN_FILENO) == 1 && ::tcgetpgrp(STDIN_FILENO) == ::getpgrp() &&
               ::tcgetattr(STDIN_FILENO, &before_view.before) == 0;
  before_view.has_keys = keys_come_;
  handle_crashes(true);
  if (keys_come_) {
    termios keys = before_view.before;
    keys.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    keys.c_lflag |= NOFLSH;  // otherwise Ctrl-C would discard pending output
    keys.c_cc[VMIN] = 0;
    keys.c_cc[VTIME] = 0;
    ::tcsetattr(STDIN_FILENO, TCSANOW, &keys);
  }
  console_.out << kEnter << std::flush;
}

void LiveTerminal::leave(bool keep) {
  if (!shown_) return;
  shown_ = false;
  console_.out << kLeave << (keep ? drawn_ : "") << std::flush;
  // Keys typed for the view must not reach the shell.
  if (keys_come_) ::tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_view.before);
  handle_crashes(false);
}

void LiveTerminal::draw(const std::string& text) {
  if (in_background()) return;  // drawn again when in the foreground
  if (!shown_) enter();
  drawn_ = console_.utf8 ? text : ascii_text(text);
  const TerminalSize size = terminal_size();
  const int most = size.lines > 0 ? size.lines : 1'000'000;
  std::string screen = "\x1b[H";
  std::istringstream lines(drawn_);
  int number = 0;
  for (std::string line; number < most && std::getline(lines, line); ++number) {
    const auto columns = static_cast<std::size_t>(size.columns);
    screen += (number > 0 ? "\r\n" : "") + cut_painted(line, columns);
    // At the end of a full line the cursor is on its last character.
    if (shown_width(line) < columns) screen += "\x1b[K";
  }
  if (number < most) screen += "\r\n\x1b[J";
  console_.out << screen << std::flush;
}

void LiveTerminal::stop_until_continued() {
  leave();
  ::kill(::getpid(), SIGSTOP);
}

LiveTerminal::Event LiveTerminal::take_signal() {
  signalfd_siginfo came{};
  if (::read(signals_, &came, sizeof came) != static_cast<ssize_t>(sizeof came)) {
    return Event::kTime;
  }
  const int signal = static_cast<int>(came.ssi_signo);
  if (std::ranges::find(kEnds, signal) != kEnds.end()) ended_ = true;
  if (signal == SIGTSTP) stop_until_continued();
  // The shell may have changed the terminal's mode.
  if (signal == SIGCONT) leave();
  return ended_ ? Event::kEnd : Event::kResized;
}

void LiveTerminal::read_keys() {
  std::array<char, 256> bytes{};
  const ssize_t count = ::read(STDIN_FILENO, bytes.data(), bytes.size());
  if (count <= 0) {
    keys_come_ = false;  // end of input: polling would return at once
    return;
  }
  for (const KeyPress press : keys_of({bytes.data(), static_cast<std::size_t>(count)})) {
    pressed_.push_back(press);
  }
}

LiveTerminal::Event LiveTerminal::wait(Seconds time) {
  if (ended_ || !console_.out) return Event::kEnd;
  if (pressed_.empty()) {
    std::array<pollfd, 2> ready{
        {{.fd = signals_, .events = POLLIN, .revents = 0},
         {.fd = keys_come_ && shown_ ? STDIN_FILENO : -1, .events = POLLIN, .revents = 0}}};
    const double whole = std::floor(std::max(0.0, time.value));
    const timespec left{.tv_sec = static_cast<time_t>(whole),
                        .tv_nsec = static_cast<long>((std::max(0.0, time.value) - whole) * 1e9)};
    if (::ppoll(ready.data(), ready.size(), &left, nullptr) <= 0) return Event::kTime;
    if (ready[0].revents != 0) return take_signal();
    if ((ready[1].revents & POLLIN) == 0) {  // hung up
      ended_ = true;
      return Event::kEnd;
    }
    read_keys();
    if (pressed_.empty()) return Event::kResized;
  }
  key_ = pressed_.front();
  pressed_.pop_front();
  return Event::kKey;
}

}  // namespace harpe::command
