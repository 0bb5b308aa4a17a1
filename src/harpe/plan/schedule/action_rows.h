#pragma once
/// \file
/// Lists of actions in PyTorch's notation, each action with its place in the file.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/schedule/check.h"

namespace harpe::plan {

/// Where one action should be; an empty text is an idle slot.
struct ActionCell {
  std::string text;
  Location location;
};

/// The list of one stage.
struct ActionRow {
  Location location;
  std::vector<ActionCell> cells;
};

/// Whether `text` is lists of actions as Python prints them, which no CSV and no schedule in JSON
/// begins like: JSON has objects in its lists, and strings as keys.
bool is_printed_lists(std::string_view text);

/// Splits such lists (`parse_printed_lists` in schedule.h says what they look like). Diagnostics:
/// the first place that is not as Python prints it, after which nothing is read.
std::vector<ActionRow> split_printed_lists(std::string_view text, Diagnostics& diagnostics);

}  // namespace harpe::plan
