#include "harpe/command/command/console.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <ctime>
#include <iostream>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::command {

namespace {

constexpr auto kQuietTime = std::chrono::seconds(1);
constexpr auto kRedrawTime = std::chrono::milliseconds(100);
constexpr int kBarWidth = 30;

bool is_set(const char* variable) {
  const char* value = std::getenv(variable);  // NOLINT(concurrency-mt-unsafe): read at the start
  return value != nullptr && *value != '\0';
}

bool is_dumb_terminal() {
  const char* term = std::getenv("TERM");  // NOLINT(concurrency-mt-unsafe): read at the start
  return term == nullptr || std::string_view(term) == "dumb";
}

/// Returns true if the locale's encoding is UTF-8. The first variable that is set counts (POSIX).
bool says_utf8() {
  for (const char* variable : {"LC_ALL", "LC_CTYPE", "LANG"}) {
    if (!is_set(variable)) continue;
    // NOLINTNEXTLINE(concurrency-mt-unsafe): read at the start
    const std::string locale = lower(std::getenv(variable));
    return locale.find("utf-8") != std::string::npos || locale.find("utf8") != std::string::npos;
  }
  return false;
}

int terminal_width() {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col >= 40;
  return known ? size.ws_col : 100;
}

}  // namespace

Console Console::of_process() {
  const bool colours = !is_set("NO_COLOR") && !is_dumb_terminal();
  const bool out_is_terminal = ::isatty(STDOUT_FILENO) == 1;
  const bool err_is_terminal = ::isatty(STDERR_FILENO) == 1;
  return {.out = std::cout,
          .err = std::cerr,
          .colour_out = colours && out_is_terminal,
          .colour_err = colours && err_is_terminal,
          .out_is_terminal = out_is_terminal && !is_dumb_terminal(),
          .show_progress = err_is_terminal && !is_dumb_terminal(),
          .utf8 = says_utf8(),
          .width = terminal_width()};
}

TerminalSize terminal_size(int descriptor) {
  winsize size{};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    return {.columns = size.ws_col, .lines = size.ws_row};
  }
  const char* given = std::getenv("COLUMNS");  // NOLINT(concurrency-mt-unsafe): never set
  const auto columns = given == nullptr ? std::nullopt : parse_integer(given);
  if (!columns || *columns < 1 || *columns > 10'000) return {};
  return {.columns = static_cast<int>(*columns)};
}

std::string painted(std::string_view text, Paint paint, bool coloured) {
  if (!coloured) return std::string(text);
  const char* code = "1";
  if (paint == Paint::kGreen) code = "32";
  if (paint == Paint::kYellow) code = "33";
  if (paint == Paint::kRed) code = "1;31";
  if (paint == Paint::kDim) code = "2";
  return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
}

void Console::warn(std::string sentence) {
  if (!json) err << painted("warning:", Paint::kBold, colour_err) << ' ' << sentence << '\n';
  warnings.push_back(std::move(sentence));
}

std::string time_of_day() {
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  std::array<char, 16> text{};
  return {text.data(), std::strftime(text.data(), text.size(), "%H:%M:%S", &local)};
}

ProgressBar::ProgressBar(Console& console, std::string label)
    : console_(console), label_(std::move(label)), started_(Clock::now()) {}

ProgressBar::~ProgressBar() {
  if (visible_) console_.err << "\r\x1b[K" << std::flush;
}

void ProgressBar::update(double fraction, std::string_view standing) {
  if (!console_.show_progress) return;
  const Clock::time_point now = Clock::now();
  if (now - started_ < kQuietTime || now - drawn_ < kRedrawTime) return;
  drawn_ = now;
  visible_ = true;
  const double done = std::clamp(fraction, 0.0, 1.0);
  const auto filled = static_cast<std::size_t>(done * kBarWidth);
  console_.err << '\r' << label_ << " [" << std::string(filled, '#')
               << std::string(kBarWidth - filled, ' ') << "] " << static_cast<int>(done * 100)
               << " %" << (standing.empty() ? "" : "  ") << standing << "\x1b[K" << std::flush;
}

namespace {

constexpr std::array kEnds = {SIGINT, SIGTERM, SIGHUP};

}  // namespace

InterruptScope::InterruptScope() {
  ::sigemptyset(&waited_);
  for (const int signal : kEnds) ::sigaddset(&waited_, signal);
  ::pthread_sigmask(SIG_BLOCK, &waited_, &before_);
}

InterruptScope::~InterruptScope() {
  const timespec now{};
  while (::sigtimedwait(&waited_, nullptr, &now) > 0) {
  }
  ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

bool InterruptScope::wait(Seconds time) {
  if (signal_ != 0) return true;
  const double whole = std::floor(time.value);
  const timespec left{.tv_sec = static_cast<time_t>(whole),
                      .tv_nsec = static_cast<long>((time.value - whole) * 1e9)};
  const int came = ::sigtimedwait(&waited_, nullptr, &left);
  if (came > 0) signal_ = came;
  return signal_ != 0;
}

}  // namespace harpe::command
