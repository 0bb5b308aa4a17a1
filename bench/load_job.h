#pragma once
/// \file
/// A simulated training job: the measurements of its ranks when they follow given assignments.

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/schedule/pipeline.h"
#include "harpe/training/wire/job_spec.h"
#include "harpe/training/wire/rank_events.h"

namespace harpe::bench {

struct LoadShape {
  int data = 1250;
  int stages = 8;
  int micro_batches = 8;
  Seconds iteration{1};  ///< at all-max
};

/// Work of one stage in one iteration at given clocks, from a synthetic profile.
struct StageWork {
  std::vector<Seconds> durations;  ///< of its instructions
  Seconds time{};                  ///< their sum
  Joules energy{};
  std::string totals;  ///< "instructions" of a report
};

/// Assignments as received by one rank. Ranks of a stage receive the same text, parsed once.
struct RankAssignments {
  std::vector<training::StageAssignment> assignments;  ///< by version
  std::vector<const StageWork*> work;
  std::uint64_t newest() const { return assignments.empty() ? 0 : assignments.back().version; }
  /// Returns the index of the last assignment in force in the iteration, or -1.
  int in_force(std::int64_t iteration) const;
};

class LoadJob {
 public:
  static Result<LoadJob> make(const LoadShape& shape);

  const LoadShape& shape() const { return shape_; }
  /// Returns the registration body. It includes the profile, so the server plans at once.
  std::string spec_json() const { return spec_json_; }
  const std::vector<Megahertz>& clocks() const { return clocks_; }
  Watts blocking_power() const { return blocking_power_; }

  /// Parses `{"assignments": [...]}` for a stage. The result is valid as long as the job.
  Result<const RankAssignments*> assignments(std::string_view text, int stage);
  /// Returns the work at all-max, for ranks without assignments.
  const StageWork* all_max(int stage) const { return all_max_[static_cast<std::size_t>(stage)]; }

  /// Returns the makespan of a pipeline whose stages do this work.
  Seconds makespan(const std::vector<const StageWork*>& stages);

 private:
  LoadJob() = default;
  const StageWork* work(int stage, const std::vector<Megahertz>& clocks);

  LoadShape shape_;
  std::string spec_json_;
  Profile profile_;
  std::vector<Pipeline> pipeline_;  ///< exactly one
  Watts blocking_power_{};
  std::vector<Megahertz> clocks_;
  std::vector<const StageWork*> all_max_;
  std::unordered_map<std::string, std::unique_ptr<RankAssignments>> known_;
  std::unordered_map<std::string, std::unique_ptr<StageWork>> works_;
  std::unordered_map<std::string, Seconds> makespans_;
};

}  // namespace harpe::bench
