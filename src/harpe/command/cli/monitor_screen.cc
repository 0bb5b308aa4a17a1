#include "harpe/command/cli/monitor_screen.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "harpe/base/quantity_text.h"
#include "harpe/base/ranges_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/terminal_text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/text_layout.h"

namespace harpe::command {
namespace {

// The rows of devices: a few lines each. Their columns depend on the size of the terminal and never
// on the devices' values, so that nothing jumps.

/// A field in the row of a device.
struct MonitorField {
  enum class What : unsigned char {
    kLabel,
    kPower,
    kBusy,
    kClock,
    kTemperature,
    kMemory,
    kEnergy,
    kHistory,
    kHeldBack,
    kName,
    kMemoryClock
  };
  What what = What::kLabel;
  std::size_t width = 0;
};

/// The fields in each line of a device, in display order.
struct MonitorLayout {
  std::vector<std::vector<MonitorField>> lines;
  bool complete = false;  ///< true if every field has a place
};

/// Returns a layout with the most important fields first. Fields that do not fit are left out.
/// Lines are as wide as `columns` if a field can grow.
/// \param label  width of the widest device label
MonitorLayout monitor_layout(std::size_t columns, std::size_t lines, std::size_t label);

/// Returns the names of the columns, one line for each line of the layout.
std::vector<std::string> monitor_headings(const MonitorLayout& layout, bool coloured);

/// A device at one instant.
struct MonitorRow {
  const DeviceEnergy& device;
  GpuView gpu;                 ///< empty for a CPU
  std::optional<Watts> power;  ///< now
  const PowerHistory& history;
  Instant now;
  Seconds interval;
};

using What = MonitorField::What;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct FieldKind {
  What what;
  const char* heading;
  std::size_t least, enough, most;  ///< widths; beyond enough only for looks
  int place;                        ///< position within its line
  bool only_wide = false;           ///< true if shown only on wide terminals
};
/// In order of importance.
constexpr std::array<FieldKind, 10> kFields{
    {{What::kPower, "power W", 11, 11, 30, 2},
     {What::kBusy, "busy", 6, 6, 20, 3},
     {What::kClock, "clock MHz", 11, 11, 24, 4},
     {What::kTemperature, "temp", 4, 4, 4, 6},
     {What::kMemory, "mem GiB", 9, 11, 22, 7},
     {What::kEnergy, "since start", 18, 18, 20, 8},
     {What::kHistory, "power, last minutes", 7, 20, 300, 10},
     {What::kHeldBack, "held back by", 10, 16, 24, 9},
     {What::kName, "name", 8, 12, 22, 1},
     {What::kMemoryClock, "mem MHz", 7, 7, 9, 5, true}}};
constexpr std::size_t kWide = 160;  ///< columns of the narrowest wide terminal

const FieldKind& kind_of(What what) {
  return *std::ranges::find(kFields, what, &FieldKind::what);
}

/// Returns the text cut or padded to exactly this width.
std::string fitted(const std::string& text, std::size_t width, Align align) {
  return padded(cut_to(text, width), width, align);
}

double share_of(const std::optional<double>& value, const std::optional<double>& most) {
  return value && most && *most > 0 ? *value / *most : kNone;
}

template <class T>
std::optional<double> plain(const std::optional<T>& quantity) {
  return quantity ? std::optional(static_cast<double>(quantity->value)) : std::nullopt;
}

/// Returns text such as "312/400", "312" or "-".
std::string of_most(const std::optional<double>& value, const std::optional<double>& most,
                    int decimals) {
  const std::string text = value ? fixed(*value, decimals) : "-";
  return most ? text + "/" + fixed(*most, decimals) : text;
}

/// Returns yellow if nearly all of a resource is in use.
Paint paint_of(double share) {
  return share >= 0.9 ? Paint::kYellow : Paint::kGreen;
}

std::string memory_bar(const std::optional<MemoryUse>& memory, std::size_t width, bool coloured) {
  if (!memory) return bar(kNone, "-", width, Paint::kGreen, coloured);
  constexpr double kGibibyte = 1 << 30;
  const double used = static_cast<double>(memory->used_bytes) / kGibibyte;
  const double total = static_cast<double>(memory->total_bytes) / kGibibyte;
  const double share = total > 0 ? used / total : kNone;
  return bar(share, of_most(used, total, total < 100 && width >= 11 ? 1 : 0), width,
             paint_of(share), coloured);
}

/// Returns a cell of exactly `width` columns.
std::string cell(const MonitorRow& row, const MonitorField& field, bool coloured) {
  const GpuView& gpu = row.gpu;
  const bool is_gpu = row.device.kind == DeviceEnergy::Kind::kGpu;
  const auto ratio = [&](const auto& value, const auto& most) {
    const double share = share_of(plain(value), plain(most));
    return bar(share, of_most(plain(value), plain(most), 0), field.width, paint_of(share),
               coloured);
  };
  switch (field.what) {
    case What::kLabel:
      return fitted(row.device.label(), field.width, Align::kLeft);
    case What::kName:
      return fitted(printable(short_device_name(row.device.name)), field.width, Align::kLeft);
    case What::kPower:
      return ratio(row.power, gpu.limit);
    case What::kEnergy:
      return fitted(short_energy_text(row.device.energy), field.width, Align::kRight);
    case What::kHistory: {
      const Watts full = gpu.limit.value_or(row.history.highest().value_or(Watts{1}));
      return spark(row.history.levels(row.now, field.width, full, row.interval));
    }
    default:
      break;
  }
  if (!is_gpu) return std::string(field.width, ' ');  // a CPU has no other fields
  switch (field.what) {
    case What::kBusy:
      return bar(gpu.utilisation.value_or(kNone),
                 gpu.utilisation ? fixed(100 * *gpu.utilisation, 0) + "%" : "-", field.width,
                 Paint::kGreen, coloured);
    case What::kClock:
      return ratio(gpu.clock, gpu.highest_clock);
    case What::kTemperature:
      return fitted(gpu.temperature ? fixed(*gpu.temperature, 0) + "C" : "-", field.width,
                    Align::kRight);
    case What::kMemoryClock:
      return fitted(gpu.memory_clock ? std::to_string(gpu.memory_clock->value) : "-", field.width,
                    Align::kRight);
    case What::kMemory:
      return memory_bar(gpu.memory, field.width, coloured);
    default:
      break;
  }
  const std::string reasons =
      fitted(gpu.reasons ? gpu.reasons->text() : "-", field.width, Align::kLeft);
  const bool throttled = gpu.reasons && gpu.reasons->throttled();
  return throttled ? painted(reasons, Paint::kRed, coloured) : reasons;
}

bool has_cell(const MonitorRow& row, What what) {
  if (row.device.kind == DeviceEnergy::Kind::kGpu) return true;
  return what == What::kPower || what == What::kEnergy || what == What::kHistory;
}

/// Returns the line of a device that failed.
std::string failed_row(const MonitorRow& row, const MonitorLayout& layout, std::size_t columns,
                       bool coloured) {
  const Error& error = *row.device.error;
  std::string line = fitted(row.device.label(), layout.lines[0][0].width, Align::kLeft) + " ";
  const std::string word = fault_word(error);
  std::string rest;
  if (row.device.energy.source != EnergySource::kNone) {
    rest += " (" + short_energy_text(row.device.energy) + " before)";
  }
  std::string what = printable(error.text());  // most errors begin with the GPU's name
  if (what.starts_with(row.device.label() + " ")) what.erase(0, row.device.label().size() + 1);
  rest += "  " + what;
  const std::size_t taken = display_width(line) + word.size();
  return line + painted(word, Paint::kRed, coloured) +
         cut_to(rest, columns > taken ? columns - taken : 0);
}

std::size_t width_of(const std::vector<MonitorField>& line) {
  std::size_t width = 0;
  for (const MonitorField& field : line) width += field.width + 1;
  return width - 1;
}

/// Distributes the remaining width of the line: first up to `enough` per field, then up to `most`.
void stretch(std::vector<MonitorField>& line, std::size_t columns) {
  std::size_t left = columns - std::min(columns, width_of(line));
  for (const auto goal : {&FieldKind::enough, &FieldKind::most}) {
    for (bool grows = true; grows && left > 0;) {
      grows = false;
      for (MonitorField& field : line) {
        if (field.what == What::kLabel || left == 0) continue;
        if (field.width >= kind_of(field.what).*goal) continue;
        field.width += 1;
        left -= 1;
        grows = true;
      }
    }
  }
}

/// Returns the fields that fit, the most important first. Fields that do not fit in `lines` lines
/// are left out. Lines are as wide as `columns` if a field can grow.
/// \param label  width of the widest device label
MonitorLayout monitor_layout(std::size_t columns, std::size_t lines, std::size_t label) {
  const MonitorField label_field{.what = What::kLabel, .width = label};
  MonitorLayout layout{.lines = {{label_field}}, .complete = true};
  for (const FieldKind& kind : kFields) {
    if (kind.only_wide && columns < kWide) continue;
    const auto fits = [&](const std::vector<MonitorField>& line) {
      return width_of(line) + 1 + kind.least <= columns;
    };
    auto line = std::ranges::find_if(layout.lines, fits);
    if (line == layout.lines.end()) {
      if (layout.lines.size() >= lines || !fits({label_field})) {
        layout.complete = false;
        continue;
      }
      // Further lines begin below the label.
      layout.lines.push_back({label_field});
      line = layout.lines.end() - 1;
    }
    line->push_back({.what = kind.what, .width = kind.least});
  }
  for (std::vector<MonitorField>& line : layout.lines) {
    std::ranges::sort(line, {}, [](const MonitorField& field) {
      return field.what == What::kLabel ? 0 : kind_of(field.what).place;
    });
    stretch(line, columns);
  }
  return layout;
}

/// Returns the names of the columns, one line for each line of the layout.
std::vector<std::string> monitor_headings(const MonitorLayout& layout, bool coloured) {
  std::vector<std::string> headings;
  for (const std::vector<MonitorField>& line : layout.lines) {
    std::string text;
    for (const MonitorField& field : line) {
      const bool is_label = field.what == What::kLabel;
      std::string heading = is_label ? "" : kind_of(field.what).heading;
      if (heading.size() > field.width) heading.resize(std::min(field.width, heading.find(',')));
      const bool left = field.what != What::kEnergy && field.what != What::kTemperature &&
                        field.what != What::kMemoryClock;
      text +=
          (is_label ? "" : " ") + fitted(heading, field.width, left ? Align::kLeft : Align::kRight);
    }
    text.erase(text.find_last_not_of(' ') + 1);
    headings.push_back(painted(text, Paint::kDim, coloured));
  }
  return headings;
}

/// Returns the lines of a device, except lines in which it has no value.
std::vector<std::string> monitor_row(const MonitorRow& row, const MonitorLayout& layout,
                                     bool coloured) {
  if (row.device.error) {
    return {failed_row(row, layout, width_of(layout.lines[0]), coloured)};
  }
  std::vector<std::string> lines;
  for (const std::vector<MonitorField>& fields : layout.lines) {
    const bool says_something = std::ranges::any_of(
        fields, [&](const MonitorField& field) { return has_cell(row, field.what); });
    if (!says_something && !lines.empty()) continue;
    std::string text;
    for (const MonitorField& field : fields) {
      if (field.what != What::kLabel) {
        text += " " + cell(row, field, coloured);
      } else {
        text += lines.empty() ? cell(row, field, coloured) : std::string(field.width, ' ');
      }
    }
    text.erase(text.find_last_not_of(' ') + 1);
    lines.push_back(std::move(text));
  }
  return lines;
}

using Kind = DeviceEnergy::Kind;
using Order = MonitorState::Order;

constexpr std::size_t kMostLinesOfADevice = 4;
constexpr std::size_t kUsersAtLeast = 3;  ///< lines, including the heading
constexpr int kAnyLines = 10'000;

struct HelpLine {
  const char *key, *what;
};
constexpr std::array<HelpLine, 8> kHelp{
    {{"q", "quit, with a summary; also Ctrl-C"},
     {"p", "pause the display; measuring continues"},
     {"s", "sort: index, power, busy, temperature, energy"},
     {"e", "count energy from now on"},
     {"j k",
      "scroll down and up, if there are more GPUs than lines; also arrows, page up and down, home "
      "and end"},
     {"h", "show or hide this page"},
     {"[||  ]", "power relative to its limit, clock to the highest, memory to all"},
     {"LOST", "the driver reports that the GPU is gone: harpe devices shows remedies"}}};
constexpr std::size_t kKeyColumns = 8;

/// Returns text such as "0:03:20".
std::string elapsed_text(Seconds time) {
  const auto whole = static_cast<long long>(std::max(0.0, time.value));
  const auto two = [](long long number) {
    return (number < 10 ? "0" : "") + std::to_string(number);
  };
  return std::to_string(whole / 3600) + ":" + two(whole / 60 % 60) + ":" + two(whole % 60);
}

/// Joins the pieces that fit, in order of importance, with two spaces between them.
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

/// Returns the current power of a device; nullopt if the device failed.
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
       // If whole modules are metered, the GPUs' power includes the CPUs.
       has_cpus ? "CPUs " + fixed(cpus, 0) + " W" : "",
       energy + " in " + elapsed_text(look.window.time),
       has_cpus && count > 0 ? "all " + fixed(module ? gpus : gpus + cpus, 0) + " W" : ""},
      columns);
}

/// Returns the positions of devices in display order; CPUs are last.
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

/// Returns the processes on each GPU, in at most `room` lines.
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
  // Empty columns only waste space.
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

/// Returns the wrapped error message of each device that failed.
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

/// Adds the rows of the devices that fit, and sets which devices they show.
void add_rows(const MonitorState& state, std::size_t columns, std::size_t room, bool coloured,
              MonitorScreen& screen) {
  const Look& look = state.look;
  std::vector<std::size_t> places = ordered(state);
  std::size_t label = 5;
  for (const DeviceEnergy& device : look.window.devices) {
    label = std::max(label, device.label().size());
  }
  // The total includes the CPUs' power, so GPUs are more important if not all devices fit.
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
  // The last line shows the number of devices above and below.
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

void PowerHistory::add(Instant at, Watts power) {
  if (!samples_.empty() && at - samples_.back().at < kNearest) return;
  samples_.push_back({at, power.value});
  while (at - samples_.front().at > kSpan) samples_.pop_front();
}

std::vector<double> PowerHistory::levels(Instant now, std::size_t count, Watts full,
                                         Seconds interval) const {
  std::vector<double> levels(count, kNone);
  if (count == 0 || full.value <= 0) return levels;
  const double span =
      std::max({kSpan.value / static_cast<double>(count), interval.value, kNearest.value});
  const auto number = [&](Instant at) { return std::floor((at - Instant{}).value / span); };
  const double last = number(now);
  std::vector<double> sums(count, 0);
  std::vector<int> samples(count, 0);
  for (const Sample& sample : samples_) {
    const double back = last - number(sample.at);
    if (back < 0 || back >= static_cast<double>(count)) continue;
    const std::size_t place = count - 1 - static_cast<std::size_t>(back);
    sums[place] += sample.watts;
    samples[place] += 1;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (samples[i] > 0) levels[i] = sums[i] / samples[i] / full.value;
  }
  // Samples that are slightly late leave a span empty, which is not a gap.
  for (std::size_t i = 1; i < count; ++i) {
    const bool next_has = i + 1 == count || samples[i + 1] > 0;
    if (samples[i] == 0 && samples[i - 1] > 0 && next_has) levels[i] = levels[i - 1];
  }
  return levels;
}

std::optional<Watts> PowerHistory::highest() const {
  if (samples_.empty()) return std::nullopt;
  return Watts{std::ranges::max_element(samples_, {}, &Sample::watts)->watts};
}

std::string short_energy_text(const EnergyEstimate& energy) {
  if (energy.source == EnergySource::kNone) return "-";
  constexpr double kKilo = 1e3, kMega = 1e6;
  const double size = std::abs(energy.energy.value);
  if (size < 100 * kKilo) return energy_text(energy);
  const double unit = size < 100 * kMega ? kKilo : kMega;
  const char* const name = unit == kKilo ? " kJ" : " MJ";
  const double error = energy.error.value / unit;
  const int decimals = error_known(energy) && error < 9.5 ? 1 : 0;
  return grouped(energy.energy.value / unit, decimals) + " ± " +
         (error_known(energy) ? grouped(error, decimals) : "?") + name;
}

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
  // Space below is reserved for the processes, even if there are none, so that their number does
  // not change the rows; but not if a device would lose its row.
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
  constexpr std::array kNames{"index", "power", "busy", "temperature", "energy"};
  return kNames.at(static_cast<std::size_t>(order));
}

MonitorState::Order next_of(MonitorState::Order order) {
  return order == Order::kEnergy ? Order::kIndex
                                 : static_cast<Order>(static_cast<unsigned char>(order) + 1);
}

}  // namespace harpe::command
