#pragma once
/// \file
/// A recurring job that a server hosts. On the loop's thread.

#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "harpe/base/result.h"
#include "harpe/training/server/hosted.h"
#include "harpe/training/store/store.h"
#include "harpe/zeus/batch_size/batch_size_optimizer.h"

namespace harpe {

/// Changed through `RecurringJobs::act` alone.
class HostedRecurringJob final : public Hosted {
 public:
  /// \param job_id  as users know it; what is hosted has `kRecurringIds` before it
  HostedRecurringJob(const std::string& job_id, BatchSizeOptimizer optimizer);
  static Result<HostedPtr> read(const StoredJob& stored);

  const BatchSizeOptimizer& optimizer() const { return optimizer_; }
  const RecurringJob& job() const { return optimizer_.job(); }

  // As `BatchSizeOptimizer` has them, and told to the log.
  Result<BatchSizeOptimizer::Given> next(Seconds now);
  Result<TrialVerdict> report(const TrialReport& report, Seconds now);
  Status give_up(int trial, int batch_size, Seconds now);
  Status retract(int trial, Seconds now);
  /// The client of a trial that has just begun did not hear of it: it is given up until the next
  /// that asks gets it.
  Status not_given(const BatchSizeOptimizer::Given& given, Seconds now);

  HostedTexts take_texts() override;
  std::string summary_text() const override;
  Seconds heard() const override { return optimizer_.heard(); }
  std::optional<Seconds> ended() const override { return std::nullopt; }
  std::size_t memory() const override;
  bool asleep() const override { return asleep_; }
  void go_on(Seconds now) override;
  void hear(Seconds /*now*/) override {}
  void tick(Seconds now) override;
  HostedEffects take_effects(Seconds now) override;

 private:
  void note(const char* kind, std::string text, Seconds now);

  BatchSizeOptimizer optimizer_;
  HostedEffects effects_;
  std::deque<BatchSizeOptimizer::Given> not_given_;  ///< for the next that ask, oldest first
  std::string refusal_;                              ///< that was noted last
  bool asleep_ = false;
};
using RecurringJobPtr = std::shared_ptr<HostedRecurringJob>;

}  // namespace harpe
