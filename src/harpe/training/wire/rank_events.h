#pragma once
/// \file
/// What ranks report to their job, and what it assigns them.

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

/// A rank announces itself. The same again is harmless.
struct RankRegistration {
  RankCoordinates coordinates;
  /// Chosen at random by the process: tells a retry from a second process that claims the place.
  std::string session;
  /// The start of training that this process belongs to, the same on all its ranks. May be empty.
  std::string run;
  std::string gpu;                ///< its name, such as "NVIDIA A40"; for people
  std::vector<Megahertz> clocks;  ///< that the GPU may be locked to, in any order
  bool simulated = false;         ///< the GPU: its times and energies are of no real one
  Watts power_limit{};            ///< of the GPU; 0: not said
  /// `Job::specification` of the job that it trains; empty: of the one there is.
  std::string specification = {};
  /// Where this process has held a place before: in which life of the job, and in which start of
  /// training, counted from 1; 0: it has held none.
  std::string incarnation = {};
  std::uint64_t start = 0;
  /// It need not wait for others of its start; whether it may say so is for the caller to check.
  bool take_over = false;
  /// Its program asks for clocks ahead of their instructions, by the `switch_latency` of the job:
  /// see instruction/asking_ahead.h.
  bool asks_ahead = false;
  /// `PauseRequest::number` of the pause in which this rank waits; 0: it does not.
  std::uint64_t pausing = 0;
};

/// A rank says that its training has ended as it should.
struct RankEnd {
  RankCoordinates coordinates;
  std::string session;  ///< that holds the place
};

/// All instructions of one kind on one chunk in one iteration of one rank.
struct InstructionTotals {
  InstructionKind kind = InstructionKind::kForward;
  int chunk = 0;
  int count = 0;
  Seconds time{};         ///< sum, without waiting
  Joules energy{};        ///< sum; NaN where it was not measured
  Joules energy_error{};  ///< half-width of the sum's 95 % interval
};

/// One iteration of one rank.
struct IterationReport {
  static constexpr std::size_t kLongestRefusal = 256;
  RankCoordinates coordinates;
  std::string session;
  std::string incarnation = {};  ///< the life of the job in which it registered; empty: not said
  std::uint64_t epoch = 0;       ///< of the newest assignments that the rank has; 0: not said
  std::int64_t iteration = 0;    ///< counted from 0 at the start of training, alike on all ranks
  std::uint64_t version =
      0;  ///< of the assignments that held during the whole iteration; 0: none did
  std::uint64_t known = 0;  ///< the newest assignments that the rank has
  /// The newest iteration that training had come to when this was sent. Before a later one it looks
  /// whether to pause by what is `known`, or waits because it has. -1: not said.
  std::int64_t reached = -1;
  Seconds time{};          ///< from its start to the start of the next
  Joules energy{};         ///< of this rank's GPU; NaN where it was not measured
  Joules energy_error{};   ///< half-width of its 95 % interval
  bool throttled = false;  ///< the GPU was held back below the clock asked for
  /// Median of the graphics clocks read during the computations; 0: not known. Reported only if the
  /// assignment leaves the clock as it is.
  Megahertz clock{};
  std::vector<InstructionTotals> instructions;
  /// Why the rank does not do what the newest assignments say, for people; empty: it does, or does
  /// not know.
  std::string refusal = {};
};

/// Training is asked to pause: before the first iteration that runs by an assignment with this, all
/// ranks write what they want to keep, and wait until the newest assignment asks for no pause, or
/// for one with another number. Training that does not is no worse off than without Harpe.
struct PauseRequest {
  static constexpr std::size_t kLongestWhy = 128;
  std::uint64_t number = 0;  ///< rises with every pause of the job; each is followed at most once
  std::optional<Seconds> until = {};  ///< since 1970: when it should end
  std::string why = {};               ///< for people
  friend bool operator==(const PauseRequest&, const PauseRequest&) = default;
};

/// Clocks for one stage of one pipeline.
struct StageAssignment {
  enum class Purpose : unsigned char {
    kAllMax,   ///< the highest clock throughout
    kProfile,  ///< one clock throughout, to be measured
    kPlan,     ///< one clock an instruction
  };
  std::uint64_t version = 0;        ///< rises with every change of the job
  std::uint64_t epoch = 0;          ///< of the server's claim of the job, as it is handed out
  std::int64_t from_iteration = 0;  ///< the first that runs by it, the same on all ranks
  Purpose purpose = Purpose::kAllMax;
  /// One entry for all instructions, or one each in the order of the stage's list; 0 MHz: as it is.
  std::vector<Megahertz> clocks;
  /// What else is set, of each of `clocks`; empty where nothing is.
  std::vector<Knobs> knobs = {};
  std::optional<PauseRequest> pause = {};  ///< the clocks are for training that goes on anyway
};

/// "all_max", "profile" or "plan".
const char* name_of(StageAssignment::Purpose purpose);

}  // namespace harpe::training
