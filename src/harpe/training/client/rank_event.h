#pragma once
/// \file
/// What training reports on its way.

#include <cstddef>
#include <cstdint>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/training/client/spsc_queue.h"

namespace harpe {

struct RankEvent {
  enum class Kind : std::uint8_t {
    kIterationBegin,  ///< `number`: the iteration; `version`: of the assignments that hold in it
    kIterationEnd,
    kInstructionBegin,  ///< `number`: position in the stage's list, -1 where it is not in it
    kInstructionEnd,
    kPause,  ///< no iteration runs until the next begins
  };
  Instant at{};
  std::int64_t number = 0;
  std::uint64_t version = 0;
  Megahertz clock{}, next_clock{};  ///< of an instruction that begins, and of the one after it
  std::uint32_t step = 0;           ///< of `WantedClock`, likewise
  Kind kind = Kind::kIterationBegin;
  InstructionKind instruction = InstructionKind::kForward;
  std::uint16_t chunk = 0;
};

/// From training's thread to the pacer's.
using RankEventQueue = SpscQueue<RankEvent, std::size_t{1} << 14>;

}  // namespace harpe
