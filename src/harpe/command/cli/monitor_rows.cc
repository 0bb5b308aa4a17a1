#include "harpe/command/cli/monitor_rows.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/command/cli/measure_output.h"
#include "harpe/command/cli/terminal_text.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/quantity_text.h"
#include "harpe/command/command/text_layout.h"

namespace harpe {
namespace {

using What = MonitorField::What;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

struct FieldKind {
  What what;
  const char* heading;
  std::size_t least, enough, most;  ///< widths: what is beyond enough is for looks
  int place;                        ///< among those of its line
  bool only_wide = false;           ///< shown on the first line of wide terminals alone
};
/// In the order in which they matter.
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
constexpr std::size_t kWide = 160;  ///< columns from which a terminal is wide

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

/// "312/400", "312", "-".
std::string of_most(const std::optional<double>& value, const std::optional<double>& most,
                    int decimals) {
  const std::string text = value ? fixed(*value, decimals) : "-";
  return most ? text + "/" + fixed(*most, decimals) : text;
}

/// Nearly all of what there is.
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

/// Exactly `width` columns.
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
  if (!is_gpu) return std::string(field.width, ' ');  // a CPU has none of the rest
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

/// A device that failed, in one line.
std::string failed_row(const MonitorRow& row, const MonitorLayout& layout, std::size_t columns,
                       bool coloured) {
  const Error& error = *row.device.error;
  std::string line = fitted(row.device.label(), layout.lines[0][0].width, Align::kLeft) + " ";
  const std::string word = fault_word(error);
  std::string rest;
  if (row.device.energy.source != EnergySource::kNone) {
    rest += " (" + short_energy_text(row.device.energy) + " before)";
  }
  std::string what = printable(error.text());  // most begin with the GPU's name
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

/// Fields share what is left of the line: first as far as they need it, then as far as they can.
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
  // Samples that come a little late leave a span empty, which is no gap.
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

}  // namespace harpe
