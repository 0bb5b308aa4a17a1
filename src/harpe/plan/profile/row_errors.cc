#include "harpe/plan/profile/row_errors.h"

#include <algorithm>
#include <utility>

namespace harpe {
namespace {

constexpr std::size_t kEach = 3;         // rows of one cause that are reported each
constexpr std::size_t kMostCauses = 64;  // more than a report holds

/// The message without its numbers.
std::string cause_of(std::string message) {
  std::erase_if(message, [](char c) { return (c >= '0' && c <= '9') || c == '.' || c == '-'; });
  return message;
}

}  // namespace

void RowErrors::add(int line, int column, std::string message) {
  const std::string name = cause_of(message);
  if (causes_.size() >= kMostCauses && !causes_.contains(name)) {
    ++more_;
    return;
  }
  Cause& cause = causes_[name];
  const std::size_t number = added_++;
  if (cause.count++ >= kEach) return;
  cause.first.push_back(
      {.number = number, .error = {.line = line, .column = column, .message = std::move(message)}});
}

void RowErrors::report(Diagnostics& diagnostics) const {
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
  // Diagnostics count errors beyond those that they show.
  for (std::size_t i = 0; i < more_; ++i) diagnostics.add("another error");
}

}  // namespace harpe
