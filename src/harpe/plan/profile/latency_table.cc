#include "harpe/plan/profile/latency_table.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/base/csv.h"
#include "harpe/base/text.h"

namespace harpe::plan {
namespace {

constexpr int kHighestTableClock = 100'000;    // MHz
constexpr double kLongestTableLatency = 3600;  // s: what is longer is no time of a clock
constexpr double kWholeClock = 1e-6;           // files written by pandas have 1410.0

class LatencyTableReader {
 public:
  explicit LatencyTableReader(const std::string& file) : diagnostics_(file) {}

  Result<LatencyByClock> read(std::string_view text) {
    const std::vector<CsvRow> rows = split_csv(text, diagnostics_);
    if (rows.empty()) {
      diagnostics_.add("expected a header line with the columns frequency and latency");
    } else if (read_header(rows.front())) {
      for (std::size_t i = 1; i < rows.size(); ++i) {
        if (has_cells_of(rows.front(), rows[i], diagnostics_)) read_row(rows[i]);
      }
      if (rows.size() == 1) diagnostics_.add(rows[0].line, 1, "expected a row for each clock");
    }
    if (!diagnostics_.empty()) return Error::invalid(std::move(diagnostics_));
    return LatencyByClock(std::move(entries_));
  }

 private:
  bool read_header(const CsvRow& header) {
    const std::size_t before = diagnostics_.count();
    for (std::size_t i = 0; i < header.cells.size(); ++i) {
      const CsvCell& cell = header.cells[i];
      const std::string column = lower(cell.text);
      std::optional<std::size_t>* const place = column == "frequency"       ? &frequency_
                                                : column == "latency"       ? &latency_
                                                : column == "least_latency" ? &least_
                                                                            : nullptr;
      if (place == nullptr) {
        diagnostics_.add(header.line, cell.column,
                         "unknown column " + in_quotes(cell.text) +
                             ": expected frequency (MHz), latency (s) and least_latency (s)");
      } else if (*place) {
        diagnostics_.add(header.line, cell.column, "column " + column + " appears twice");
      } else {
        *place = i;
      }
    }
    if (!frequency_) diagnostics_.add(header.line, 1, "column frequency (MHz) is missing");
    if (!latency_) diagnostics_.add(header.line, 1, "column latency (s) is missing");
    return diagnostics_.count() == before;
  }

  void read_row(const CsvRow& row) {
    const CsvCell& frequency = row.cells[*frequency_];
    const CsvCell& latency = row.cells[*latency_];
    const std::optional<double> clock = parse_number(frequency.text);
    const std::optional<double> seconds = parse_number(latency.text);
    const bool is_clock = clock && *clock >= 1 && *clock <= kHighestTableClock &&
                          std::abs(*clock - std::round(*clock)) <= kWholeClock;
    const bool is_time = seconds && *seconds >= 0 && *seconds <= kLongestTableLatency;
    if (!is_clock) {
      diagnostics_.add(row.line, frequency.column,
                       "frequency: expected whole MHz from 1 to " +
                           std::to_string(kHighestTableClock) + ", found " +
                           in_quotes(frequency.text));
    }
    if (!is_time) {
      diagnostics_.add(row.line, latency.column,
                       "latency: expected seconds from 0 to " + shortest(kLongestTableLatency) +
                           ", found " + in_quotes(latency.text));
    }
    if (!is_clock || !is_time) return;
    const Seconds most{*seconds + 0.0};
    const std::optional<Seconds> least = read_least(row, most);
    const Megahertz of{static_cast<int>(std::lround(*clock))};
    const auto [known, is_new] = line_of_.try_emplace(of, row.line);
    if (!is_new) {
      return diagnostics_.add(row.line, frequency.column,
                              "frequency: " + std::to_string(of.value) +
                                  " MHz is already in line " + std::to_string(known->second));
    }
    entries_.push_back({of, most, least});
  }

  std::optional<Seconds> read_least(const CsvRow& row, Seconds most) {
    if (!least_ || trim(row.cells[*least_].text).empty()) return std::nullopt;
    const CsvCell& cell = row.cells[*least_];
    const std::optional<double> seconds = parse_number(cell.text);
    if (seconds && *seconds > 0 && *seconds <= most.value) return Seconds{*seconds};
    diagnostics_.add(row.line, cell.column,
                     "least_latency: expected more than 0 s, and at most the latency, " +
                         shortest(most.value) + " s, found " + in_quotes(cell.text));
    return std::nullopt;
  }

  Diagnostics diagnostics_;
  std::optional<std::size_t> frequency_, latency_, least_;  // columns
  std::map<Megahertz, int> line_of_;
  std::vector<LatencyByClock::Entry> entries_;
};

}  // namespace

Result<LatencyByClock> parse_latency_table(std::string_view text, const std::string& file) {
  return LatencyTableReader(file).read(text);
}

std::string latency_table_csv(const LatencyByClock& latency) {
  const auto is_known = [](const LatencyByClock::Entry& entry) { return entry.least.has_value(); };
  const bool has_least = std::ranges::any_of(latency.entries(), is_known);
  std::string text = has_least ? "frequency,latency,least_latency\n" : "frequency,latency\n";
  for (const LatencyByClock::Entry& entry : latency.entries()) {
    text += std::to_string(entry.clock.value) + "," + shortest(entry.latency.value);
    if (has_least) text += "," + (entry.least ? shortest(entry.least->value) : std::string());
    text += '\n';
  }
  return text;
}

std::filesystem::path latency_table_of(const std::filesystem::path& profile) {
  return std::filesystem::path(profile).replace_extension(".latency.csv");
}

}  // namespace harpe::plan
