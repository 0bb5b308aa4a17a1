#pragma once
/// \file
/// The phases of a job, each with what belongs to it alone and goes with it. Only for the job's
/// `.cc` files; others know a phase by its name, `JobPhase`.

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/training/job/observation.h"
#include "harpe/training/job/observed_saving.h"
#include "harpe/training/job/profiler.h"
#include "harpe/training/job/straggler_detector.h"

namespace harpe::training {

/// Ranks are awaited: the first ones, or those of training that has started again.
struct Registering {
  std::optional<Profiler::Kept> interrupted = {};  ///< profiling to go on with once all are there
  bool missing_logged = false;
};

/// What instructions cost is measured.
struct Profiling {
  Profiler profiler;
  /// Since when a stage reports no energy, without which nothing can be planned.
  std::optional<Seconds> no_energy_since = {};
  bool no_energy_logged = false;
};

/// The first plans from a profile are being made, while all GPUs run at all-max.
struct Characterizing {};

/// Some iterations at all-max amid a plan, to see what the machines do without it.
struct Probe {
  std::uint64_t version = 0;  ///< of the assignments for it; those after it bring the plan back
  std::int64_t until = 0;     ///< iteration from which the plan holds again
  bool alarmed = false;       ///< the promise seems broken; else it was due
  Seconds allowed{};          ///< for an iteration, before
  std::size_t compared = 0;   ///< newest iterations by the plan that it is compared with
  /// Of its iterations but the first, in seconds: what they took, and `late_at_all_max`.
  std::vector<double> times, late;
};

/// Slow stages run at all-max until it is known what they can do there.
struct SettlingStages {
  std::int64_t from = 0;           ///< iteration
  std::vector<SlowStage> doubted;  ///< that may be slow, or faster, by their plan alone
};

/// Training by plans; at all-max where none could be made.
struct Running {
  bool straggling = false;  ///< by the newest choice of plans
  /// Neither is begun during the other.
  std::variant<std::monostate, Probe, SettlingStages> look = {};
};

/// Training is measured as it is, and nothing is set.
struct Observing {
  Observation observation;
  std::int64_t estimate_at = 10;  ///< iterations observed from which the next estimate is made
  /// Tickets of the searches for the estimate, one for each assumption; 0: none is running.
  std::array<std::uint64_t, kAssumptions.size()> tickets{};
  std::array<double, kAssumptions.size()> savings{};  ///< fractions
  std::string basis = {};                             ///< of the estimate that is being made
  EstimatedSaving estimate = {};
};

using Phase = std::variant<Registering, Profiling, Characterizing, Running, Observing>;

/// A profile that was made slower or faster on a stage.
struct Rescaling {
  std::int64_t iteration = 0;
  int stage = 0;
  bool slower = false;
};

/// A stage, of one pipeline or of all, that was found to be slow or faster.
struct Finding {
  std::int64_t iteration = 0;
  int stage = 0;
  std::optional<int> pipeline;
  bool faster = false;
};

}  // namespace harpe::training
