#include "harpe/profile/profile_columns.h"

#include <algorithm>
#include <optional>
#include <string>

#include "harpe/base/text.h"

namespace harpe {
namespace {

std::string list_of(const CsvRow& header) {
  constexpr std::size_t kShown = 12;
  std::string list;
  for (std::size_t i = 0; i < std::min(header.cells.size(), kShown); ++i) {
    if (i > 0) list += ", ";
    list += in_quotes(header.cells[i].text);
  }
  return header.cells.size() > kShown ? list + ", ..." : list;
}

}  // namespace

ProfileColumns::ProfileColumns(const CsvRow& header, Diagnostics& diagnostics) : where_{} {
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

void ProfileColumns::report_missing(const CsvRow& header, const std::vector<CsvCell>& unknown,
                                    Diagnostics& diagnostics) const {
  std::vector<std::string> names;
  names.reserve(unknown.size());
  for (const CsvCell& cell : unknown) names.push_back(cell.text);
  for (std::size_t i = 0; i < kRequiredProfileColumns; ++i) {
    if (where_[i] != kAbsent) continue;
    std::string message = "column '" + std::string(kProfileColumnNames[i]) + "' is missing";
    int column = 1;
    if (const auto meant = nearest(kProfileColumnNames[i], names)) {
      message += "; is " + in_quotes(*meant) + " meant?";
      column = std::find_if(unknown.begin(), unknown.end(), [&](const CsvCell& cell) {
                 return cell.text == *meant;
               })->column;
    }
    diagnostics.add(header.line, column, message + " (found: " + list_of(header) + ")");
  }
}

// A column that nothing needs is left alone, unless it looks like an optional one: ignoring a
// misspelt `rank` would mix measurements.
void ProfileColumns::report_misspelt(const CsvRow& header, const std::vector<CsvCell>& unknown,
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

}  // namespace harpe
