#include <algorithm>
#include <array>
#include <cmath>
#include <compare>
#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/result.h"
#include "harpe/base/text.h"
#include "harpe/plan/instruction/knobs_json.h"
#include "harpe/plan/instruction/likely_instruction.h"
#include "harpe/plan/profile/profile.h"

namespace harpe {
namespace {

enum ProfileColumn : std::size_t {
  kStage,
  kInstruction,
  kFrequency,
  kTime,
  kEnergy,
  kChunk,
  kRank,
  kDpRank,
  kPpRank,
  kTpRank,
  kMemoryFrequency,
  kPowerLimit,
  kLabel,
};
constexpr std::size_t kRequiredProfileColumns = 5;
constexpr std::array<std::string_view, 13> kProfileColumnNames = {
    "stage", "instruction", "frequency", "time",    "energy",           "chunk",
    "rank",  "dp_rank",     "pp_rank",   "tp_rank", "memory_frequency", "power_limit",
    "label"};
/// Alternative name of the column `label`, used by Kareus.
constexpr std::string_view kLabelAlias = "configuration";

std::string list_of(const CsvRow& header) {
  constexpr std::size_t kShown = 12;
  std::string list;
  for (std::size_t i = 0; i < std::min(header.cells.size(), kShown); ++i) {
    if (i > 0) list += ", ";
    list += in_quotes(header.cells[i].text);
  }
  return header.cells.size() > kShown ? list + ", ..." : list;
}

/// Returns true if a column of this name most likely holds the values of the required column.
bool is_other_name(std::string_view name, ProfileColumn column) {
  static constexpr std::array<std::array<std::string_view, 8>, kRequiredProfileColumns> kOthers = {{
      {"pp_stage", "pipeline_stage", "stage_id", "stages", "stage_index", "stageid", "pp", "pipe"},
      {"kind", "op", "operation", "type", "instr", "phase", "instruction_type", "pass"},
      {"freq", "clock", "sm_clock", "gpu_clock", "graphics_clock", "mhz", "sm_freq", "f"},
      {"duration", "seconds", "elapsed", "latency", "ms", "sec", "t", "runtime"},
      {"joules", "joule", "j", "mj", "e", "energy_consumption", "gpu_energy", "consumption"},
  }};
  const std::string word = lower(name);
  const std::string_view known = kProfileColumnNames[column];
  const auto begins = [&](std::string_view with) {  // "time_s", "time (s)", "freq_mhz"
    return word.starts_with(with) && word.size() > with.size() &&
           std::string_view("_ ([/.").find(word[with.size()]) != std::string_view::npos;
  };
  return begins(known) || std::ranges::any_of(kOthers[column], [&](std::string_view other) {
           return word == other || (other.size() > 2 && begins(other));
         });
}

/// Returns a hint at the unit of a required column if its name contains another unit.
std::string unit_hint(std::string_view name, ProfileColumn column) {
  const std::string word = lower(name);
  for (const std::string_view unit : {"ms", "us", "ns", "mj", "uj", "kj", "ghz", "khz", "hz"}) {
    if (word.find(unit) == std::string::npos || word.find("mhz") != std::string::npos) continue;
    if (column == kTime) return " (it must be in s)";
    if (column == kEnergy) return " (it must be in J)";
    if (column == kFrequency) return " (it must be in MHz)";
  }
  return {};
}

/// The header of a profile file: the position of each column in a row.
class ProfileColumns {
 public:
  /// Reports a missing required column, a duplicate column and a misspelt optional column.
  ProfileColumns(const CsvRow& header, Diagnostics& diagnostics) : where_{} {
    where_.fill(kAbsent);
    std::vector<CsvCell> unknown;
    for (std::size_t i = 0; i < header.cells.size(); ++i) {
      const CsvCell& cell = header.cells[i];
      const std::string text = lower(cell.text);
      const auto known = std::find(kProfileColumnNames.begin(), kProfileColumnNames.end(),
                                   text == kLabelAlias ? kProfileColumnNames[kLabel] : text);
      if (known == kProfileColumnNames.end()) {
        unknown.push_back(cell);
        continue;
      }
      std::size_t& slot = where_[static_cast<std::size_t>(known - kProfileColumnNames.begin())];
      if (slot != kAbsent) {
        const bool two_names = lower(header.cells[slot].text) != text;
        diagnostics.add(
            header.line, cell.column,
            "column '" + std::string(*known) + "' appears twice, first at column " +
                std::to_string(header.cells[slot].column) +
                (two_names ? "; '" + std::string(kLabelAlias) + "' is another name of it" : ""));
        continue;
      }
      slot = i;
    }
    report_missing(header, unknown, diagnostics);
    report_misspelt(header, unknown, diagnostics);
  }

  bool has(ProfileColumn column) const { return where_[column] != kAbsent; }

  /// \pre `has(column)`, and `row` has as many cells as the header.
  const CsvCell& cell(const CsvRow& row, ProfileColumn column) const {
    return row.cells[where_[column]];
  }

 private:
  static constexpr std::size_t kAbsent = static_cast<std::size_t>(-1);

  void report_missing(const CsvRow& header, const std::vector<CsvCell>& unknown,
                      Diagnostics& diagnostics) const {
    std::vector<std::string> names;
    names.reserve(unknown.size());
    for (const CsvCell& cell : unknown) names.push_back(cell.text);
    for (std::size_t i = 0; i < kRequiredProfileColumns; ++i) {
      if (where_[i] != kAbsent) continue;
      std::string message = "column '" + std::string(kProfileColumnNames[i]) + "' is missing";
      int column = 1;
      const auto column_of = static_cast<ProfileColumn>(i);
      const auto other = std::ranges::find_if(
          names, [&](const std::string& name) { return is_other_name(name, column_of); });
      const auto meant =
          other != names.end() ? std::optional(*other) : nearest(kProfileColumnNames[i], names);
      if (meant) {
        message += "; is " + in_quotes(*meant) + " meant?" + unit_hint(*meant, column_of);
        column = std::find_if(unknown.begin(), unknown.end(), [&](const CsvCell& cell) {
                   return cell.text == *meant;
                 })->column;
      }
      diagnostics.add(header.line, column, message + " (found: " + list_of(header) + ")");
    }
  }

  // Unknown columns are ignored unless the name resembles an optional column: ignoring a misspelt
  // `rank` would mix measurements.
  void report_misspelt(const CsvRow& header, const std::vector<CsvCell>& unknown,
                       Diagnostics& diagnostics) const {
    std::vector<std::string> absent;
    for (std::size_t i = kRequiredProfileColumns; i < kProfileColumnNames.size(); ++i) {
      if (where_[i] == kAbsent) absent.emplace_back(kProfileColumnNames[i]);
    }
    for (const CsvCell& cell : unknown) {
      if (const auto meant = nearest(cell.text, absent)) {
        diagnostics.add(header.line, cell.column,
                        "unknown column " + in_quotes(cell.text) + "; is '" + *meant + "' meant?");
      }
    }
  }

  std::array<std::size_t, kProfileColumnNames.size()> where_;
};

constexpr std::size_t kEach = 3;         // rows of one cause that are reported separately
constexpr std::size_t kMostCauses = 64;  // more than a report shows

/// Returns the message without its numbers.
std::string cause_of(std::string message) {
  std::erase_if(message, [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == '-'; });
  return message;
}

/// Errors of rows, in order. Errors whose messages differ only in numbers share a cause: up to
/// three of a cause are reported separately; if there are more, only the first is reported, with
/// their count. Memory is bounded by the number of causes. Not thread-safe.
class RowErrors {
 public:
  void add(int line, int column, std::string message) {
    const std::string name = cause_of(message);
    if (causes_.size() >= kMostCauses && !causes_.contains(name)) {
      ++more_;
      return;
    }
    Cause& cause = causes_[name];
    const std::size_t number = added_++;
    if (cause.count++ >= kEach) return;
    cause.first.push_back(
        {.number = number,
         .error = {.line = line, .column = column, .message = std::move(message)}});
  }

  /// Appends the errors to `diagnostics`, in the order in which they were added.
  void report(Diagnostics& diagnostics) const {
    std::vector<Row> all;
    for (const auto& [name, cause] : causes_) {
      if (cause.count <= kEach) {
        all.insert(all.end(), cause.first.begin(), cause.first.end());
        continue;
      }
      Row one = cause.first.front();
      std::string lines;
      for (const Row& row : cause.first)
        lines += (lines.empty() ? "" : ", ") + std::to_string(row.error.line);
      one.error.message +=
          " (the same in " + std::to_string(cause.count) + " rows: lines " + lines + ", ...)";
      all.push_back(std::move(one));
    }
    std::ranges::sort(all, {}, &Row::number);
    for (Row& row : all)
      diagnostics.add(row.error.line, row.error.column, std::move(row.error.message));
    // `Diagnostics` also counts errors that it does not show.
    for (std::size_t i = 0; i < more_; ++i) diagnostics.add("another error");
  }

 private:
  struct Row {
    std::size_t number = 0;  ///< position in the order in which errors were added
    Diagnostic error = {};
  };
  struct Cause {
    std::size_t count = 0;
    std::vector<Row> first;  ///< at most three
  };
  std::map<std::string, Cause> causes_;
  std::size_t added_ = 0;
  std::size_t more_ = 0;  ///< errors whose causes are not kept
};

constexpr double kLargestIndex = 100'000;  // of stages and chunks
constexpr double kLargestRank = 1'000'000'000;
constexpr double kHighestClock = 100'000;  // MHz
constexpr double kWholeTolerance = 1e-6;   // files written by pandas have 1410.0

/// A range of values that the solver's integers (nanoseconds, microwatts) hold, with a margin.
struct Range {
  double low, high;
};
constexpr Range kTimeRange{1e-9, 1e6};
constexpr Range kEnergyRange{1e-15, 1e15};

struct Place {
  int line = 0;
  int column = 0;
};

struct InstructionKey {
  int stage = 0;
  int chunk = 0;
  InstructionKind kind = InstructionKind::kForward;
  friend auto operator<=>(const InstructionKey&, const InstructionKey&) = default;
};

/// The key of a measurement; unique among the rows.
struct RowKey {
  InstructionKey instruction;
  InstructionSetting setting;
  std::array<int, 4> ranks{};
  friend auto operator<=>(const RowKey&, const RowKey&) = default;
};

std::string describe(const InstructionKey& key, bool has_chunks) {
  std::string text = "stage " + std::to_string(key.stage);
  if (has_chunks) text += " chunk " + std::to_string(key.chunk);
  return text.append(" ").append(name(key.kind));
}

std::string describe(const InstructionSetting& setting) {
  if (setting.clock.value != 0) return "at " + text_of(setting);
  return setting.knobs.empty() ? "without a clock"
                               : "without a clock, with " + text_of(setting.knobs);
}

/// Returns ascending ranges of stages as "stages 1, 3 to 5, 9".
std::string describe_gaps(const std::vector<std::pair<int, int>>& gaps) {
  constexpr std::size_t kShown = 8;
  std::string text = gaps.size() == 1 && gaps[0].first == gaps[0].second ? "stage " : "stages ";
  for (std::size_t i = 0; i < std::min(gaps.size(), kShown); ++i) {
    const auto [first, last] = gaps[i];
    if (i > 0) text += ", ";
    text += std::to_string(first);
    if (last > first) text += (last == first + 1 ? ", " : " to ") + std::to_string(last);
  }
  return gaps.size() > kShown ? text + ", ..." : text;
}

/// The measurements of one setting over all ranks.
struct Measurements {
  Seconds longest{0};
  Joules sum{0}, least{0}, most{0};
  int count = 0;

  void add(Seconds time, Joules energy) {
    longest = std::max(longest, time);
    sum += energy;
    least = count == 0 ? energy : std::min(least, energy);
    most = std::max(most, energy);
    ++count;
  }
  /// Returns the mean, clamped because rounding must not move it outside the measured range.
  Joules mean() const { return std::clamp(sum / count, least, most); }
};

class Reader {
 public:
  Reader(const ProfileColumns& columns, RowErrors& errors) : columns_(columns), errors_(errors) {}

  void read(const CsvRow& row) {
    const std::optional<int> stage = index(row, kStage, kLargestIndex);
    const std::optional<int> chunk =
        columns_.has(kChunk) ? index(row, kChunk, kLargestIndex) : std::optional(0);
    const std::optional<InstructionKind> kind = instruction(row);
    const std::optional<Megahertz> clock = frequency(row, kind);
    const auto time = quantity(row, kTime, "seconds", "s", kTimeRange);
    const auto energy = quantity(row, kEnergy, "joules", "J", kEnergyRange);
    const std::optional<Knobs> knobs = knob_columns(row);
    const std::optional<std::array<int, 4>> ranks = rank_columns(row);
    if (stage) {
      first_of_stage_.try_emplace(*stage, Place{row.line, cell(row, kStage).column});
    } else {
      all_stages_known_ = false;
    }

    if (!stage || !chunk || !kind || !clock || !knobs || !ranks) return;
    const RowKey key{{*stage, *chunk, *kind}, {*clock, *knobs}, *ranks};
    if (!is_new(row, key) || !time || !energy) return;
    measured_[{key.instruction, key.setting}].add({*time}, {*energy});
  }

  /// Skips a row that cannot be read. Missing stages are then not reported: the row could hold one.
  void skip() { all_stages_known_ = false; }

  /// Reports missing stages: every stage of a pipeline has work.
  void check_stages(Diagnostics& diagnostics) {
    if (!all_stages_known_) return;
    std::vector<std::pair<int, int>> gaps;
    Place place;
    int expected = 0;
    for (const auto& [stage, first] : first_of_stage_) {
      if (stage > expected) {
        if (gaps.empty()) place = first;
        gaps.emplace_back(expected, stage - 1);
      }
      expected = stage + 1;
    }
    if (gaps.empty()) return;
    diagnostics.add(place.line, place.column,
                    "stages must be numbered from 0 without gaps, but " + describe_gaps(gaps) +
                        (gaps.size() == 1 && gaps[0].first == gaps[0].second ? " is" : " are") +
                        " missing (the highest is " + std::to_string(expected - 1) + ")");
  }

  Profile profile() const {
    std::vector<InstructionProfile> entries;
    const InstructionKey* last = nullptr;
    for (const auto& [key, measurements] : measured_) {
      const auto& [at, setting] = key;
      if (last == nullptr || *last != at) entries.push_back({at.stage, at.chunk, at.kind, {}});
      entries.back().points.push_back(
          {setting.clock, measurements.longest, measurements.mean(), setting.knobs});
      last = &at;
    }
    return Profile(std::move(entries), columns_.has(kChunk));
  }

 private:
  const CsvCell& cell(const CsvRow& row, ProfileColumn column) const {
    return columns_.cell(row, column);
  }

  std::nullopt_t error(const CsvRow& row, ProfileColumn column, const std::string& message) {
    errors_.add(row.line, cell(row, column).column, message);
    return std::nullopt;
  }

  std::nullopt_t not_a_number(const CsvRow& row, ProfileColumn column, std::string_view expected) {
    const std::string& text = cell(row, column).text;
    std::string message(kProfileColumnNames[column]);
    message += text.empty() ? " is empty" : ' ' + in_quotes(text) + " is not a number";
    return error(row, column, message.append(": expected ").append(expected));
  }

  std::optional<int> whole(const CsvRow& row, ProfileColumn column, double highest,
                           std::string_view expected) {
    const std::string& text = cell(row, column).text;
    const std::optional<double> number = parse_number(text);
    if (!number) return not_a_number(row, column, expected);
    const double rounded = std::round(*number);
    const std::string subject = std::string(kProfileColumnNames[column]) + " " + in_quotes(text);
    if (std::abs(*number - rounded) > kWholeTolerance) {
      return error(row, column, subject + " is not a whole number");
    }
    if (rounded < 0) return error(row, column, subject + " is negative");
    if (rounded > highest) {
      return error(row, column,
                   subject + " is over " + std::to_string(static_cast<int>(highest)) +
                       ": expected " + std::string(expected));
    }
    return static_cast<int>(rounded);
  }

  std::optional<int> index(const CsvRow& row, ProfileColumn column, double highest) {
    return whole(row, column, highest, "a whole number from 0");
  }

  std::optional<InstructionKind> instruction(const CsvRow& row) {
    const std::string& text = cell(row, kInstruction).text;
    const std::optional<InstructionKind> kind = instruction_kind(text);
    if (kind && kind != InstructionKind::kSwitch) return kind;
    if (kind) {
      return error(row, kInstruction,
                   "instruction 'switch' cannot be measured alone: give the switch latency to the "
                   "planner instead");
    }
    std::string all;
    for (int i = 0; i < kInstructionKinds; ++i) {
      const auto candidate = static_cast<InstructionKind>(i);
      if (candidate == InstructionKind::kSwitch) continue;
      if (i > 0) all += ", ";
      all += name(candidate);
    }
    if (text.empty()) return error(row, kInstruction, "instruction is empty: expected " + all);
    const std::optional<std::string> meant = plan::likely_instruction(text);
    return error(row, kInstruction,
                 "unknown instruction " + in_quotes(text) +
                     (meant ? "; is '" + *meant + "' meant?" : ": expected " + all));
  }

  std::optional<Megahertz> frequency(const CsvRow& row, std::optional<InstructionKind> kind) {
    const bool may_be_absent = !kind || is_fixed_time(*kind);
    if (cell(row, kFrequency).text.empty() && may_be_absent) return Megahertz{0};
    if (looks_like_other_unit(row)) return std::nullopt;
    const std::optional<int> clock = whole(row, kFrequency, kHighestClock, "a clock in MHz");
    if (!clock) return std::nullopt;
    if (*clock == 0 && !may_be_absent) {
      return error(row, kFrequency,
                   "frequency is 0: a " + std::string(name(*kind)) + " runs at a clock above 0");
    }
    return Megahertz{*clock};
  }

  /// Returns true if the clock looks like GHz, kHz or Hz. Reports only the first such row.
  bool looks_like_other_unit(const CsvRow& row) {
    const std::string& text = cell(row, kFrequency).text;
    const std::optional<double> clock = parse_number(text);
    if (!clock) return false;
    struct Reading {
      const char* unit;
      double low, high, scale;
    };
    constexpr std::array kReadings = {Reading{"GHz", 0.05, 10, 1e3}, Reading{"kHz", 2e5, 1e7, 1e-3},
                                      Reading{"Hz", 5e7, 1e10, 1e-6}};
    for (const Reading& reading : kReadings) {
      const bool is_whole = *clock == std::floor(*clock);
      if (*clock < reading.low || *clock > reading.high || (reading.scale > 1 && is_whole))
        continue;
      if (!has_other_unit_) {
        error(row, kFrequency,
              "frequency " + in_quotes(text) + " looks like " + reading.unit + ": expected MHz, " +
                  shortest(*clock * reading.scale, 1));
      }
      has_other_unit_ = true;
      return true;
    }
    return false;
  }

  std::optional<double> quantity(const CsvRow& row, ProfileColumn column, const std::string& unit,
                                 const std::string& symbol, Range range) {
    const std::string& text = cell(row, column).text;
    const std::optional<double> number = parse_number(text);
    if (!number) return not_a_number(row, column, "a finite number of " + unit);
    const std::string subject = std::string(kProfileColumnNames[column]) + " " + in_quotes(text);
    if (*number == 0) return error(row, column, subject + " is zero, but it must be above 0");
    if (*number < 0) return error(row, column, subject + " is negative");
    if (*number < range.low || *number > range.high) {
      return error(row, column,
                   subject + " is beyond the solver's range: expected " + unit + ", " +
                       shortest(range.low) + " to " + shortest(range.high) + " " + symbol);
    }
    return number;
  }

  bool has_text(const CsvRow& row, ProfileColumn column) const {
    return columns_.has(column) && !cell(row, column).text.empty();
  }

  std::optional<Knobs> knob_columns(const CsvRow& row) {
    Knobs knobs;
    bool good = true;
    if (has_text(row, kMemoryFrequency)) {
      const auto clock =
          whole(row, kMemoryFrequency, kHighestClock, "a clock in MHz, or nothing where not given");
      if (clock == 0) error(row, kMemoryFrequency, "memory_frequency is 0: leave it empty");
      knobs.memory_clock.value = clock.value_or(0);
      good = knobs.memory_clock.value > 0;
    }
    if (has_text(row, kPowerLimit)) {
      const std::string& text = cell(row, kPowerLimit).text;
      const std::optional<double> limit = parse_number(text);
      const bool fits =
          limit && *limit >= plan::kLeastPowerLimit && *limit <= plan::kMostPowerLimit;
      if (!fits) {
        error(row, kPowerLimit,
              "power_limit " + in_quotes(text) +
                  ": expected watts from 0.001 to 1000000, or nothing where not given");
      }
      knobs.power_limit.value = limit.value_or(0);
      good = good && fits;
    }
    if (has_text(row, kLabel)) {
      const std::optional<Label> label = Label::of(cell(row, kLabel).text);
      if (!label) {
        error(row, kLabel,
              "label " + in_quotes(cell(row, kLabel).text) + ": expected at most " +
                  std::to_string(Label::kMostBytes) + " letters, digits and _-.:+/");
      }
      knobs.label = label.value_or(Label{});
      good = good && label.has_value();
    }
    return good ? std::optional(knobs) : std::nullopt;
  }

  std::optional<std::array<int, 4>> rank_columns(const CsvRow& row) {
    std::array<int, 4> ranks{};
    bool good = true;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      const auto column = static_cast<ProfileColumn>(kRank + i);
      if (!columns_.has(column)) continue;
      const std::optional<int> rank = index(row, column, kLargestRank);
      good = good && rank.has_value();
      ranks[i] = rank.value_or(0);
    }
    return good ? std::optional(ranks) : std::nullopt;
  }

  bool has_ranks() const {
    for (const ProfileColumn column : {kRank, kDpRank, kPpRank, kTpRank}) {
      if (columns_.has(column)) return true;
    }
    return false;
  }

  /// Returns true if the row is the first with its key and, for a fixed-time kind, has the only
  /// setting of its instruction.
  bool is_new(const CsvRow& row, const RowKey& key) {
    const std::string who = describe(key.instruction, columns_.has(kChunk));
    const auto [first, added] = line_of_.try_emplace(key, row.line);
    if (!added) {
      errors_.add(row.line, row.cells.front().column,
                  "the same row twice" + std::string(has_ranks() ? " for one rank" : "") + ": " +
                      who + " " + describe(key.setting) + " is already in line " +
                      std::to_string(first->second) +
                      (has_ranks() ? "" : " (measurements of several ranks need a column 'rank')"));
      return false;
    }
    if (!is_fixed_time(key.instruction.kind)) return true;
    const auto [only, is_first] =
        fixed_.try_emplace(key.instruction, std::pair(key.setting, row.line));
    const auto& [setting, line] = only->second;
    if (is_first || setting == key.setting) return true;
    error(row, kFrequency,
          std::string(name(key.instruction.kind)) + " has no clock to choose, but " + who +
              " is here " + describe(key.setting) + " and in line " + std::to_string(line) + " " +
              describe(setting));
    return false;
  }

  const ProfileColumns& columns_;
  RowErrors& errors_;
  std::map<RowKey, int> line_of_;
  std::map<InstructionKey, std::pair<InstructionSetting, int>> fixed_;
  std::map<int, Place> first_of_stage_;
  bool all_stages_known_ = true;
  bool has_other_unit_ = false;  ///< a clock that is not in MHz was found
  std::map<std::pair<InstructionKey, InstructionSetting>, Measurements> measured_;
};

/// Returns true if the row has as many cells as the header.
bool has_right_length(const CsvRow& row, std::size_t expected, bool is_last, RowErrors& errors) {
  const std::size_t cells = row.cells.size();
  if (cells == expected) return true;
  const std::string counts = std::to_string(cells) + (cells == 1 ? " cell" : " cells") +
                             ", the header has " + std::to_string(expected);
  if (cells > expected) {
    errors.add(row.line, row.cells[expected].column, "too many cells: " + counts);
  } else {
    const CsvCell& last = row.cells.back();
    errors.add(row.line, last.column + static_cast<int>(last.text.size()),
               "too few cells: " + counts + (is_last ? "; the file may be truncated" : ""));
  }
  return false;
}

bool says_synthetic(std::string_view text) {
  constexpr std::string_view kMark = "synthetic profile";
  text = without_byte_order_mark(text);
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    const std::string_view line = trim(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.starts_with('#')) continue;
    if (lower(trim(line.substr(1)).substr(0, kMark.size())) == kMark) return true;
  }
  return false;
}

}  // namespace

Result<Profile> parse_profile(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  if (const auto other = other_form(text)) {
    diagnostics.add(other->line, 1,
                    "this is " + std::string(other->name) +
                        ", not a profile: expected a table with the columns "
                        "stage,instruction,frequency,time,energy");
    return Error::invalid(std::move(diagnostics));
  }
  const std::vector<CsvRow> rows = split_csv(text, diagnostics);
  if (rows.empty()) {
    if (diagnostics.empty()) {
      diagnostics.add(1, 1,
                      std::string("the file ") + (text.empty() ? "is empty" : "has no rows") +
                          ": expected the header stage,instruction,frequency,time,energy");
    }
    return Error::invalid(std::move(diagnostics));
  }
  const std::size_t csv_errors = diagnostics.count();
  const ProfileColumns columns(rows.front(), diagnostics);
  if (diagnostics.count() > csv_errors) return Error::invalid(std::move(diagnostics));
  if (rows.size() == 1) {
    diagnostics.add(rows.front().line, 1, "no rows follow the header");
  }
  RowErrors errors;
  Reader reader(columns, errors);
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const bool is_last = i + 1 == rows.size();
    if (has_right_length(rows[i], rows.front().cells.size(), is_last, errors)) {
      reader.read(rows[i]);
    } else {
      reader.skip();
    }
  }
  errors.report(diagnostics);
  reader.check_stages(diagnostics);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  Profile profile = reader.profile();
  if (says_synthetic(text)) profile.mark_synthetic();
  return profile;
}

Result<Profile> read_profile(const std::filesystem::path& path) {
  std::string text = HARPE_TRY(read_file(path));
  return parse_profile(text, path.string());
}

}  // namespace harpe
