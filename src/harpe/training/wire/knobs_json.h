#pragma once
/// \file
/// Knobs of an assignment as JSON both ways: each distinct setting once, and which one each
/// instruction has. Private to the room.

#include <cstddef>
#include <string>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/plan/instruction/knobs.h"

namespace harpe {

/// The members "knobs" and "knobs_of": one for each of `clocks`, or empty where none sets anything.
std::vector<Knobs> read_knobs(Fields& fields, Diagnostics& diagnostics, std::size_t clocks);

/// `,"knobs":[...],"knobs_of":[...]`; nothing where there are none.
void append_knobs(std::string& text, const std::vector<Knobs>& knobs);

}  // namespace harpe
