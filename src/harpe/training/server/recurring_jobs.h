#pragma once
/// \file
/// The recurring jobs of a server: registers them and applies events to them. `Hosting` decides
/// where they are kept and which server commands them.
///
/// Used on the loop's thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/server/hosting.h"
#include "harpe/training/store/store.h"
#include "harpe/zeus/batch_size/batch_size_optimizer.h"
#include "harpe/zeus/batch_size/recurring_job.h"

namespace harpe::training {

/// A recurring job that a server hosts. Change it only through `RecurringJobs::act`.
class HostedRecurringJob final : public Hosted {
 public:
  /// \param job_id  as users know it; the id of the hosted job is prefixed with `kRecurringIds`
  HostedRecurringJob(const std::string& job_id, zeus::BatchSizeOptimizer optimizer);
  static Result<HostedPtr> read(const StoredJob& stored);

  const zeus::BatchSizeOptimizer& optimizer() const { return optimizer_; }
  const zeus::RecurringJob& job() const { return optimizer_.job(); }

  // The functions of `BatchSizeOptimizer`; they also write to the log.
  Result<zeus::BatchSizeOptimizer::Given> next(Seconds now);
  Result<zeus::TrialVerdict> report(const zeus::TrialReport& report, Seconds now);
  Status give_up(int trial, int batch_size, Seconds now);
  Status retract(int trial, Seconds now);
  /// Takes back a trial that has just begun and that did not reach its client: the next request
  /// gets it.
  Status not_given(const zeus::BatchSizeOptimizer::Given& given, Seconds now);

  HostedTexts take_texts() override;
  std::string summary_text() const override;
  Seconds heard() const override { return optimizer_.heard(); }
  std::optional<Seconds> ended() const override { return std::nullopt; }
  std::size_t memory() const override;
  bool asleep() const override { return asleep_; }
  void go_on(Seconds /*now*/) override { asleep_ = false; }
  void hear(Seconds /*now*/) override {}
  void tick(Seconds now) override;
  HostedEffects take_effects(Seconds /*now*/) override { return std::exchange(effects_, {}); }

 private:
  void note(const char* kind, std::string text, Seconds now);

  zeus::BatchSizeOptimizer optimizer_;
  HostedEffects effects_;
  std::deque<zeus::BatchSizeOptimizer::Given> not_given_;  ///< for the next requests, oldest first
  std::string refusal_;                                    ///< the last refusal that was logged
  bool asleep_ = false;
};
using RecurringJobPtr = std::shared_ptr<HostedRecurringJob>;

class RecurringJobs {
 public:
  /// \param hosting   uses this object to read recurring jobs from now on, and must outlive it
  /// \param new_seed  creates the seed of a job without one
  explicit RecurringJobs(Hosting& hosting, std::function<std::int64_t()> new_seed = random_seed);
  static std::int64_t random_seed();

  /// Returns the id under which a job is hosted.
  static std::string hosted_id(const std::string& job_id) {
    return std::string(kRecurringIds) + job_id;
  }
  /// Returns true if the text can be the id of a recurring job: 1 to 128 bytes of UTF-8, no control
  /// characters.
  static bool is_id(std::string_view job_id);

  struct Registered {
    RecurringJobPtr job;  ///< null if another server has just registered a job under this id
    bool created = false;
  };
  /// Registers a job, or finds the same job under its id. `kConflict` if the job there has other
  /// parameters.
  /// \param client  the client whose share of the memory for jobs it takes; empty for none
  void put(zeus::RecurringJob job, const std::string& client,
           std::function<void(Result<Registered>)> done);
  /// Returns the job, or null if it is not in memory.
  RecurringJobPtr find(const std::string& job_id) const;

  /// Applies `event(job, now)` to a job and handles its effects.
  template <class Event>
  auto act(const RecurringJobPtr& job, Event event) {
    return hosting_.jobs().act(job, [&](Seconds now) { return event(*job, now); });
  }
  Hosting& hosting() const { return hosting_; }

 private:
  struct Incoming;
  using IncomingPtr = std::shared_ptr<Incoming>;
  void put(const IncomingPtr& incoming);
  void take(const IncomingPtr& incoming, const Result<std::optional<JobClaim>>& claim);

  Hosting& hosting_;
  std::function<std::int64_t()> new_seed_;
};

}  // namespace harpe::training
