#pragma once
/// \file
/// The parts by which a profile prices the instructions of a schedule, so that an iteration does
/// the same work under every schedule.
///
/// `backward` rows are the whole backward pass. They are only the input gradient if the schedule
/// splits backwards or the profile has `weight` rows for any stage of the schedule; the profile
/// then needs `weight` rows for all stages. A backward that the schedule does not split then runs
/// as its input gradient followed by its weight gradient. Fused instructions (`recompute_backward`,
/// `forward_backward`) without rows of their own run as their halves, one after the other.

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

/// Function from instructions to their parts. Holds a reference to the profile. Immutable.
class PricedParts {
 public:
  /// \param profile  with rows for each chunk of the schedule, see `with_chunks`
  PricedParts(const Schedule& schedule, const Profile& profile);

  /// Returns the parts of an instruction on `stage` in the order in which they run: the instruction
  /// itself if it runs as a whole. O(log instructions).
  std::vector<Instruction> operator()(int stage, const Instruction& i) const;

 private:
  bool has_rows(int stage, int part, InstructionKind kind) const;

  const Profile& profile_;
  std::vector<int> chunk_;  ///< chunk of each part
  std::set<std::pair<int, int>> weights_;
  bool has_gradients_ = false;  ///< true if `backward` rows are only input gradients
};

/// Returns true if the profile has rows for the weight gradients of a stage of the schedule.
bool has_weight_rows(const Schedule& schedule, const Profile& profile);

/// Fails, with `file` in the diagnostic, if the profile has fewer stages than the schedule.
Status check_stages(const Schedule& schedule, const Profile& profile, const std::string& file);

/// Returns a sentence if the profile has more stages than the schedule.
std::optional<std::string> note_on_stages(const Schedule& schedule, const Profile& profile);

/// Returns sentences that name unused stages and rows of computations that no instruction uses,
/// with the sentence of `note_on_stages` first.
std::vector<std::string> unused_rows(const Schedule& schedule, const Profile& profile);

/// Returns the profile with rows for the instructions that the schedule runs as a whole: sums of
/// the rows of their parts, at the settings that all parts have. For training that cannot set a
/// clock between the parts of an instruction. If the schedule splits some of its backwards, returns
/// the profile unchanged.
Profile with_rows_of_wholes(const Schedule& schedule, const Profile& profile);

}  // namespace harpe::plan
