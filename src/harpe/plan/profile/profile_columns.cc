#include "harpe/plan/profile/profile_columns.h"

#include <algorithm>
#include <array>
#include <optional>
#include <string>

#include "harpe/base/text.h"

namespace harpe::plan {
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

/// Whether a column of that name most likely holds what the required one does.
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

/// What a required column is measured in, where its name says another unit.
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

}  // namespace harpe::plan
