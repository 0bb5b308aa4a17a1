#pragma once
/// \file
/// The recurring jobs of a server: how they are registered, and what happens to them. Where they
/// are kept, and which server commands them, is left to `Hosting`.
///
/// On the loop's thread.

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

/// A recurring job that a server hosts. Changed through `RecurringJobs::act` alone.
class HostedRecurringJob final : public Hosted {
 public:
  /// \param job_id  as users know it; the id of the hosted job begins with `kRecurringIds`
  HostedRecurringJob(const std::string& job_id, zeus::BatchSizeOptimizer optimizer);
  static Result<HostedPtr> read(const StoredJob& stored);

  const zeus::BatchSizeOptimizer& optimizer() const { return optimizer_; }
  const zeus::RecurringJob& job() const { return optimizer_.job(); }

  // The functions of `BatchSizeOptimizer`, which also write to the log.
  Result<zeus::BatchSizeOptimizer::Given> next(Seconds now);
  Result<zeus::TrialVerdict> report(const zeus::TrialReport& report, Seconds now);
  Status give_up(int trial, int batch_size, Seconds now);
  Status retract(int trial, Seconds now);
  /// Takes back a trial that has just begun and of which its client did not hear: the next client
  /// that asks gets it.
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
  std::deque<zeus::BatchSizeOptimizer::Given>
      not_given_;        ///< for the next clients that ask, oldest first
  std::string refusal_;  ///< the last one that was noted
  bool asleep_ = false;
};
using RecurringJobPtr = std::shared_ptr<HostedRecurringJob>;

class RecurringJobs {
 public:
  /// \param hosting   reads recurring jobs by this from now on, and must outlive it
  /// \param new_seed  of a job that has none of its own
  explicit RecurringJobs(Hosting& hosting, std::function<std::int64_t()> new_seed = random_seed);
  static std::int64_t random_seed();

  /// The id by which a job is hosted.
  static std::string hosted_id(const std::string& job_id) {
    return std::string(kRecurringIds) + job_id;
  }
  /// Whether that can be the id of a recurring job: 1 to 128 bytes of UTF-8, no control characters.
  static bool is_id(std::string_view job_id);

  struct Registered {
    RecurringJobPtr job;  ///< null: another server has just registered one under this id
    bool created = false;
  };
  /// Registers a job with an id, or finds the same one there. `kConflict`: there is another one.
  /// \param client  whose share of the memory for jobs it takes; empty: no client's
  void put(zeus::RecurringJob job, const std::string& client,
           std::function<void(Result<Registered>)> done);
  /// The job, if it is in memory.
  RecurringJobPtr find(const std::string& job_id) const;

  /// Lets `event(job, now)` happen to a job and does what follows from it.
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
