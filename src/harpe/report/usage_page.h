#pragma once
/// \file
/// One page on what jobs used and emitted over time: two charts of bars, stacked by job, with the
/// sum above each bar where there are few of them, a table, and the statement of how the numbers
/// were made. It opens offline, names no other resource and has no scripts; it follows the reader's
/// light or dark theme. Same input, same bytes; all text of the input is escaped.

#include <string>
#include <vector>

#include "harpe/report/report.h"

namespace harpe::report {

/// One job, or whatever rows are of, over time.
struct UsageSeries {
  std::string name = {};
  std::vector<double> energy = {};  ///< in each interval
  std::vector<double> mass = {};    ///< of CO2eq, in each interval; may be negative
  std::vector<double> paused = {};  ///< share of each interval, 0 to 1; empty: never
};

/// A picture of a page, and a list of sentences.
struct PageFigure {
  std::string heading = {}, markup = {}, caption = {};  ///< `markup` is not escaped
};
struct PageSection {
  std::string heading = {};
  std::vector<std::string> lines = {};
};

struct UsagePageInput {
  std::string title = {}, subtitle = {};
  std::string headline = {}, explanation = {};
  std::vector<std::string> warnings = {};  ///< shown above all numbers
  std::string doubt = {};  ///< in the caption of each chart: "Simulated GPUs, not real ones."
  std::vector<std::string> intervals = {};  ///< when each begins, "2026-11-25 03:00"
  std::string interval_length = {};         ///< "1 h"
  std::string energy_unit = "kWh", mass_unit = "g";
  std::vector<UsageSeries> series = {};  ///< largest first; at most 8 are told apart
  std::vector<bool> gaps = {};           ///< of each interval: some energy has no intensity
  std::vector<std::vector<std::string>> table = {};  ///< headings first
  bool has_total = false;                            ///< the last row is the sum
  std::string table_heading = "Table";
  std::vector<PageFigure> figures = {};  ///< above the table
  std::vector<std::string> method = {};
  std::vector<PageSection> sections = {};  ///< below the table; with them `method` may be empty
  PageSource source = {};
};

std::string usage_page(const UsagePageInput& input);

}  // namespace harpe::report
