#pragma once
/// \file
/// Carbon control of a server's jobs: moves jobs along their frontiers with the carbon intensity of
/// their grids. When a source has been read or a decision expires, a worker makes the next decision
/// for each affected job (carbon_control/carbon_controller.h), which becomes the job's pace.
///
/// Used on the loop's thread; decisions are made on reader threads.

#include <memory>
#include <optional>
#include <string>

#include "harpe/training/server/carbon_feeds.h"
#include "harpe/training/server/job_registry.h"

namespace harpe::training {

class CarbonPacer {
 public:
  /// All arguments must outlive this object. \param feeds  already open
  CarbonPacer(JobRegistry& registry, CarbonFeeds& feeds);

  /// Starts requests to the sources.
  void start();
  /// Called once a second.
  void tick();

  /// Sets or removes the terms of a job. `kInvalidInput` if they name a source that is not offered.
  Status set_terms(const JobPtr& job, std::optional<CarbonTerms> terms);
  const CarbonFeeds& feeds() const { return feeds_; }
  /// Returns the terms, the state and the last decision in JSON; "null" without terms.
  std::string shown(const HostedJob& job) const;
  /// Returns all offered sources in JSON.
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
