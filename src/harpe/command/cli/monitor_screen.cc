#include "harpe/command/cli/monitor_screen.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>
#include <sstream>
#include <utility>

#include "harpe/base/ranges_text.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/command/cli/terminal_text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/quantity_text.h"
#include "harpe/command/command/text_layout.h"

namespace harpe {
namespace {

using Kind = DeviceEnergy::Kind;
using Order = MonitorState::Order;

constexpr std::size_t kMostLinesOfADevice = 4;
constexpr std::size_t kUsersAtLeast = 3;  ///< lines, the heading among them
constexpr int kAnyLines = 10'000;

struct HelpLine {
  const char *key, *what;
};
constexpr std::array<HelpLine, 8> kHelp{
    {{"q", "end, with a summary; Ctrl-C too"},
     {"p", "pause what is shown; measuring goes on"},
     {"s", "sort: index, power, busy, temperature, energy"},
     {"e", "count energy from now on"},
     {"j k",
      "down and up, where there are more GPUs than lines; arrows, page up and down, home and "
      "end too"},
     {"h", "this page, and back"},
     {"[||  ]", "power of its limit, clock of the highest, memory of all"},
     {"LOST", "the driver says that the GPU is gone: harpe devices says what helps"}}};
constexpr std::size_t kKeyColumns = 8;

/// "0:03:20".
std::string elapsed_text(Seconds time) {
  const auto whole = static_cast<long long>(std::max(0.0, time.value));
  const auto two = [](long long number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
  };
  return std::to_string(whole / 3600) + ":" + two(whole / 60 % 60) + ":" + two(whole % 60);
}

/// Pieces in the order in which they matter, as far as they fit, two spaces between them.
std::string fitted(const std::vector<std::string>& pieces, std::size_t columns) {
  std::string text;
  std::size_t width = 0;
  for (const std::string& piece : pieces) {
    if (piece.empty()) continue;
    const std::size_t more = shown_width(piece) + (text.empty() ? 0 : 2);
    if (width + more > columns) continue;
    text += (text.empty() ? "" : "  ") + piece;
    width += more;
  }
  return text;
}

std::string title(const MonitorState& state, std::size_t columns, bool coloured) {
  const bool sorted = state.order != Order::kIndex;
  return fitted(
      {painted("harpe monitor", Paint::kBold, coloured),
       state.paused ? painted("PAUSED", Paint::kYellow, coloured) : "",
       state.simulated ? "SIMULATED" : "", "h help", "q quit", state.time_of_day,
       printable(state.node), sorted ? std::string("sorted by ") + name_of(state.order) : ""},
      columns);
}

/// Nothing of a device that failed.
std::optional<Watts> power_of(const Look& look, std::size_t i) {
  return look.window.devices[i].error ? std::nullopt : power_now(look, i);
}

std::string total(const MonitorState& state, std::size_t columns, bool coloured) {
  const Look& look = state.look;
  double gpus = 0, limits = 0, cpus = 0;
  bool every_limit = true, has_cpus = false, module = false;
  for (std::size_t i = 0; i < look.window.devices.size(); ++i) {
    const DeviceEnergy& device = look.window.devices[i];
    const double power = power_of(look, i).value_or(Watts{0}).value;
    module = module || device.whole_module;
    if (device.kind == Kind::kGpu) {
      gpus += power;
      const auto limit = i < look.gpus.size() ? look.gpus[i].limit : std::nullopt;
      every_limit = every_limit && limit.has_value();
      limits += limit.value_or(Watts{0}).value;
    } else {
      cpus += power;
      has_cpus = true;
    }
  }
  const std::size_t count = look.gpus.size();
  const std::string limit = every_limit && limits > 0 ? "/" + fixed(limits, 0) : "";
  const std::string energy = short_energy_text(total_of(look.window));
  return fitted(
      {count > 0 ? painted(counted(count, "GPU") + " " + fixed(gpus, 0) + limit + " W",
                           Paint::kBold, coloured)
                 : "",
       // Where whole modules are metered, CPUs are in the GPUs' figure already.
       has_cpus ? "CPUs " + fixed(cpus, 0) + " W" : "",
       energy + " in " + elapsed_text(look.window.time),
       has_cpus && count > 0 ? "all " + fixed(module ? gpus : gpus + cpus, 0) + " W" : ""},
      columns);
}

/// Positions of devices in the order they are shown; CPUs come last.
std::vector<std::size_t> ordered(const MonitorState& state) {
  const Look& look = state.look;
  std::vector<std::size_t> places(look.window.devices.size());
  std::iota(places.begin(), places.end(), std::size_t{0});
  if (state.order == Order::kIndex) return places;
  const auto value = [&](std::size_t i) {
    constexpr double kUnknown = -std::numeric_limits<double>::infinity();
    const GpuView& gpu = look.gpus[i];
    if (state.order == Order::kPower) return power_of(look, i).value_or(Watts{kUnknown}).value;
    if (state.order == Order::kBusy) return gpu.utilisation.value_or(kUnknown);
    if (state.order == Order::kTemperature) return gpu.temperature.value_or(kUnknown);
    return look.window.devices[i].energy.energy.value;
  };
  const auto end_of_gpus = places.begin() + static_cast<std::ptrdiff_t>(look.gpus.size());
  std::sort(places.begin(), end_of_gpus, [&](std::size_t a, std::size_t b) {
    return std::pair(-value(a), a) < std::pair(-value(b), b);
  });
  return places;
}

/// What runs where, in at most so many lines.
std::vector<std::string> users_lines(const std::vector<GpuUser>& users, int columns,
                                     std::size_t room, bool coloured) {
  std::vector<std::string> lines;
  if (users.empty() || room < 2) return lines;
  const std::size_t shown = users.size() + 1 <= room ? users.size() : room - 2;
  Table table{.columns = {{.heading = "GPU", .align = Align::kLeft},
                          {.heading = "pid", .rank = 2},
                          {.heading = "user", .align = Align::kLeft, .rank = 3, .narrowest = 8},
                          {.heading = "job", .align = Align::kLeft, .rank = 1, .narrowest = 8},
                          {.heading = "may set", .align = Align::kLeft, .rank = 4, .narrowest = 8},
                          {.heading = "program", .align = Align::kLeft, .narrowest = 8}}};
  for (std::size_t i = 0; i < shown; ++i) {
    const GpuUser& user = users[i];
    table.add({ranges_text(user.gpus), std::to_string(user.pid), printable(user.user),
               printable(user.job), printable(user.lease), printable(user.program)});
  }
  // A column in which nothing stands only takes room.
  table.drop_empty_columns();
  if (shown > 0) lines = lines_of(table.text(coloured, columns));
  if (shown < users.size()) {
    const std::string noun = shown > 0 ? "more process" : "process";
    lines.push_back(cut_to((shown > 0 ? "and " : "") + counted(users.size() - shown, noun) +
                               " on GPUs, in taller terminals",
                           static_cast<std::size_t>(columns)));
  }
  return lines;
}

/// Where the row of a device that failed has no room for what the driver says.
std::vector<std::string> fault_lines(const Look& look, int columns) {
  std::vector<std::string> lines;
  for (const DeviceEnergy& device : look.window.devices) {
    if (!device.error) continue;
    const std::string what = printable(device.error->text());
    const bool named = what.starts_with(device.label() + " ");
    for (std::string& line :
         lines_of(wrapped_text(named ? what : device.label() + ": " + what, columns))) {
      lines.push_back(std::move(line));
    }
  }
  return lines;
}

/// The rows of devices, and which of them.
void add_rows(const MonitorState& state, std::size_t columns, std::size_t room, bool coloured,
              MonitorScreen& screen) {
  const Look& look = state.look;
  std::vector<std::size_t> places = ordered(state);
  std::size_t label = 5;
  for (const DeviceEnergy& device : look.window.devices) {
    label = std::max(label, device.label().size());
  }
  // The total says what CPUs draw: GPUs that find no place otherwise matter more.
  const bool only_gpus = places.size() + 1 > room && !look.gpus.empty();
  if (only_gpus) std::erase_if(places, [&](std::size_t i) { return i >= look.gpus.size(); });
  MonitorLayout layout = monitor_layout(columns, 1, label);
  for (std::size_t lines = 2; !layout.complete && lines <= kMostLinesOfADevice; ++lines) {
    if (lines * (places.size() + 1) > room) break;
    layout = monitor_layout(columns, lines, label);
  }
  for (std::string& heading : monitor_headings(layout, coloured)) {
    screen.lines.push_back(std::move(heading));
  }
  const std::size_t left = room - std::min(room, layout.lines.size());
  const bool all = places.size() * layout.lines.size() <= left;
  // One line says how many more there are.
  const std::size_t shown = all ? places.size() : std::max<std::size_t>(left, 2) - 1;
  screen.shown = static_cast<int>(shown);
  screen.most_scroll = static_cast<int>(places.size() - shown);
  const auto first = static_cast<std::size_t>(std::clamp(state.scroll, 0, screen.most_scroll));
  for (std::size_t n = first; n < first + shown; ++n) {
    const std::size_t i = places[n];
    const MonitorRow row{.device = look.window.devices[i],
                         .gpu = i < look.gpus.size() ? look.gpus[i] : GpuView{},
                         .power = power_of(look, i),
                         .history = state.history[i],
                         .now = state.now,
                         .interval = state.interval};
    for (std::string& line : monitor_row(row, layout, coloured)) {
      screen.lines.push_back(std::move(line));
    }
  }
  if (!all) {
    const std::size_t below = places.size() - first - shown;
    screen.lines.push_back(painted(
        cut_to(std::to_string(first) + " more above (k), " + std::to_string(below) + " below (j)",
               columns),
        Paint::kDim, coloured));
  }
}

}  // namespace

MonitorScreen monitor_screen(const MonitorState& state, int columns, int lines, bool coloured) {
  const int width = std::max(columns, 20);
  const auto room = static_cast<std::size_t>(std::max(lines > 0 ? lines : kAnyLines, 4));
  const auto wide = static_cast<std::size_t>(width);
  MonitorScreen screen;
  screen.lines.push_back(title(state, wide, coloured));
  if (state.help) {
    for (const HelpLine& line : kHelp) {
      std::string key = line.key;
      for (const std::string& part :
           lines_of(wrapped_text(line.what, width - static_cast<int>(kKeyColumns), 0))) {
        screen.lines.push_back(cut_to(padded(key, kKeyColumns, Align::kLeft) + part, wide));
        key.clear();
      }
    }
    if (screen.lines.size() > room) screen.lines.resize(room);
    return screen;
  }
  screen.lines.push_back(total(state, wide, coloured));
  const std::vector<std::string> faults = fault_lines(state.look, width);
  // There is room below for what runs, whether something does or not, so that rows do not change
  // with it; but not where a device would have no row for it.
  const std::size_t for_rows = room - 2;
  const std::size_t least = state.look.window.devices.size() + 1;
  const std::size_t below = for_rows > least ? std::min(kUsersAtLeast, for_rows - least) : 0;
  add_rows(state, wide, for_rows - below, coloured, screen);
  for (const std::string& line : faults) {
    if (screen.lines.size() < room) screen.lines.push_back(line);
  }
  const std::size_t left = room - std::min(room, screen.lines.size());
  if (!state.users.empty() && left > state.users.size() + 1) screen.lines.emplace_back();
  for (std::string& line :
       users_lines(state.users, width, room - std::min(room, screen.lines.size()), coloured)) {
    screen.lines.push_back(std::move(line));
  }
  if (screen.lines.size() > room) screen.lines.resize(room);
  return screen;
}

const char* name_of(MonitorState::Order order) {
  switch (order) {
    case Order::kIndex:
      return "index";
    case Order::kPower:
      return "power";
    case Order::kBusy:
      return "busy";
    case Order::kTemperature:
      return "temperature";
    case Order::kEnergy:
      return "energy";
  }
  return "";
}

MonitorState::Order next_of(MonitorState::Order order) {
  return order == Order::kEnergy ? Order::kIndex
                                 : static_cast<Order>(static_cast<unsigned char>(order) + 1);
}

}  // namespace harpe
