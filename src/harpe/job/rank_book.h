#pragma once
/// \file
/// Who holds which place of a job. Not thread-safe.

#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/job/rank_events.h"

namespace harpe {

class RankBook {
 public:
  /// \param silence  after so long without a word, another process may take a place
  RankBook(JobShape shape, Seconds silence);

  struct Entered {
    int rank = 0;
    bool changed = false;       ///< not a mere retry
    bool new_run = false;       ///< training starts anew: all places before have become free
    bool fewer_clocks = false;  ///< than the ranks of its stage had in common before, in this run
  };
  /// Faults: a place that the job does not have, clocks that leave none common to all ranks of the
  /// stage; `kConflict`: the place is held, or the run has been replaced by a newer one.
  Result<Entered> enter(const RankRegistration& registration, Seconds now);

  /// Whether this session holds the place; notes that it has been heard of.
  Status hear(Place place, const std::string& session, Seconds now);
  /// The training of the place's rank has ended in order: the place is free. The same again is
  /// harmless.
  Status end(Place place, const std::string& session);

  int registered() const { return registered_; }
  bool complete() const { return registered_ == shape_.ranks(); }
  /// Whether all ranks that there were have ended in order.
  bool all_ended() const { return registered_ > 0 && ended_ == registered_; }
  /// Places without a rank, `most` of them.
  std::vector<Place> missing(std::size_t most) const;
  /// Places whose rank has not been heard of since `since`, `most` of them.
  std::vector<Place> silent(Seconds since, std::size_t most) const;
  /// Clocks that all ranks of the stage have, highest first; empty before the first.
  const std::vector<Megahertz>& clocks(int stage) const { return clocks_[stage]; }

  /// What has to be kept of a rank.
  struct Holder {
    std::string session;
    std::string gpu;
    Seconds heard{};
    bool ended = false;  ///< in order
    bool registered() const { return !session.empty(); }
  };
  const Holder& holder(Place place) const { return holders_[shape_.index(place)]; }
  const std::string& run() const { return run_; }
  const std::vector<std::string>& past_runs() const { return past_runs_; }

  /// Holders are stored some together, those of ranks `kHoldersOfPart` * i and following as part i.
  static constexpr std::size_t kHoldersOfPart = 256;
  std::size_t parts() const { return (holders_.size() + kHoldersOfPart - 1) / kHoldersOfPart; }
  const std::vector<Holder>& holders() const { return holders_; }
  /// The parts that have changed since the last call.
  std::set<std::size_t> take_changed_parts();

  /// Puts back what a snapshot held.
  void restore(std::string run, std::vector<std::string> past_runs, std::vector<Holder> holders,
               std::vector<std::vector<Megahertz>> clocks);

 private:
  JobShape shape_;
  Seconds silence_;
  std::string run_;
  std::vector<std::string> past_runs_;
  std::vector<Holder> holders_;
  std::vector<std::vector<Megahertz>> clocks_;
  int registered_ = 0, ended_ = 0;
  std::set<std::size_t> changed_parts_;
};

/// "pipeline 0, stage 1, tensor shard 2".
std::string text(Place place);

}  // namespace harpe
