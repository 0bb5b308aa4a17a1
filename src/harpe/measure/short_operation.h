#pragma once
/// \file
/// What an operation of milliseconds costs at each clock, on counters that step every 100 ms.
///
/// The protocol. The operation is repeated in batches of at least ten counter steps; a batch starts
/// at a random phase of the counter. Clocks take turns in random order, so that drift (heat, other
/// load) falls on all of them. Before each batch the GPU rests, the clock is locked, and the
/// operation runs for a share of the batch that is not counted, and on beyond its end. A batch in
/// which the GPU was held back, or whose clock is not the locked one at either end, is thrown away.
/// Batches are the samples: their spread holds what quantisation, noise and drift do, and Student's
/// t turns it into a 95 % interval. A clock is done when its interval is as narrow as wanted.
///
/// After: "Part-time power measurements" (arXiv 2312.02741), which repeats and shifts the phase.

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/hw/device.h"

namespace harpe {

/// When a run of the operation began and ended on the GPU.
struct OperationSpan {
  Instant begin, end;
};
/// Runs the operation so many times in a row and waits for the last to end.
using RunOperation = std::function<Result<OperationSpan>(int count)>;

struct ShortOperationOptions {
  std::vector<Megahertz> clocks;  ///< to be locked; empty: the clock is left as it is
  double target = 0.01;           ///< half-width wanted of the energy's interval, relative
  Seconds budget{300};            ///< ends even if not all targets are met
  Seconds batch{2};
  Seconds rest{0.5};          ///< between batches, for the temperature to settle
  double warm_up = 0.1;       ///< share of a batch that runs first and is not counted
  int least_batches = 6;      ///< of each clock
  int most_discarded = 5;     ///< in a row, before a clock is given up
  Seconds poll{0.02};         ///< between looks at the sensors, between operations
  Seconds counter_step{0.1};  ///< of the energy counter
  bool force = false;         ///< allows batches under ten counter steps
  std::uint64_t seed = 1;
};

/// Result at one clock. Errors are half-widths of 95 % intervals.
struct OperationCost {
  Megahertz clock;  ///< 0: not locked
  Seconds time, time_error;
  Joules energy, energy_error;
  int batches = 0, operations = 0;
  int discarded = 0;       ///< batches
  EventReasons held_back;  ///< what was seen in discarded batches
  bool done = false;       ///< the target was met
  std::string remark;      ///< why it was given up; empty: it was not
};

struct ShortOperationResult {
  std::vector<OperationCost> costs;  ///< in the order of the clocks
  Seconds spent;
  bool within_budget = true;
};

/// Locks and unlocks clocks of `gpu`; restores the lock that was there, if the driver tells it.
/// Fails on options out of range, where clocks may not be set, and on faults of the device or the
/// operation. Nobody else may use the device meanwhile.
Result<ShortOperationResult> measure_short_operation(Gpu& gpu, const RunOperation& operation,
                                                     const ShortOperationOptions& options,
                                                     Clock& clock);

/// Puts the clocks of a GPU back when it goes away: to the lock that the driver told, or to none.
class ClockRestorer {
 public:
  explicit ClockRestorer(Gpu& gpu);
  ~ClockRestorer() { (void)restore(); }
  ClockRestorer(const ClockRestorer&) = delete;
  ClockRestorer& operator=(const ClockRestorer&) = delete;

  /// Now; nothing to do later.
  Status restore();
  /// Whether the lock before was known; otherwise it is removed.
  bool knows_before() const { return knows_before_; }

 private:
  Gpu* gpu_;
  std::optional<ClockRange> before_;
  bool knows_before_ = false;
  bool restored_ = false;
};

}  // namespace harpe
