// Any text that is split without an error can be written, and splits into the same cells again.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "harpe/base/csv.h"

namespace {

std::string write(const std::vector<harpe::CsvRow>& rows) {
  std::string text;
  for (const harpe::CsvRow& row : rows) {
    bool first = true;
    for (const harpe::CsvCell& cell : row.cells) {
      if (!first) text += ',';
      first = false;
      text += '"';
      for (const char c : cell.text) text += c == '"' ? std::string("\"\"") : std::string(1, c);
      text += '"';
    }
    text += '\n';
  }
  return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  for (const bool keep_empty_lines : {false, true}) {
    harpe::Diagnostics diagnostics;
    const auto rows = harpe::split_csv(text, diagnostics, keep_empty_lines);
    if (!diagnostics.empty()) continue;
    const auto again = harpe::split_csv(write(rows), diagnostics, keep_empty_lines);
    if (!diagnostics.empty() || again.size() != rows.size()) std::abort();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (again[i].cells.size() != rows[i].cells.size()) std::abort();
      for (std::size_t j = 0; j < rows[i].cells.size(); ++j) {
        if (again[i].cells[j].text != rows[i].cells[j].text) std::abort();
      }
    }
  }
  return 0;
}
