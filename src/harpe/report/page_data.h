#pragma once
/// \file
/// The data of a report's page: the input of the report as compact JSON.
///
/// Plans of one frontier differ only in settings and starts; everything else is stored once:
///
///   shapes   kinds, chunks, micro-batches of the instructions of each stage, and the transfers
///   modes    per stage, the distinct [MHz, seconds, joules, knobs (if any)] of its instructions in
///            any plan, most used first
///   a plan   per stage one string: for each instruction the index of its mode and the idle ticks
///            before it, as numbers of 5 bits per character, least significant first, 32 added to
///            all characters of a number but its last; characters are A-Z a-z 0-9 - _ for 0 to 63.
///
/// A tick is a power of ten seconds; the longest iteration has 10^7 to 10^8 ticks. An instruction
/// starts at the tick that contains its start and lasts floor(time / tick) ticks, so that rounding
/// errors do not accumulate.

#include <cstdint>
#include <string>
#include <vector>

#include "harpe/report/report.h"

namespace harpe::report {

/// Appends `number` in the encoding described above.
void append_number(std::string& text, std::uint64_t number);

/// Returns the indices of the points whose plans the page can draw, rising: all points or, if their
/// plans have too many instructions together, evenly spaced ones with the first, the last
/// and the chosen point.
std::vector<std::size_t> drawn_points(const ReportInput& input);

/// Returns the JSON document, safe inside `<script>`.
std::string page_data(const ReportInput& input);

}  // namespace harpe::report
