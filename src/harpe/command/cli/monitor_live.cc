#include "harpe/command/cli/monitor_live.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "harpe/command/cli/monitor_screen.h"
#include "harpe/command/cli/node_use.h"
#include "harpe/command/command/quantity_text.h"

namespace harpe {
namespace {

constexpr const char* kShownWindow = "shown";
constexpr Seconds kBetweenUses{2};

std::string node_name() {
  std::array<char, 256> name{};
  return ::gethostname(name.data(), name.size() - 1) == 0 ? name.data() : "";
}

std::map<std::string, int> uuids_of(const EnergyMonitor& monitor) {
  std::map<std::string, int> uuids;
  for (const GpuIdentity& gpu : monitor.gpus()) uuids[gpu.uuid] = gpu.index;
  return uuids;
}

class LiveMonitor {
 public:
  LiveMonitor(EnergyMonitor& monitor, const GpuViews& views, LiveTerminal& terminal,
              const LiveMonitorOptions& options, const Console& console, Clock& clock)
      : looker_(monitor, views, kShownWindow),
        terminal_(terminal),
        options_(options),
        console_(console),
        clock_(clock),
        uses_(UseWatch::start(
            uuids_of(monitor), [&views] { return views.processes(); }, kBetweenUses)) {
    state_.node = node_name();
    state_.simulated = options.simulated;
    state_.interval = options.interval;
  }

  Status run() {
    HARPE_TRY(looker_.restart());
    const Instant start = clock_.now();
    const Seconds end = options_.duration.value > 0
                            ? options_.duration
                            : Seconds{std::numeric_limits<double>::infinity()};
    terminal_.draw("harpe monitor  first look in " + fixed(std::min(options_.first, end).value, 1) +
                   " s  (q ends)\n");
    for (int round = 0;; ++round) {
      const Seconds next = std::min(options_.first + options_.interval * round, end);
      if (wait_until(start + next)) return ok_status();
      HARPE_TRY(look());
      draw();
      if (options_.count > 0 && round + 1 >= options_.count) return ok_status();
      if (next >= end) return ok_status();
    }
  }

 private:
  Status look() {
    Look now = HARPE_TRY(looker_.now());
    const Instant at = clock_.now();
    history_.resize(now.window.devices.size());
    for (std::size_t i = 0; i < now.window.devices.size(); ++i) {
      if (now.window.devices[i].error) continue;
      if (const auto power = power_now(now, i)) history_[i].add(at, *power);
    }
    if (state_.paused) return ok_status();
    state_.look = std::move(now);
    state_.history = history_;
    state_.users = uses_->users();
    state_.now = at;
    state_.time_of_day = time_of_day();
    return ok_status();
  }

  void draw() {
    const TerminalSize size = terminal_size();
    const MonitorScreen screen =
        monitor_screen(state_, size.columns, size.lines, console_.colour_out);
    state_.scroll = std::clamp(state_.scroll, 0, screen.most_scroll);
    page_ = std::max(1, screen.shown);
    std::string text;
    for (const std::string& line : screen.lines) text += line + "\n";
    terminal_.draw(text);
  }

  /// Whether it was ended before.
  bool wait_until(Instant until) {
    for (;;) {
      switch (terminal_.wait(until - clock_.now())) {
        case LiveTerminal::Event::kTime:
          return false;
        case LiveTerminal::Event::kEnd:
          return true;
        case LiveTerminal::Event::kKey:
          if (terminal_.key().character == 'q') return true;
          press(terminal_.key());
          break;
        case LiveTerminal::Event::kResized:
          break;
      }
      if (!history_.empty()) draw();
    }
  }

  void press(KeyPress press) {
    switch (press.key) {
      case Key::kUp:
        state_.scroll -= 1;
        break;
      case Key::kDown:
        state_.scroll += 1;
        break;
      case Key::kPageUp:
        state_.scroll -= page_;
        break;
      case Key::kPageDown:
        state_.scroll += page_;
        break;
      case Key::kHome:
        state_.scroll = 0;
        break;
      case Key::kEnd:
        state_.scroll = std::numeric_limits<int>::max() / 2;
        break;
      case Key::kEscape:
        state_.help = false;
        break;
      case Key::kCharacter:
        type(press.character);
        break;
    }
  }

  void type(char character) {
    switch (character) {
      case 'p':
        state_.paused = !state_.paused;
        break;
      case 's':
        state_.order = next_of(state_.order);
        break;
      case 'h':
      case '?':
        state_.help = !state_.help;
        break;
      case 'e':
        // What is shown is of the time before, until the next look.
        (void)looker_.restart();
        break;
      case 'j':
        state_.scroll += 1;
        break;
      case 'k':
        state_.scroll -= 1;
        break;
      default:
        break;
    }
  }

  Looker looker_;
  LiveTerminal& terminal_;
  const LiveMonitorOptions& options_;
  const Console& console_;
  Clock& clock_;
  MonitorState state_;
  std::vector<PowerHistory> history_;  ///< goes on while the screen is paused
  int page_ = 1;
  std::unique_ptr<UseWatch> uses_;
};

}  // namespace

Status show_live_monitor(EnergyMonitor& monitor, const GpuViews& views, LiveTerminal& terminal,
                         const LiveMonitorOptions& options, const Console& console, Clock& clock) {
  return LiveMonitor(monitor, views, terminal, options, console, clock).run();
}

}  // namespace harpe
