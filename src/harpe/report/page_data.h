#pragma once
/// \file
/// The input of a report as the compact JSON that its page draws from.
///
/// Plans of one frontier differ in clocks and starts alone, so that everything else is kept once:
///
///   shapes   kinds, chunks, micro-batches of the instructions of each stage, and the transfers
///   modes    per stage, the distinct [MHz, seconds, joules] of its instructions in any plan, most
///            used first
///   a plan   per stage one string: for each instruction the index of its mode and the idle ticks
///            before it, as numbers of 5 bits a character, least significant first, 32 added to all
///            characters of a number but its last; characters are A-Z a-z 0-9 - _ for 0 to 63.
///
/// A tick is a power of ten seconds, 10^7 to 10^8 of them in the longest iteration. An instruction
/// starts at the tick its start lies in and lasts floor(time / tick) of them, so that rounding
/// never accumulates.

#include <cstdint>
#include <string>
#include <vector>

#include "harpe/report/report.h"

namespace harpe::report {

/// Appends `number` in the characters described above.
void append_number(std::string& text, std::uint64_t number);

/// Indices of the points whose plans the page can draw, rising: all, or if they have too many
/// instructions together, evenly many of them with the first, the last and the chosen one.
std::vector<std::size_t> drawn_points(const ReportInput& input);

/// The JSON document, safe inside `<script>`.
std::string page_data(const ReportInput& input);

}  // namespace harpe::report
