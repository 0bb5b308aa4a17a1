#include "harpe/carbon/carbon_source/exogenous_source.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <system_error>
#include <utility>

#include "harpe/base/file.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon_source/entsoe.h"

namespace harpe::carbon {
namespace fs = std::filesystem;
namespace {

/// Maximum age of a column's newest value: an older value has no information on the coming hours.
constexpr WholeSeconds kOldest = whole_hours(3);
constexpr std::string_view kAsked = "# asked ";

/// Removes columns that end more than `kOldest` before the present. Sets how far ahead the others
/// are known.
/// \param newest  position of the last value of the past
void keep_what_reaches(ExogenousSeries& series, std::size_t newest, WholeSeconds step,
                       std::size_t most_ahead, const std::string& name,
                       std::vector<std::string>& notes) {
  std::size_t ahead = most_ahead;
  std::string ended;
  std::erase_if(series.columns, [&](const ExogenousSeries::Column& column) {
    std::size_t end = column.values.size();
    while (end > 0 && std::isnan(column.values[end - 1])) --end;
    const auto late = static_cast<std::int64_t>(newest + 1) - static_cast<std::int64_t>(end);
    if (late * step > kOldest) {
      ended += (ended.empty() ? "" : ", ") + column.name;
      return true;
    }
    ahead = std::min(ahead, end > newest + 1 ? end - newest - 1 : 0);
    return false;
  });
  series.known_ahead = ahead;
  if (!ended.empty())
    notes.push_back(name + ": left out, because they end before the present: " + ended);
}

class DayAheadTables {
 public:
  DayAheadTables(EntsoeSource& source, fs::path folder, UtcNow now)
      : source_(source), folder_(std::move(folder)), now_(std::move(now)) {}

  std::optional<ExogenousSeries> on_grid(const IntensitySeries& past, std::size_t ahead,
                                         std::vector<std::string>& notes) {
    ExogenousSeries all;
    const std::size_t size = past.size() + ahead;
    const UtcTime end = past.start + static_cast<std::int64_t>(size) * past.step;
    for (UtcTime month = month_of(past.start); month < end; month = next_month(month)) {
      const std::string& table = table_of(month, notes);
      if (table.empty()) continue;
      const auto part = parse_exogenous_csv(table, "day-ahead", {}, past.start, past.step, size);
      if (part.ok()) add(*part, all);
    }
    keep_what_reaches(all, past.size() - 1, past.step, ahead, "day-ahead forecasts", notes);
    if (all.columns.empty()) return std::nullopt;
    return all;
  }

 private:
  struct Table {
    std::string csv = {};
    UtcTime asked{};
  };

  static void add(const ExogenousSeries& part, ExogenousSeries& all) {
    for (const ExogenousSeries::Column& column : part.columns) {
      const auto found =
          std::ranges::find(all.columns, column.name, &ExogenousSeries::Column::name);
      if (found == all.columns.end()) {
        if (all.columns.size() < kMostExogenousColumns) all.columns.push_back(column);
        continue;
      }
      for (std::size_t i = 0; i < column.values.size(); ++i)
        if (!std::isnan(column.values[i])) found->values[i] = column.values[i];
    }
  }

  fs::path path_of(UtcTime month) const { return folder_ / ("day-ahead-" + month_text(month)); }

  /// Returns the cached table of a month. Requests it again if it may have grown.
  const std::string& table_of(UtcTime month, std::vector<std::string>& notes) {
    Table& table = tables_[month.since_1970];
    const UtcTime now = now_();
    const bool is_over = next_month(month) + whole_days(1) < now;
    if (table.csv.empty() && !folder_.empty()) read(month, table);
    const bool was_over = next_month(month) < table.asked;
    const bool is_due = table.asked + whole_hours(1) <= now || now < table.asked;
    if (!(is_over && was_over) && is_due) ask(month, table, notes);
    return table.csv;
  }

  void read(UtcTime month, Table& table) {
    auto text = read_regular_file(path_of(month), 16U << 20);
    if (!text.ok() || !text->starts_with(kAsked)) return;
    const std::string_view first = std::string_view(*text).substr(0, text->find('\n'));
    const auto asked = parse_utc(first.substr(kAsked.size()));
    if (!asked) return;
    table = {.csv = *std::move(text), .asked = *asked};
  }

  void ask(UtcTime month, Table& table, std::vector<std::string>& notes) {
    table.asked = now_();
    const UtcTime end =
        std::min(next_month(month), interval_of(now_(), whole_days(1)) + whole_days(2));
    if (end <= month) return;
    std::map<UtcTime, std::map<std::string, double>> rows;
    std::vector<std::string> names;
    for (const auto what : {EntsoeSource::DayAhead::kLoad, EntsoeSource::DayAhead::kWindAndSolar}) {
      const auto power = source_.day_ahead(what, month, end);
      if (!power.ok()) {
        notes.push_back(
            "no day-ahead " +
            std::string(what == EntsoeSource::DayAhead::kLoad ? "load" : "wind and sun") + ": " +
            power.error().text());
        continue;
      }
      for (const auto& [name, megawatts] : power->megawatts) {
        names.push_back(name);
        for (std::size_t i = 0; i < megawatts.size(); ++i) {
          const UtcTime at = power->start + static_cast<std::int64_t>(i) * power->step;
          if (!std::isnan(megawatts[i]) && at >= month && at < end) rows[at][name] = megawatts[i];
        }
      }
    }
    if (rows.empty()) return;
    table.csv = table_text(table.asked, names, rows);
    if (folder_.empty()) return;
    std::error_code failed;
    fs::create_directories(folder_, failed);
    if (const Status written = write_file(path_of(month), table.csv); !written.ok())
      notes.push_back("the cache cannot be written: " + written.error().text());
  }

  static std::string table_text(UtcTime asked, const std::vector<std::string>& names,
                                const std::map<UtcTime, std::map<std::string, double>>& rows) {
    std::string text = std::string(kAsked) + utc_text(asked) + "\ntime";
    for (const std::string& name : names) text += "," + name;
    text += '\n';
    for (const auto& [at, values] : rows) {
      text += utc_text(at);
      for (const std::string& name : names) {
        const auto found = values.find(name);
        text += "," + (found == values.end() ? std::string() : shortest(found->second));
      }
      text += '\n';
    }
    return text;
  }

  EntsoeSource& source_;
  fs::path folder_;
  UtcNow now_;
  std::map<std::int64_t, Table> tables_;  ///< by the start of their month
};

}  // namespace

ExogenousSource exogenous_file(fs::path path, WholeSeconds known_ahead) {
  return [path = std::move(path), known_ahead](
             const IntensitySeries& past, std::size_t ahead,
             std::vector<std::string>& notes) -> std::optional<ExogenousSeries> {
    const auto read = [&]() -> Result<ExogenousSeries> {
      const std::string text = HARPE_TRY(read_regular_file(path));
      return parse_exogenous_csv(text, path, {.known_ahead = known_ahead}, past.start, past.step,
                                 past.size() + ahead);
    };
    auto series = read();
    if (!series.ok()) {
      notes.push_back("forecast without exogenous values: " + series.error().text());
      return std::nullopt;
    }
    keep_what_reaches(*series, past.size() - 1, past.step, std::min(ahead, series->known_ahead),
                      path.string(), notes);
    if (series->columns.empty()) return std::nullopt;
    return *std::move(series);
  };
}

ExogenousSource exogenous_day_ahead(EntsoeSource& source, fs::path folder, UtcNow now) {
  return [tables = std::make_shared<DayAheadTables>(source, std::move(folder), std::move(now))](
             const IntensitySeries& past, std::size_t ahead, std::vector<std::string>& notes) {
    return tables->on_grid(past, ahead, notes);
  };
}

}  // namespace harpe::carbon
