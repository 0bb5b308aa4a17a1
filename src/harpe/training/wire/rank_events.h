#pragma once
/// \file
/// Messages between the ranks of a job and its server: registrations, reports and assignments.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/plan/instruction/knobs.h"
#include "harpe/training/wire/job_shape.h"

namespace harpe::training {

/// The registration of a rank. Repeating it is harmless.
struct RankRegistration {
  RankCoordinates coordinates;
  /// Chosen at random by the process; separates a retry from another process that claims the place.
  std::string session;
  /// The start of training of this process, the same on all ranks of that start. May be empty.
  std::string run;
  std::string gpu;                ///< name of the GPU, such as "NVIDIA A40"
  std::vector<Megahertz> clocks;  ///< clocks to which the GPU can be locked, in any order
  bool simulated = false;         ///< true if the GPU is simulated
  Watts power_limit{};            ///< of the GPU; 0 if not known
  /// `Job::specification` of the job that the rank trains. Empty: the job's present one.
  std::string specification = {};
  /// Life of the job, and start of training counted from 1, in which this process last held a
  /// place; empty and 0 if it never has.
  std::string incarnation = {};
  std::uint64_t start = 0;
  /// True if the rank need not wait for others of its start. The caller checks if this is allowed.
  bool take_over = false;
  /// True if the rank's program requests clocks ahead of their instructions, by the job's
  /// `switch_latency`: see instruction/asking_ahead.h.
  bool asks_ahead = false;
  /// `PauseRequest::number` of the pause in which this rank waits; 0 if it does not wait.
  std::uint64_t pausing = 0;
};

/// The end of a rank whose training has ended in order.
struct RankEnd {
  RankCoordinates coordinates;
  std::string session;  ///< session that holds the place
};

/// All instructions of one kind on one chunk in one iteration of one rank.
struct InstructionTotals {
  InstructionKind kind = InstructionKind::kForward;
  int chunk = 0;
  int count = 0;
  Seconds time{};         ///< sum, without waiting
  Joules energy{};        ///< sum; NaN if not measured
  Joules energy_error{};  ///< half-width of the sum's 95 % interval
};

/// One iteration of one rank.
struct IterationReport {
  static constexpr std::size_t kLongestRefusal = 256;
  RankCoordinates coordinates;
  std::string session;
  std::string incarnation = {};  ///< life of the job in which it registered; empty if not stated
  std::uint64_t epoch = 0;       ///< of the newest assignments that the rank has; 0 if not stated
  std::int64_t iteration = 0;    ///< counted from 0 at the start of training, same on all ranks
  std::uint64_t version = 0;  ///< of the assignments in force throughout the iteration; 0 if none
  std::uint64_t known = 0;    ///< version of the newest assignments that the rank has
  /// Newest iteration that training had reached when the report was sent; -1 if not stated. Before
  /// later iterations it checks for a pause by the assignments in `known`, or already waits.
  std::int64_t reached = -1;
  Seconds time{};          ///< from its start to the start of the next
  Joules energy{};         ///< of this rank's GPU; NaN if not measured
  Joules energy_error{};   ///< half-width of its 95 % interval
  bool throttled = false;  ///< true if the GPU was held below the requested clock
  /// Median of the graphics clocks read during the computations; 0 if not known. Reported only if
  /// the assignment leaves the clock unchanged.
  Megahertz clock{};
  std::vector<InstructionTotals> instructions;
  /// Reason, for display, why the rank does not run by the newest assignments; empty if it does, or
  /// if the reason is not known.
  std::string refusal = {};
};

/// A request that training pauses. Before the first iteration by an assignment with this request,
/// all ranks save their state, and wait until the newest assignment has no pause or one with
/// another number. Training that ignores it is no worse off than without Harpe.
struct PauseRequest {
  static constexpr std::size_t kLongestWhy = 128;
  std::uint64_t number = 0;  ///< rises with every pause of the job; each is followed at most once
  std::optional<Seconds> until = {};  ///< expected end, since 1970; nullopt if not known
  std::string why = {};               ///< reason, for display
  friend bool operator==(const PauseRequest&, const PauseRequest&) = default;
};

/// Clocks for one stage of one pipeline.
struct StageAssignment {
  enum class Purpose : unsigned char {
    kAllMax,   ///< the highest clock throughout
    kProfile,  ///< one clock throughout, to be measured
    kPlan,     ///< one clock for each instruction
  };
  std::uint64_t version = 0;        ///< rises with every change of the job
  std::uint64_t epoch = 0;          ///< of the server's claim of the job when it was sent
  std::int64_t from_iteration = 0;  ///< first iteration that runs by it, the same on all ranks
  Purpose purpose = Purpose::kAllMax;
  /// One entry for all instructions, or one for each in the order of the stage's list. 0 MHz leaves
  /// the clock unchanged.
  std::vector<Megahertz> clocks;
  /// Other settings, one for each of `clocks`; empty if there are none.
  std::vector<Knobs> knobs = {};
  std::optional<PauseRequest> pause = {};  ///< the clocks are for training that ignores it
};

/// Returns "all_max", "profile" or "plan".
const char* name_of(StageAssignment::Purpose purpose);

}  // namespace harpe::training
