// What a store gives back: a snapshot of a job, and its plans. Damaged ones are refused; a job that
// is accepted can be written, read again and lived on.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "harpe/job/job.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto plans = harpe::PlanTable::parse(text, "plans");
  if (plans.ok()) {
    const std::string written = plans->json();
    const auto again = harpe::PlanTable::parse(written, "plans");
    if (!again.ok() || again->json() != written) std::abort();
    return 0;
  }
  constexpr harpe::Seconds kNow{1.8e9};
  auto job = harpe::Job::restore(text, {}, kNow);
  if (!job.ok()) return 0;
  job->tick(kNow + harpe::Seconds{1});
  (void)job->take_effects();
  (void)job->status();
  for (int stage = 0; stage < job->spec().shape.stages; ++stage) (void)job->orders(0, stage);
  if (!harpe::Job::restore(job->snapshot(), {}, kNow).ok()) std::abort();
  return 0;
}
