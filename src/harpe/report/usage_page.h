#pragma once
/// \file
/// A page about what jobs used and emitted over time: two bar charts, stacked by job, with the sum
/// above each bar if there are few bars, a table, and a description of how the numbers were
/// computed. Works offline, links to no other resource and has no scripts; follows the reader's
/// light or dark theme. The same input gives the same bytes; all text of the input is escaped.

#include <string>
#include <vector>

#include "harpe/report/report.h"

namespace harpe::report {

/// The values of one job, or other subject of a row, over time.
struct UsageSeries {
  std::string name = {};
  std::vector<double> energy = {};  ///< of each interval
  std::vector<double> mass = {};    ///< CO2eq of each interval; may be negative
  std::vector<double> paused = {};  ///< paused share of each interval, 0 to 1; empty if none
};

/// A picture of the page, and a section of sentences.
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
  std::string doubt = {};  ///< added to the caption of each chart: "Simulated GPUs, not real ones."
  std::vector<std::string> intervals = {};  ///< start of each interval, "2026-11-25 03:00"
  std::string interval_length = {};         ///< "1 h"
  std::string energy_unit = "kWh", mass_unit = "g";
  std::vector<UsageSeries> series = {};  ///< largest first; the 8th and later share a colour
  std::vector<bool> gaps = {};           ///< of each interval: true if some energy has no intensity
  std::vector<std::vector<std::string>> table = {};  ///< first row: headings
  bool has_total = false;                            ///< true if the last row is the sum
  std::string table_heading = "Table";
  std::vector<PageFigure> figures = {};  ///< above the table
  std::vector<std::string> method = {};
  std::vector<PageSection> sections = {};  ///< below the table; with them `method` may be empty
  PageSource source = {};
};

std::string usage_page(const UsagePageInput& input);

}  // namespace harpe::report
