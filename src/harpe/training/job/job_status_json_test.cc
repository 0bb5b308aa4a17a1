#include "harpe/training/job/job_status_json.h"

#include <gtest/gtest.h>

namespace harpe::training {
namespace {

TEST(JobStatusJson, AStragglerHasAFactorAndMayEnd) {
  // The job's clock differs from the wall clock.
  const auto straggler =
      parse_straggler(R"({"factor": 1.2, "for_s": 60})", 3, Seconds{1000}, Seconds{1.8e9});
  ASSERT_TRUE(straggler.ok()) << straggler.error().text();
  EXPECT_EQ(straggler->pipeline, 3);
  EXPECT_EQ(straggler->until, Seconds{1060});
  const auto until =
      parse_straggler(R"({"factor": 1.2, "until": 1800000060})", 3, Seconds{1000}, Seconds{1.8e9});
  EXPECT_EQ(until->until, Seconds{1060});
  for (const char* bad : {R"({})", R"({"factor": 0.9})", R"({"factor": 1e9})",
                          R"({"factor": null})", R"({"factor": 1.2, "until": 5, "for_s": 5})"}) {
    EXPECT_FALSE(parse_straggler(bad, 0, Seconds{0}, Seconds{0}).ok()) << bad;
  }
}

}  // namespace
}  // namespace harpe::training
