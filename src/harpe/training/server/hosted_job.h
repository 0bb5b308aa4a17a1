#pragma once
/// \file
/// A training job that is in memory, and what surrounds it there. On the loop's thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/training/job/job.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/job_carbon.h"
#include "harpe/training/server/job_ledger.h"
#include "harpe/training/server/service_clock.h"
#include "harpe/training/store/store.h"

namespace harpe::training {

class HostedJob;
using JobPtr = std::shared_ptr<HostedJob>;

/// How far the plans of a job are.
struct Characterization {
  std::uint64_t ticket = 0;
  bool running = false;  ///< false: it waits for a worker
  double fraction = 0;
};

/// What training jobs need of their server.
class JobServices {
 public:
  virtual ~JobServices() = default;
  /// Something has happened to the job: plans may have to be made, assignments sent.
  virtual void follow(const JobPtr& job, JobEffects effects) = 0;
  /// No better plans are wanted.
  virtual void rest(const JobPtr& job) = 0;
  /// No plans are.
  virtual void leave(const JobPtr& job) = 0;
  virtual const ServiceClock& time() const = 0;
};

/// `job` is changed through `JobRegistry::act` alone.
class HostedJob final : public Hosted, public std::enable_shared_from_this<HostedJob> {
 public:
  /// \param services  used while it is hosted
  HostedJob(std::string given_id, Job given, JobServices& services);

  HostedTexts take_texts() override;
  std::string summary_text() const override;
  Seconds heard() const override { return job.heard(); }
  std::optional<Seconds> ended() const override { return job.ended(); }
  std::size_t memory() const override;
  bool asleep() const override { return job.asleep(); }
  void go_on(Seconds now) override { job.go_on(now); }
  void hear(Seconds now) override { job.hear(now); }
  void tick(Seconds now) override { job.tick(now); }
  HostedEffects take_effects(Seconds now) override;
  void rest() override { services_.rest(shared_from_this()); }
  void leave() override { services_.leave(shared_from_this()); }

  std::optional<Characterization> characterization() const;

  Job job;
  const Joules energy_before = job.status().energy;  ///< reported before this server had the job
  JobLedger ledger;                                  ///< what it has used so far
  JobCarbon carbon;
  Instant assignments_at;  ///< when the newest assignments were made
  /// Assignments that were written already, by stage: most pipelines have the same.
  struct AssignmentsTexts {
    std::uint64_t version = 0;
    struct One {
      int stage;
      std::vector<StageAssignment> assignments;
      std::string text;
    };
    std::vector<One> texts;
    std::size_t bytes = 0;
  } assignments_texts;

  // For the registry.
  /// Digests of bodies that were read, to `Job::specification` of what they say.
  std::map<std::string, std::string> known_bodies;
  std::optional<std::string> unsaved_plans;  ///< as the store keeps them
  /// Plans as they are answered, while a response is on its way.
  struct PlansText {
    std::shared_ptr<const plan::PlanTable> plans;
    std::string text;
  };
  std::weak_ptr<const PlansText> plans_text;  ///< of the job's reader

  // For the planner.
  struct Work;
  std::shared_ptr<Work> work;  ///< the characterization under way

  // For the searcher.
  struct Search;
  std::shared_ptr<Search> search;  ///< for a better plan; null: there was none
  Instant search_followed;         ///< when it was last seen whether there should be one

 private:
  void note_use(const std::vector<ReportedUse>& reported, Seconds now);

  JobServices& services_;
  std::optional<Seconds> held_until_;    ///< what its GPUs were held for is in the ledger so far
  std::optional<Seconds> paused_until_;  ///< the same of its pause; none: it does not pause
  JobPhase logged_phase_;
  mutable std::string measured_;  ///< `Job::specification` of which `memory_` is
  mutable std::size_t memory_ = 0;
};

/// A job as the store has it, with its parts and plans, as it was when it was stored. From any
/// thread. \param log  gets plans that cannot be read and have to be made again
Result<HostedPtr> read_hosted_job(Store& store, const StoredJob& stored, Seconds now,
                                  JobServices& services,
                                  const std::function<void(const std::string&)>& log);

}  // namespace harpe::training
