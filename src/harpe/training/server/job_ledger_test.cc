#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "harpe/training/server/hosted_job.h"

namespace harpe::training {
namespace {

using namespace harpe::literals;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kMidnight = 1'795'564'800;  // 2026-11-25
constexpr carbon::UtcTime kAlways{0}, kForEver{7'000'000'000};

JobLedger::Training training(std::uint64_t start = 1) {
  return {.incarnation = "abc", .start = start, .run = "march", .ranks = 4, .all = 4};
}

/// Returns a day and a half of iterations of 1000 s on 4 ranks, one of which measures no energy.
JobLedger played() {
  JobLedger ledger;
  ledger.set_user("alice");
  for (int i = 0; i < 130; ++i) {
    const double ended = kMidnight + 1000.0 * (i + 1);
    for (int rank = 0; rank < 4; ++rank) {
      ReportedUse use{.time = 1000_s, .energy = 250'000_J, .energy_error = 30_J};
      if (rank == 3) use.energy.value = std::numeric_limits<double>::quiet_NaN();
      ledger.add(training(i < 100 ? 1 : 2), use, ended);
    }
    ledger.hold(training(i < 100 ? 1 : 2), ended - 1000, ended);
  }
  return ledger;
}

TEST(JobLedger, KnowsWhatEachStartUsed) {
  const JobLedger ledger = played();
  const auto runs = ledger.runs("gpt3", kAlways, kForEver);
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].id, "abc.1");
  EXPECT_EQ(runs[0].job, "gpt3");
  EXPECT_EQ(runs[0].run, "march");
  EXPECT_EQ(runs[0].user, "alice");
  EXPECT_EQ(runs[0].devices, 4);
  EXPECT_EQ(runs[1].start, 2);
  const carbon::EnergyUse first = runs[0].ledger.total();
  EXPECT_NEAR(first.energy.value, 100 * 3 * 250'000.0, 1e-3);
  EXPECT_NEAR(first.half_width().value, 30 * std::sqrt(300), 1e-6);
  EXPECT_NEAR(first.device_time.value, 400'000, 1e-3);
  EXPECT_NEAR(first.unmeasured().value, 100'000, 1e-3);
  EXPECT_NEAR(first.iterations, 100, 1e-9);
  const auto day = ledger.runs("gpt3", carbon::UtcTime{static_cast<std::int64_t>(kMidnight)},
                               carbon::UtcTime{static_cast<std::int64_t>(kMidnight) + 86'400});
  ASSERT_EQ(day.size(), 1U);
  EXPECT_NEAR(day[0].ledger.total().energy.value, 86.4 * 3 * 250'000, 1);
}

TEST(JobLedger, KnowsWhenTrainingPaused) {
  JobLedger ledger;
  ledger.pause(training(), kMidnight + 600, kMidnight + 4600);
  ledger.hold(training(), kMidnight + 600, kMidnight + 1600);  // its ranks have ended then
  ledger.pause(training(), kMidnight + 600, kMidnight + 600);
  const auto runs = ledger.runs("gpt3", kAlways, kForEver);
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_NEAR(runs[0].ledger.total().paused.value, 4000, 1e-6);
  EXPECT_NEAR(runs[0].ledger.total().device_time.value, 4000, 1e-6);
  EXPECT_NEAR(runs[0].ledger.uses().begin()->second.paused.value, 300, 1e-6);
}

TEST(JobLedger, IsTheSameFromItsParts) {
  JobLedger ledger = played();
  ledger.pause(training(2), kMidnight + 110'000, kMidnight + 112'000);
  auto parts = ledger.take_changed_parts();
  ASSERT_TRUE(parts.contains("energy:2026-11-25"));
  ASSERT_TRUE(parts.contains("energy:2026-11-26"));
  EXPECT_THAT(ledger.take_changed_parts(), IsEmpty());
  // Parts that are not the ledger's are ignored.
  parts["specification"] = "{";
  const JobLedger again =
      JobLedger::read(parts, [](const std::string& why) { ADD_FAILURE() << why; });
  EXPECT_EQ(again.user(), "alice");
  EXPECT_EQ(carbon::ledger_json(again.runs("j", kAlways, kForEver)),
            carbon::ledger_json(ledger.runs("j", kAlways, kForEver)));
  // An hour of the second day changes only that day.
  ledger.add(training(2), {.time = 10_s, .energy = 5_J}, kMidnight + 130'010);
  const auto changed = ledger.take_changed_parts();
  EXPECT_EQ(changed.size(), 1U);
  EXPECT_TRUE(changed.contains("energy:2026-11-26"));
}

TEST(JobLedger, LeavesOutWhatCannotBeRead) {
  auto parts = played().take_changed_parts();
  parts["energy:2026-11-25"] = R"({"format": "harpe.energy/9"})";
  std::string log;
  const JobLedger again = JobLedger::read(parts, [&](const std::string& why) { log += why; });
  EXPECT_THAT(log, HasSubstr("later version of Harpe"));
  EXPECT_EQ(again.runs("j", kAlways, kForEver).size(), 2U) << "what was on the next day";
}

TEST(JobLedger, SurvivesClocksThatAreWrong) {
  JobLedger ledger;
  ledger.add(training(), {.time = 10_s, .energy = 5_J}, -5);
  ledger.hold(training(), 100, 50);
  ledger.hold(training(), 0, 1e12);
  EXPECT_THAT(ledger.runs("j", kAlways, kForEver), IsEmpty());
  ledger.add(training(), {.time = 10_s, .energy = Joules{-5}}, kMidnight);
  EXPECT_EQ(ledger.runs("j", kAlways, kForEver).at(0).ledger.total().energy.value, 0);
}

TEST(JobLedger, HasNoMoreStartsThanItMayHave) {
  JobLedger ledger;
  for (std::uint64_t start = 1; start <= JobLedger::kMostStarts + 50; ++start) {
    ledger.add(training(start), {.time = 10_s, .energy = 5_J}, kMidnight);
  }
  const auto runs = ledger.runs("j", kAlways, kForEver);
  EXPECT_EQ(runs.size(), JobLedger::kMostStarts);
  EXPECT_NEAR(runs.back().ledger.total().energy.value, 51 * 5, 1e-9);
}

TEST(JobLedger, GivesTheUserToTheStartThatHasNone) {
  JobLedger ledger;
  ledger.add(training(1), {.time = 10_s, .energy = 5_J}, kMidnight);
  ledger.set_user("bob");
  ledger.set_user("carol");
  ledger.add(training(2), {.time = 10_s, .energy = 5_J}, kMidnight);
  const auto runs = ledger.runs("j", kAlways, kForEver);
  EXPECT_EQ(runs[0].user, "bob");
  EXPECT_EQ(runs[1].user, "carol");
}

}  // namespace
}  // namespace harpe::training
