// No text of a job or a stored state ends the program, and an accepted text can be written and read
// again without change.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <string_view>
#include <vector>

#include "harpe/zeus/batch_size/batch_size_optimizer.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

/// Reports another epoch.
void go_on(harpe::zeus::BatchSizeOptimizer& optimizer, const harpe::zeus::Trial& trial) {
  if (trial.epochs == std::numeric_limits<int>::max()) return;
  const auto verdict = optimizer.report({.trial = trial.number,
                                         .batch_size = trial.batch_size,
                                         .epoch = trial.epochs + 1,
                                         .time = trial.time + harpe::Seconds{1},
                                         .energy = trial.energy + harpe::Joules{1},
                                         .metric = 1},
                                        optimizer.heard());
  require(!verdict.ok() ||
          verdict->stop != (verdict->reason == harpe::zeus::TrialVerdict::Reason::kGoOn));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto job = harpe::zeus::parse_recurring_job(text);
  if (job.ok()) {
    const auto again = harpe::zeus::parse_recurring_job(harpe::zeus::recurring_job_json(*job));
    require(again.ok() && *again == *job);
  }
  auto optimizer = harpe::zeus::parse_batch_size_optimizer(text);
  if (!optimizer.ok()) return 0;
  const std::string written = harpe::zeus::batch_size_optimizer_json(*optimizer);
  const auto again = harpe::zeus::parse_batch_size_optimizer(written);
  require(again.ok() && harpe::zeus::batch_size_optimizer_json(*again) == written);
  const auto given = optimizer->next(optimizer->heard() + harpe::Seconds{1});
  if (given.ok()) go_on(*optimizer, given->trial);
  // Running trials have metrics of their own, which are judged.
  std::vector<harpe::zeus::Trial> running;
  for (const harpe::zeus::Trial& trial : optimizer->trials()) {
    if (trial.status == harpe::zeus::Trial::Status::kDispatched && running.size() < 4) {
      running.push_back(trial);
    }
  }
  for (const harpe::zeus::Trial& trial : running) go_on(*optimizer, trial);
  return 0;
}
