#include "harpe/carbon/carbon/intensity_csv.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <utility>
#include <vector>

#include "harpe/base/csv.h"
#include "harpe/base/text.h"

namespace harpe::carbon {
namespace {

/// The time of a row and its position in the file.
struct TimedRow {
  UtcTime time{};
  int line = 0;
  int column = 0;
};

/// The regular grid of a file's times: row r begins at start + slots[r] * step. Slots ascend; a
/// slot without a row is a gap.
struct TimeGrid {
  UtcTime start{};
  WholeSeconds step{0};
  std::size_t size = 0;
  std::vector<std::size_t> slots = {};
};

/// Returns true if each time is later than the time before. Adds a diagnostic for each other row.
bool ascend(std::span<const TimedRow> rows, Diagnostics& diagnostics) {
  bool fine = true;
  std::map<UtcTime, int> lines;  // the first line of each time
  for (std::size_t r = 0; r < rows.size(); ++r) {
    const auto [first, is_new] = lines.try_emplace(rows[r].time, rows[r].line);
    if (r == 0 || rows[r].time > rows[r - 1].time) continue;
    fine = false;
    const TimedRow& before = rows[r - 1];
    diagnostics.add(rows[r].line, rows[r].column,
                    is_new ? "expected a time after that of line " + std::to_string(before.line) +
                                 ", " + utc_text(before.time)
                           : "the same time as in line " + std::to_string(first->second) +
                                 "; local time repeats an hour: give UTC");
  }
  return fine;
}

/// Returns the most frequent distance between neighbours, or the shortest if several are.
WholeSeconds usual_distance(std::span<const TimedRow> rows) {
  std::map<WholeSeconds, std::size_t> counts;
  for (std::size_t r = 1; r < rows.size(); ++r) ++counts[rows[r].time - rows[r - 1].time];
  WholeSeconds usual{0};
  std::size_t most = 0;
  for (const auto& [distance, count] : counts) {
    if (count > most) usual = distance;
    most = std::max(most, count);
  }
  return usual;
}

/// Returns the grid of rows in the order of the file. Its step is `step` if given, or the most
/// frequent distance between neighbours. Returns nullopt and adds diagnostics if there is no row,
/// or one row and no step; if a time is not on the grid or not later than the time before (equal
/// times: the hour of local time that the end of summer time repeats); if the step does not divide
/// a day; or if the grid is longer than kLongestSeries. O(rows log rows).
std::optional<TimeGrid> find_time_grid(std::span<const TimedRow> rows,
                                       std::optional<WholeSeconds> step, Diagnostics& diagnostics) {
  if (rows.empty()) {
    diagnostics.add("it has no row with a time");
    return std::nullopt;
  }
  if (!ascend(rows, diagnostics)) return std::nullopt;
  TimeGrid grid{.start = rows[0].time, .step = step.value_or(usual_distance(rows)), .slots = {}};
  if (grid.step.count() <= 0) {
    diagnostics.add(rows[0].line, rows[0].column,
                    "one row is not enough to find the length of an interval");
    return std::nullopt;
  }
  if (whole_days(1) % grid.step != WholeSeconds(0)) {
    diagnostics.add("intervals of " + minutes_text(grid.step) + " do not divide a day");
    return std::nullopt;
  }
  const auto size = static_cast<std::size_t>((rows.back().time - grid.start) / grid.step) + 1;
  if (size > kLongestSeries) {
    diagnostics.add(rows.back().line, rows.back().column,
                    "the time is too far after the first row, " + utc_text(grid.start));
    return std::nullopt;
  }
  bool fine = true;
  for (const TimedRow& row : rows) {
    const WholeSeconds since = row.time - grid.start;
    grid.slots.push_back(static_cast<std::size_t>(since / grid.step));
    if (since % grid.step == WholeSeconds(0)) continue;
    fine = false;
    diagnostics.add(row.line, row.column,
                    utc_text(row.time) + " is not a multiple of " + minutes_text(grid.step) +
                        " after the first row, " + utc_text(grid.start));
  }
  if (!fine) return std::nullopt;
  grid.size = size;
  return grid;
}

constexpr double kGramsPerPound = 453.59237;  // by definition of the pound
constexpr std::size_t kNoColumn = static_cast<std::size_t>(-1);
/// Units with their value in g/kWh, as `plain_unit` spells them.
constexpr std::array kUnits =
    std::to_array<std::pair<std::string_view, double>>({{"g/kwh", 1},
                                                        {"kg/mwh", 1},
                                                        {"t/gwh", 1},
                                                        {"kg/kwh", 1000},
                                                        {"t/mwh", 1000},
                                                        {"lb/mwh", kGramsPerPound / 1000},
                                                        {"lbs/mwh", kGramsPerPound / 1000},
                                                        {"g/mj", 3.6}});

/// Returns the unit in lower case, without "co2" and its kind, and with a slash for "per".
std::string plain_unit(std::string_view text) {
  std::string word = lower(text);
  for (const std::string_view gas : {"co\xE2\x82\x82", "co2"}) {
    while (true) {
      const std::size_t at = word.find(gas);
      if (at == std::string::npos) break;
      std::size_t end = at + gas.size();
      for (const std::string_view kind : {"-eq", "eq", "e"}) {
        if (word.compare(end, kind.size(), kind) != 0) continue;
        end += kind.size();
        break;
      }
      word.erase(at, end - at);
    }
  }
  if (const std::size_t per = word.find("per"); per != std::string::npos) word.replace(per, 3, "/");
  std::ranges::replace(word, '_', ' ');
  // Removes the spaces of "kg / kwh".
  for (std::size_t at = 0; (at = word.find(' ', at)) != std::string::npos;) {
    const bool beside = (at > 0 && word[at - 1] == '/') ||
                        (at + 1 < word.size() && (word[at + 1] == '/' || word[at + 1] == ' '));
    beside ? void(word.erase(at, 1)) : void(++at);
  }
  return word;
}

/// Returns g/kWh for 1 of the unit in a column's name: "carbon intensity gCO2eq/kWh (direct)".
std::optional<double> unit_in(std::string_view name) {
  const std::string words = plain_unit(name);
  const auto is_letter = [&](std::size_t at) { return words[at] >= 'a' && words[at] <= 'z'; };
  for (const auto& [unit, grams] : kUnits) {
    const std::size_t at = words.find(unit);
    if (at == std::string::npos || (at > 0 && is_letter(at - 1))) continue;
    const std::size_t end = at + unit.size();
    if (end == words.size() || !is_letter(end)) return grams;
  }
  return std::nullopt;
}

/// The columns of a layout.
struct Columns {
  std::size_t time = kNoColumn, hour = kNoColumn, value = kNoColumn;
  std::size_t zone = kNoColumn, estimated = kNoColumn, source = kNoColumn;
  IntensityKind kind = IntensityKind::kUnstated;
  std::string layout = {};
};

class Heading {
 public:
  explicit Heading(const CsvRow& row) {
    for (const CsvCell& cell : row.cells) names_.push_back(lower(cell.text));
  }

  /// Returns the first column with all of these words in its name.
  std::size_t with(std::initializer_list<std::string_view> words) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      bool all = true;
      for (const std::string_view word : words) {
        all = all && names_[i].find(word) != std::string::npos;
      }
      if (all) return i;
    }
    return kNoColumn;
  }
  std::size_t named(std::string_view name) const {
    for (std::size_t i = 0; i < names_.size(); ++i) {
      if (names_[i] == lower(name)) return i;
    }
    return kNoColumn;
  }

 private:
  std::vector<std::string> names_;
};

/// Returns the layout of the heading; without a value column if the layout is unknown.
Columns layout_of(const Heading& heading, const IntensityCsvOptions& options) {
  const bool direct = options.kind == IntensityKind::kAverageDirect;
  std::size_t life_cycle = heading.with({"carbon intensity", "lca"});
  if (life_cycle == kNoColumn) life_cycle = heading.with({"carbon intensity", "life cycle"});
  const std::size_t chimneys = heading.with({"carbon intensity", "direct"});
  if (life_cycle != kNoColumn || chimneys != kNoColumn) {
    return {.time = heading.with({"datetime"}),
            .value = direct ? chimneys : life_cycle,
            .zone = heading.with({"zone id"}),
            .estimated = heading.named("data estimated"),
            .source = heading.named("data source"),
            .kind = direct ? IntensityKind::kAverageDirect : IntensityKind::kAverageLifecycle,
            .layout = "Electricity Maps"};
  }
  if (heading.named("hist") != kNoColumn && heading.named("timestamp") != kNoColumn) {
    return {.time = heading.named("timestamp"),
            .value = heading.named("hist"),
            .zone = heading.named("location"),
            .layout = "Chase"};
  }
  if (heading.named("time") != kNoColumn && heading.named("carbon intensity") != kNoColumn) {
    return {.time = heading.named("time"),
            .value = heading.named("carbon intensity"),
            .layout = "ENTSO-E"};
  }
  if (heading.named("date") != kNoColumn && heading.named("hour") != kNoColumn &&
      heading.named("ci") != kNoColumn) {
    return {.time = heading.named("date"),
            .hour = heading.named("hour"),
            .value = heading.named("ci"),
            .layout = "averages by day type"};
  }
  return {};
}

/// A reader of the rows of one table.
class IntensityTable {
 public:
  IntensityTable(const std::vector<CsvRow>& rows, const IntensityCsvOptions& options,
                 Diagnostics& diagnostics)
      : rows_(rows), options_(options), diagnostics_(diagnostics) {}

  /// Returns nullopt and adds diagnostics if the table has errors.
  std::optional<IntensitySeries> read() {
    if (!find_columns()) return std::nullopt;
    for (std::size_t r = 1; r < rows_.size(); ++r) read_row(rows_[r]);
    if (!diagnostics_.empty()) return std::nullopt;
    if (timed_.empty() && !options_.zone.empty()) {
      diagnostics_.add("it has no row for the zone " + options_.zone);
      return std::nullopt;
    }
    const auto grid = find_time_grid(timed_, options_.step, diagnostics_);
    if (!grid) return std::nullopt;
    IntensitySeries series{.start = grid->start,
                           .step = grid->step,
                           .values = std::vector<double>(grid->size, kNoValue),
                           .estimated = std::vector<std::uint8_t>(grid->size, 0),
                           .kind = columns_.kind,
                           .zone = columns_.zone == kNoColumn ? options_.zone : zone_,
                           .source = source_};
    for (std::size_t r = 0; r < timed_.size(); ++r) {
      series.values[grid->slots[r]] = values_[r];
      series.estimated[grid->slots[r]] = estimated_[r];
    }
    if (series.gaps() == series.size()) {
      diagnostics_.add("it has no value");
      return std::nullopt;
    }
    if (!check_scale(series)) return std::nullopt;
    return series;
  }

 private:
  bool find_columns() {
    if (rows_.empty()) {
      diagnostics_.add("it has no line; expected a heading");
      return false;
    }
    const int line = rows_[0].line;
    const Heading heading(rows_[0]);
    columns_ = layout_of(heading, options_);
    const bool generic = !options_.time_column.empty() || !options_.value_column.empty();
    const auto named = [&](const std::string& name, std::size_t& column) {
      if (name.empty()) return;
      column = heading.named(name);
      if (column == kNoColumn)
        diagnostics_.add(line, 0, "column " + in_quotes(name) + " does not exist");
    };
    named(options_.time_column, columns_.time);
    if (!options_.value_column.empty()) named(options_.value_column, columns_.value);
    if (!diagnostics_.empty()) return false;
    if (columns_.time == kNoColumn || columns_.value == kNoColumn) {
      diagnostics_.add(line, 0,
                       columns_.layout.empty()
                           ? "the layout is unknown; name the time column, the value column, its "
                             "unit and its kind"
                           : "the time column or the value column of the layout of " +
                                 columns_.layout + " is missing");
      return false;
    }
    return check_meaning(line, generic);
  }

  /// Returns true if the kind, the unit and the time zone are known.
  bool check_meaning(int line, bool generic) {
    const CsvCell& heading = rows_[0].cells[columns_.value];
    const std::optional<double> named = unit_in(heading.text);
    unit_ = options_.unit ? options_.unit : named;
    if (generic && (!unit_ || !options_.kind)) {
      diagnostics_.add(line, 0, "a column that is given by name also needs its unit and its kind");
    }
    if (options_.unit && named && *options_.unit != *named && !options_.any_value) {
      diagnostics_.add(line, heading.column,
                       "the name of the column, " + in_quotes(heading.text) +
                           ", contains another unit than the given one");
    }
    if (!generic && options_.kind == IntensityKind::kMarginal) {
      diagnostics_.add(line, 0,
                       "the layout of " + columns_.layout +
                           " has averages; for marginal values, name their column and unit");
    }
    if (columns_.hour != kNoColumn && !options_.hours_are_utc) {
      diagnostics_.add(line, 0, "state that the hours are UTC: local time cannot be read");
    }
    columns_.kind = options_.kind.value_or(columns_.kind);
    source_ = columns_.layout == "Electricity Maps" ? "Electricity Maps" : columns_.layout;
    return diagnostics_.empty();
  }

  /// Returns false if the values look like kg/kWh: a grid that emits next to nothing in g/kWh.
  bool check_scale(const IntensitySeries& series) {
    const bool is_life_cycle = columns_.kind == IntensityKind::kAverageLifecycle;
    if (options_.any_value || columns_.kind == IntensityKind::kPrice) return true;
    // Direct emissions of a hydro and wind grid can be this low, so a stated unit is trusted.
    if (unit_ && !is_life_cycle) return true;
    double highest = 0;
    for (const double value : series.values) highest = std::max(highest, value);  // gaps are NaN
    if (highest <= 0 || highest >= kLooksLikeKilograms) return true;
    diagnostics_.add(rows_[0].line, rows_[0].cells[columns_.value].column,
                     "no value is above " + shortest(highest) +
                         " g/kWh: they look like kg/kWh. Give their unit: kg/kWh" +
                         (is_life_cycle ? "" : " or g/kWh"));
    return false;
  }

  void read_row(const CsvRow& row) {
    if (!has_cells_of(rows_[0], row, diagnostics_)) return;
    if (columns_.zone != kNoColumn && !take_zone(row, row.cells[columns_.zone])) return;
    const CsvCell& time_cell = row.cells[columns_.time];
    auto time = parse_utc(time_cell.text);
    if (time && columns_.hour != kNoColumn) {
      const auto hour = parse_integer(row.cells[columns_.hour].text);
      if (hour && *hour >= 0 && *hour <= 23) {
        *time += whole_hours(*hour);
      } else {
        time.reset();
      }
    }
    if (!time) {
      diagnostics_.add(row.line, time_cell.column,
                       "expected a time such as 2022-01-31 13:00:00 or 2022-01-31T13:00Z, found " +
                           in_quotes(time_cell.text));
      return;
    }
    timed_.push_back({.time = *time, .line = row.line, .column = time_cell.column});
    values_.push_back(value_of(row, row.cells[columns_.value]));
    estimated_.push_back(columns_.estimated != kNoColumn &&
                         lower(row.cells[columns_.estimated].text) == "true");
    if (timed_.size() == 1 && columns_.source != kNoColumn &&
        !row.cells[columns_.source].text.empty()) {
      source_ = row.cells[columns_.source].text + ", by " + source_;
    }
  }

  /// Returns true if the row belongs to the zone that is read.
  bool take_zone(const CsvRow& row, const CsvCell& cell) {
    if (!options_.zone.empty()) {
      zone_ = options_.zone;
      return cell.text == options_.zone;
    }
    if (timed_.empty()) zone_ = cell.text;
    if (cell.text == zone_) return true;
    diagnostics_.add(
        row.line, cell.column,
        "a second zone, " + in_quotes(cell.text) + " after " + in_quotes(zone_) + "; choose one");
    return false;
  }

  double value_of(const CsvRow& row, const CsvCell& cell) {
    if (cell.text.empty() || lower(cell.text) == "nan") return kNoValue;
    const auto number = parse_number(cell.text);
    if (!number) {
      diagnostics_.add(row.line, cell.column, "expected a number, found " + in_quotes(cell.text));
      return kNoValue;
    }
    const double grams = *number * unit_.value_or(1);
    const bool is_price = columns_.kind == IntensityKind::kPrice;
    const bool negative = grams < 0 && !is_price && columns_.kind != IntensityKind::kMarginal;
    // Far above any power plant. Even unchecked values have a limit, so that squares stay finite.
    const double highest = options_.any_value || is_price ? 1e9 : kHighestIntensity;
    if ((negative && !options_.any_value) || grams > highest || grams < -highest) {
      diagnostics_.add(row.line, cell.column,
                       is_price ? "the price is too high"
                                : "an intensity of " + shortest(grams) +
                                      " g/kWh is out of range: expected 0 to " + shortest(highest));
    }
    return grams;
  }

  const std::vector<CsvRow>& rows_;
  const IntensityCsvOptions& options_;
  Diagnostics& diagnostics_;
  Columns columns_;
  std::optional<double> unit_;  ///< in g/kWh; nullopt if the unit is unknown
  std::vector<TimedRow> timed_;
  std::vector<double> values_;
  std::vector<std::uint8_t> estimated_;
  std::string zone_, source_;
};

}  // namespace

Result<double> parse_intensity_unit(std::string_view text) {
  std::string word = plain_unit(text);
  std::erase(word, ' ');
  for (const auto& [name, grams] : kUnits) {
    if (word == name) return grams;
  }
  return Error::invalid("expected g/kWh, kg/MWh, t/GWh, lb/MWh, kg/kWh, t/MWh or g/MJ, found " +
                        in_quotes(text));
}

std::optional<PriceUnit> parse_price_unit(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const std::string money(trim(text.substr(0, slash)));
  const std::string per = lower(trim(text.substr(slash + 1)));
  const bool is_currency =
      money.size() == 3 && std::ranges::all_of(money, [](char c) { return c >= 'A' && c <= 'Z'; });
  const bool is_money = is_currency || lower(money) == "ct";
  if (!is_money || (per != "mwh" && per != "kwh")) return std::nullopt;
  return PriceUnit{.money = money, .per_mwh = per == "mwh" ? 1.0 : 1000.0};
}

Result<IntensityKind> parse_intensity_kind(std::string_view text) {
  const std::string word = lower(trim(text));
  if (word == "life-cycle" || word == "lifecycle") return IntensityKind::kAverageLifecycle;
  if (word == "direct") return IntensityKind::kAverageDirect;
  if (word == "marginal") return IntensityKind::kMarginal;
  return Error::invalid("expected life-cycle, direct or marginal, found " + in_quotes(text));
}

Result<IntensitySeries> parse_intensity_csv(std::string_view text, const std::string& file,
                                            const IntensityCsvOptions& options) {
  Diagnostics diagnostics(file);
  const std::vector<CsvRow> rows = split_csv(text, diagnostics);
  IntensityTable table(rows, options, diagnostics);
  auto series = table.read();
  if (!series || !diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return *std::move(series);
}

}  // namespace harpe::carbon
