#pragma once
/// \file
/// Plan files of Zeus and Perseus, `freqs_pipeline_%05d.py`, read as data. `zeus_plan` (plan.h)
/// writes them.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

/// The clock of one instruction; `name` is empty where the file gives clocks alone.
struct ZeusInstruction {
  std::string name;
  Megahertz clock;  ///< 0: keep the clock
  friend bool operator==(const ZeusInstruction&, const ZeusInstruction&) = default;
};

/// Reads one Python literal, a list of stages, each a list of `('forward', 1740)` or of `1740`.
/// Lists and tuples, both kinds of quotes, trailing commas and comments are accepted; nothing is
/// ever executed. The first error of syntax, or else all errors of content, with line and column.
/// Time and memory O(text).
Result<std::vector<std::vector<ZeusInstruction>>> parse_zeus_plan(std::string_view text,
                                                                  const std::string& file);

}  // namespace harpe
