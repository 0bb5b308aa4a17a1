#pragma once
/// \file
/// Puts the calls of training together into iterations, and iterations into reports for the server.

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/device/measure/energy_estimator.h"
#include "harpe/device/measure/energy_monitor.h"
#include "harpe/training/client/rank_event.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::training {

/// One instruction as it ran.
struct TimedInstruction {
  InstructionKind kind = InstructionKind::kForward;
  int chunk = 0;
  TimeSpan span;
  Megahertz clock{};  ///< that it was asked to run at; `WantedClock::kAsItIs`: none was
};

/// One iteration of this rank: from its begin to the begin of the next.
struct IterationRecord {
  std::int64_t iteration = 0;
  std::uint64_t version = 0;  ///< of the assignments that held when it began; 0: none
  TimeSpan span;
  std::vector<TimedInstruction> instructions;
  /// Something was lost on the way, or instructions overlapped: not to be reported.
  bool damaged = false;
};

/// Not thread-safe.
class IterationLog {
 public:
  /// \param lost  events that the ring has lost so far
  /// Returns the iteration that this event ended, if any.
  std::optional<IterationRecord> add(const RankEvent& event, std::uint64_t lost);
  /// Ends the running iteration where its instructions ended: training is over.
  std::optional<IterationRecord> finish();

  /// Puts times that were measured on the device in place of those of the calls, an instruction
  /// each in their order. False, and unchanged, where their number differs, or one ends before it
  /// begins.
  static bool replace_times(IterationRecord& record, std::span<const TimeSpan> device);

 private:
  std::optional<IterationRecord> close(Instant at);

  std::optional<IterationRecord> running_;
  bool in_instruction_ = false;
  std::optional<Instant> ended_;  ///< where training said so
  std::uint64_t lost_ = 0;
};

/// Energy of many spans of time, in their order; an estimate without a source where unknown.
using SpanEnergies = std::function<std::vector<EnergyEstimate>(std::span<const TimeSpan> spans)>;

/// The report of an iteration without its `session`. The iteration is one more span behind those of
/// its instructions. Errors of spans are added as independent ones.
IterationReport make_report(const IterationRecord& record, RankCoordinates coordinates,
                            const SpanEnergies& energies);

}  // namespace harpe::training
