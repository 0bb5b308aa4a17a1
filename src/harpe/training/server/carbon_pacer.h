#pragma once
/// \file
/// Moves the jobs of a server along their frontiers with the carbon intensity of their grids: when
/// a source has been read, or a decision's time is over, a worker decides for each of its jobs what
/// is next (carbon_control/carbon_controller.h), and the job takes that as its pace.
///
/// On the loop's thread; decisions are made `aside`.

#include <memory>
#include <optional>
#include <string>

#include "harpe/training/server/carbon_feeds.h"
#include "harpe/training/server/job_registry.h"

namespace harpe::training {

class CarbonPacer {
 public:
  /// All must outlive it. \param feeds  already open
  CarbonPacer(JobRegistry& registry, CarbonFeeds& feeds);

  /// Asks the sources from now on.
  void start();
  /// Once a second.
  void tick();

  /// Other terms, or none. `kInvalidInput` where they name a source that is not offered.
  Status set_terms(const JobPtr& job, std::optional<CarbonTerms> terms);
  const CarbonFeeds& feeds() const { return feeds_; }
  /// The terms, the state and the last decision, in JSON; "null" without terms.
  std::string shown(const HostedJob& job) const;
  /// All that is offered, in JSON.
  std::string sources_shown() const;

 private:
  void decide(const JobPtr& job);
  void take(const JobPtr& job, std::uint64_t revision, CarbonController controller,
            CarbonDecision decision);
  ReadingPtr reading_of(const HostedJob& job) const;

  JobRegistry& registry_;
  CarbonFeeds& feeds_;
};

}  // namespace harpe::training
