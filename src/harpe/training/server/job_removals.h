#pragma once
/// \file
/// Jobs that are being removed from the store, and those of which it is not known whether they
/// were: the store did not say, and another server may have registered the id again. What the store
/// takes of such a job by this server's claim shows that it is still there.
///
/// On the loop's thread.

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"

namespace harpe::training {

class JobRemovals {
 public:
  /// False: there was no such job.
  using Done = std::function<void(const Result<bool>&)>;

  bool are_under_way(const std::string& id) const { return under_way_.contains(id); }
  void begin(const std::string& id) { under_way_[id]; }
  /// \returns  false: none of this job is under way, and `done` is not kept
  bool wait(const std::string& id, Done done) {
    const auto removal = under_way_.find(id);
    if (removal == under_way_.end()) return false;
    removal->second.push_back(std::move(done));
    return true;
  }
  /// \returns  those who wait for it
  std::vector<Done> end(const std::string& id) {
    return std::move(under_way_.extract(id).mapped());
  }

  /// \param hosted  null: it is in the store alone, and has to be read to settle it
  void doubt(const std::string& id, const Hosted* hosted) {
    doubted_[id] = hosted == nullptr ? std::numeric_limits<std::int64_t>::max()
                                     : hosted->saving.revisions.newest();
  }
  /// Ends the doubt about a job that this server no longer has. A job registered later under the
  /// same id is another job.
  void forget(const std::string& id) { doubted_.erase(id); }
  bool was_doubted(const std::string& id) const { return doubted_.contains(id); }
  /// Whether the job may be another server's by now.
  bool is_in_doubt(const std::string& id, const Hosted* hosted) const {
    if (under_way_.contains(id)) return true;
    const auto doubted = doubted_.find(id);
    if (doubted == doubted_.end()) return false;
    return hosted == nullptr || hosted->saving.revisions.stored() < doubted->second;
  }
  /// Forgets the doubts that `is_settled` says are none any more.
  void settle(const std::function<bool(const std::string& id)>& is_settled) {
    std::erase_if(doubted_, [&](const auto& one) { return is_settled(one.first); });
  }

 private:
  std::map<std::string, std::vector<Done>> under_way_;
  /// To the revision which, once stored, shows that the job is still there.
  std::map<std::string, std::int64_t> doubted_;
};

}  // namespace harpe::training
