#pragma once
/// \file
/// The assembly of training's calls into iterations, and of iterations into reports for the server.

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
  Megahertz clock{};  ///< requested for it; `WantedClock::kAsItIs` if none was
};

/// One iteration of this rank: from its begin to the begin of the next, or to a pause.
struct IterationRecord {
  std::int64_t iteration = 0;
  std::uint64_t version = 0;  ///< of the assignment in force when it began; 0 if none
  TimeSpan span;
  std::vector<TimedInstruction> instructions;
  /// True if events were lost or instructions overlapped. The iteration is then not reported.
  bool damaged = false;
};

/// Not thread-safe.
class IterationLog {
 public:
  /// Adds an event. Returns the iteration that it ends, if any.
  /// \param lost  number of events that the ring has lost so far
  std::optional<IterationRecord> add(const RankEvent& event, std::uint64_t lost);
  /// Ends the running iteration when training is over: at its reported end, or at the end of its
  /// last instruction.
  std::optional<IterationRecord> finish();

  /// Replaces the times of the calls by those measured on the device, one for each instruction in
  /// order. Returns false and changes nothing if their number differs or one ends before it begins.
  static bool replace_times(IterationRecord& record, std::span<const TimeSpan> device);

 private:
  std::optional<IterationRecord> close(Instant at);

  std::optional<IterationRecord> running_;
  bool in_instruction_ = false;
  std::optional<Instant> ended_;  ///< end of the iteration, if training reported it
  std::uint64_t lost_ = 0;
};

/// Returns the energies of spans of time, in their order; an estimate without a source if unknown.
using SpanEnergies = std::function<std::vector<EnergyEstimate>(std::span<const TimeSpan> spans)>;

/// Returns the report of an iteration without its `session`. `energies` receives the spans of
/// the instructions and, last, the span of the iteration. Their errors are taken as independent.
IterationReport make_report(const IterationRecord& record, RankCoordinates coordinates,
                            const SpanEnergies& energies);

}  // namespace harpe::training
