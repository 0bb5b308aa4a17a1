#pragma once
/// \file
/// The parts in which a profile prices the instructions of a schedule, so that an iteration does
/// the same work under every schedule.
///
/// `backward` rows are the whole backward pass, or the input gradient if the profile has `weight`
/// rows for any stage of the schedule, which it then needs for all. A backward that the schedule
/// does not split is then its input gradient and its weight gradient in a row. Fused instructions
/// (`recompute_backward`, `forward_backward`) without rows of their own are their halves in a row.

#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

/// Refers to the profile. Immutable.
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
  std::vector<int> chunk_;  ///< of each part
  std::set<std::pair<int, int>> weights_;
  bool has_gradients_ = false;  ///< `backward` rows are those of input gradients
};

/// Returns true if the profile has rows for the weight gradients of a stage of the schedule.
bool has_weight_rows(const Schedule& schedule, const Profile& profile);

/// Fails, with `file` in the diagnostic, if the profile has fewer stages than the schedule.
Status check_stages(const Schedule& schedule, const Profile& profile, const std::string& file);

/// Returns a sentence if the profile has more stages than the schedule.
std::optional<std::string> note_on_stages(const Schedule& schedule, const Profile& profile);

/// Returns sentences that name stages and rows of computations that no instruction uses: that of
/// `note_on_stages` first.
std::vector<std::string> unused_rows(const Schedule& schedule, const Profile& profile);

/// Returns the profile with rows for what the schedule runs as one: sums of the rows of the parts,
/// at the settings that all parts have. For training that cannot set a clock between the parts of
/// an instruction. If the schedule splits some of its backwards, returns the profile unchanged.
Profile with_rows_of_wholes(const Schedule& schedule, const Profile& profile);

}  // namespace harpe::plan
