#pragma once
/// \file
/// Lists of actions in PyTorch's notation, each action with its position in the file.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/schedule/check.h"

namespace harpe::plan {

/// The cell of one action; an empty text is an idle slot.
struct ActionCell {
  std::string text;
  Location location;
};

/// The list of one stage.
struct ActionRow {
  Location location;
  std::vector<ActionCell> cells;
};

/// Returns true if `text` has lists of actions as Python prints them. No CSV and no schedule in
/// JSON begins this way: JSON has objects in its lists, and strings as keys.
bool is_printed_lists(std::string_view text);

/// Splits such lists (see `parse_printed_lists` in schedule.h for their format). Diagnostics: the
/// first place with another syntax; the text after it is not read.
std::vector<ActionRow> split_printed_lists(std::string_view text, Diagnostics& diagnostics);

}  // namespace harpe::plan
