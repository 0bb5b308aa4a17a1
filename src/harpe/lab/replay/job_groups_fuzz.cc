// Groups of jobs that parse are sorted, and parse back the same after they are written.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "harpe/base/check.h"
#include "harpe/lab/replay/concurrent_recurrences.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  const auto groups = harpe::lab::parse_job_groups(text, "groups.csv");
  if (!groups.ok()) return 0;
  for (const harpe::lab::JobGroup& group : *groups) {
    HARPE_CHECK(!group.name.empty() && !group.dataset.empty() && !group.jobs.empty(), "named");
    for (std::size_t i = 0; i < group.jobs.size(); ++i) {
      const harpe::lab::GroupedJob& job = group.jobs[i];
      HARPE_CHECK(job.start <= job.end && job.runtime_ratio > 0, "they ran");
      HARPE_CHECK(i == 0 || group.jobs[i - 1].start <= job.start, "in order");
    }
  }
  const auto again =
      harpe::lab::parse_job_groups(harpe::lab::job_groups_csv(*groups, "fuzz"), "again.csv");
  HARPE_CHECK(again.ok() && *again == *groups, "written and read");
  return 0;
}
