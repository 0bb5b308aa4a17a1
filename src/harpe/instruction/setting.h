#pragma once
/// \file
/// All that an instruction runs with: a graphics clock and the knobs beside it.
///
///   const harpe::InstructionSetting setting{.clock = {1410}, .knobs = {.power_limit = {250}}};
///   std::puts(harpe::text_of(setting).c_str());  // 1410 MHz, 250 W

#include <compare>
#include <string>

#include "harpe/base/units.h"
#include "harpe/instruction/knobs.h"

namespace harpe {

/// Ordered by clock, at one clock by knobs.
struct InstructionSetting {
  Megahertz clock = {};
  Knobs knobs = {};
  friend constexpr bool operator==(const InstructionSetting&, const InstructionSetting&) = default;
  friend constexpr auto operator<=>(const InstructionSetting&, const InstructionSetting&) = default;
};

/// For people: "memory 1215 MHz, 250 W, sm12", what is not given left out.
std::string text_of(const Knobs& knobs);
/// For people: "1410 MHz, memory 1215 MHz, 250 W, sm12".
std::string text_of(const InstructionSetting& setting);

}  // namespace harpe
