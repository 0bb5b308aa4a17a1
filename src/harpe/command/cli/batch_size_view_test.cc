#include "harpe/command/cli/batch_size_view.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::command {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(BatchSizeView, ShowsWhatIsKnownOfEachSize) {
  const std::string view = recurring_job_view(
      R"({"id": "mnist", "cheapest": {"trial_number": 2, "batch_size": 32, "cost": 812000},
          "batch_sizes": [{"batch_size": 16, "results": 2, "converged": 1, "mean_cost": 1100000.0},
                          {"batch_size": 32, "results": 1, "converged": 1, "mean_cost": 812000},
                          {"batch_size": 64, "results": 0, "converged": 0, "mean_cost": null}],
          "trials": [{"trial_number": 3, "batch_size": 16, "status": "dispatched", "epochs": 2,
                      "time": 60, "energy": 1, "converged": false, "cost": 400}],
          "job": {"number_of_gpus": 4, "gpu_model": "A40", "eta_knob": 0.5, "target_metric": 0.9}})",
      false);
  EXPECT_THAT(view, HasSubstr("mnist: 4 x A40, eta 0.5, target 0.9, chosen by zeus"));
  EXPECT_THAT(view, HasSubstr("cheapest: batch size 32 at 812.0 kJ (trial 2)"));
  EXPECT_THAT(view, HasSubstr("64        0        0          -"));
  EXPECT_THAT(view, HasSubstr("running"));
  EXPECT_THAT(view, Not(HasSubstr("refused")));
}

TEST(BatchSizeView, ShowsThatReportsWereRefused) {
  EXPECT_THAT(recurring_job_view(R"({"id": "mnist", "reports_refused": 3})", false),
              HasSubstr("reports refused: 3 (harpe batch-size log"));
}

TEST(BatchSizeView, NamesOfClientsMoveNoCursor) {
  EXPECT_THAT(recurring_jobs_table("{\"jobs\": [{\"id\": \"a\\u001b[2J\"}]}", false),
              Not(HasSubstr("\x1b")));
}

TEST(BatchSizeView, WithoutJobsSaysHowToRegisterOne) {
  EXPECT_THAT(recurring_jobs_table(R"({"jobs": []})", false), HasSubstr("no recurring jobs yet"));
}

TEST(BatchSizeView, SaysWhatATrialIsToDo) {
  EXPECT_EQ(trial_line(R"({"trial_number": 3, "batch_size": 32, "why": "pruning, visit 1"})"),
            "trial 3 trains with batch size 32: pruning, visit 1\n");
  EXPECT_EQ(verdict_line(R"({"reason": "go_on", "cost": 300})"), "continue; cost so far 300 J\n");
  EXPECT_EQ(verdict_line(R"({"reason": "too_costly", "cost": 30000, "bound": 20000})"),
            "stop: the cost of 30.0 kJ is above the bound of 20.0 kJ\n");
  EXPECT_EQ(verdict_line(R"({"reason": "will_not_reach", "cost": 300})"),
            "stop: its metric so far shows that the trial will not reach the target within its "
            "maximum number of epochs; cost 300 J\n");
}

TEST(BatchSizeView, WhatIsNoDocumentEndsNothing) {
  for (const char* text : {"", "[]", "null", "{", "{\"jobs\": 3}"}) {
    (void)recurring_job_view(text, true);
    (void)trial_line(text);
    (void)verdict_line(text);
  }
}

}  // namespace
}  // namespace harpe::command
