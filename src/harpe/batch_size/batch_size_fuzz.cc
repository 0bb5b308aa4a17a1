// What is read of jobs and of stored states never ends the program, and what was read once is
// written and read the same.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "harpe/batch_size/batch_size_optimizer.h"

namespace {

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto job = harpe::parse_recurring_job(text);
  if (job.ok()) {
    const auto again = harpe::parse_recurring_job(harpe::recurring_job_json(*job));
    require(again.ok() && *again == *job);
  }
  auto optimizer = harpe::parse_batch_size_optimizer(text);
  if (!optimizer.ok()) return 0;
  const std::string written = harpe::batch_size_optimizer_json(*optimizer);
  const auto again = harpe::parse_batch_size_optimizer(written);
  require(again.ok() && harpe::batch_size_optimizer_json(*again) == written);
  const auto given = optimizer->next(optimizer->heard() + harpe::Seconds{1});
  if (given.ok()) {
    (void)optimizer->report({.trial = given->trial.number,
                             .batch_size = given->trial.batch_size,
                             .epoch = 1,
                             .time = harpe::Seconds{1},
                             .energy = harpe::Joules{1},
                             .metric = 1},
                            optimizer->heard());
  }
  return 0;
}
