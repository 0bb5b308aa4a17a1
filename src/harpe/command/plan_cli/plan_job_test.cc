#include "harpe/command/plan_cli/plan_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace harpe::command {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

JobEntry option(std::string_view name, std::vector<std::string> values) {
  const auto key = std::ranges::find(job_keys(), name, &JobKey::name);
  EXPECT_NE(key, job_keys().end()) << name;
  return {.key = &*key, .values = std::move(values)};
}

Result<PlanJob> job_of(std::string_view toml, const std::vector<JobEntry>& options = {}) {
  auto entries = HARPE_TRY(parse_job(toml, "jobs/job.toml"));
  return make_job(entries, options);
}

PlanJob must_be_job(std::string_view toml) {
  Result<PlanJob> job = job_of(toml);
  EXPECT_TRUE(job.ok()) << (job.ok() ? "" : job.error().text());
  return job.ok() ? *std::move(job) : PlanJob{};
}

std::vector<std::string> diagnostics_of(const Error& error) {
  std::vector<std::string> texts;
  for (const Diagnostic& diagnostic : error.diagnostics) texts.push_back(diagnostic.text());
  return texts;
}

TEST(PlanJob, ReadsEveryKindOfKey) {
  const auto job = job_of(R"(
profile = "gpt3.csv"
schedule = "zb-h1"
microbatches = 96
blocking_power = [83.64, "90W"]
transfer-forward = "3ms"
transfer-mode = "rendezvous"
load = [0.01, 0]
slowdown = "5%"
fit = true
certificate = false
out = "../plans"
)");
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->profile, "jobs/gpt3.csv");
  EXPECT_EQ(*job->out, "jobs/../plans");
  EXPECT_EQ(job->schedule, "zb-h1");
  EXPECT_FALSE(job->schedule_is_file);
  EXPECT_EQ(job->micro_batches, 96);
  EXPECT_THAT(job->blocking_power, ElementsAre(Watts{83.64}, Watts{90}));
  EXPECT_THAT(job->transfer_forward, ElementsAre(Seconds{0.003}));
  EXPECT_EQ(job->transfer_mode, Transfers::Mode::kRendezvous);
  EXPECT_EQ(job->objective.kind, Objective::Kind::kSlowdown);
  EXPECT_DOUBLE_EQ(job->objective.value, 0.05);
  EXPECT_TRUE(job->fit);
  EXPECT_FALSE(job->certificate);
}

TEST(PlanJob, PathsOfTheFileAreRelativeToItAndAbsoluteOnesStay) {
  const auto job = job_of("profile = \"/data/p.csv\"\nschedule = \"lists/mine.csv\"");
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->profile, "/data/p.csv");
  EXPECT_EQ(job->schedule, "jobs/lists/mine.csv");
  EXPECT_TRUE(job->schedule_is_file);
}

TEST(PlanJob, OptionsWinOverTheFileAndAnyObjectiveOverAnyOther) {
  const auto job = job_of("profile = \"p.csv\"\nmicrobatches = 96\ndeadline = 16.5",
                          {option("micro-batches", {"12"}), option("straggler", {"1.2x"})});
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->micro_batches, 12);
  EXPECT_EQ(job->objective.kind, Objective::Kind::kStragglerFactor);
  EXPECT_DOUBLE_EQ(job->objective.value, 1.2);
}

TEST(PlanJob, EveryErrorOfAFileIsNamedWithLineAndColumn) {
  const auto job = job_of("profile = 5.5.5");
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(job.error().text(), HasSubstr("jobs/job.toml:1:"));

  const auto keys = job_of("blocking_powr = 83\n  stages = true\nload = [1, [2]]\nfit = 1\n");
  ASSERT_FALSE(keys.ok());
  EXPECT_THAT(diagnostics_of(keys.error()),
              testing::UnorderedElementsAre(
                  "jobs/job.toml:1:1: unknown key 'blocking_powr'; did you mean 'blocking-power'?",
                  "jobs/job.toml:2:12: stages: expected a number or text",
                  "jobs/job.toml:3:8: load: expected a number or text, or a list of them",
                  "jobs/job.toml:4:7: fit: expected true or false"));

  const auto values = job_of("profile = \"p\"\nmicrobatches = 0\nload = [\"x\", -1]\n");
  ASSERT_FALSE(values.ok());
  EXPECT_THAT(diagnostics_of(values.error()),
              testing::UnorderedElementsAre(HasSubstr("job.toml:2:16: micro-batches: expected"),
                                            HasSubstr("job.toml:3:8: load: expected a time"),
                                            HasSubstr("job.toml:3:8: load: '-1' is negative")));
}

TEST(PlanJob, ObjectivesExcludeEachOther) {
  const auto file = job_of("profile = \"p\"\nmicrobatches = 1\ndeadline = 1\nslowdown = 5");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().text(), HasSubstr("exclude each other"));
  const auto options = make_job({}, {option("profile", {"p"}), option("micro-batches", {"1"}),
                                     option("least-energy", {}), option("power-cap", {"300"})});
  ASSERT_FALSE(options.ok());
  EXPECT_THAT(options.error().text(), HasSubstr("--power-cap and --least-energy exclude"));
}

TEST(PlanJob, WhatIsMissingIsNamedAllAtOnce) {
  const auto job = make_job({}, {option("certificate", {})});
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(diagnostics_of(job.error()),
              ElementsAre("--profile is missing", "--micro-batches is missing",
                          "--certificate needs --out, the folder for the file"));
}

TEST(PlanJob, ALongerSearchIsForFullPlansWithoutADwell) {
  const auto with = [](std::vector<JobEntry> more) {
    more.push_back(option("profile", {"p"}));
    more.push_back(option("micro-batches", {"1"}));
    return make_job({}, more);
  };
  const auto job = with({option("search-time", {"10s"}), option("search-windows", {"500"})});
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->search_time, Seconds{10});
  EXPECT_EQ(job->search_windows, 500);
  EXPECT_THAT(with({option("search-time", {"10s"}), option("quick", {})}).error().text(),
              HasSubstr("--quick and a longer search exclude each other"));
  EXPECT_TRUE(with({option("search-windows", {"5"}), option("switch-latency", {"1ms"})}).ok());
  EXPECT_THAT(with({option("search-windows", {"5"}), option("min-dwell", {"1ms"})}).error().text(),
              HasSubstr("are for plans without a minimum dwell"));
  EXPECT_THAT(with({option("search-windows", {"0"})}).error().text(), HasSubstr("search-windows"));
  EXPECT_THAT(with({option("search-time", {"-1s"})}).error().text(), HasSubstr("is negative"));
}

TEST(PlanJob, ASwitchLatencyIsATimeOrATable) {
  const auto latency_of = [](const char* value) {
    return must_be_job(std::string("profile = \"p.csv\"\nmicro-batches = 4\nswitch-latency = ") +
                       value);
  };
  EXPECT_EQ(latency_of("0.01").switch_latency.by_clock.longest(), Seconds{0.01});
  EXPECT_EQ(latency_of("\"10ms\"").switch_latency.by_clock.longest(), Seconds{0.01});
  EXPECT_TRUE(latency_of("\"10ms\"").switch_latency.table.empty());
  EXPECT_EQ(latency_of("\"late.csv\"").switch_latency.table, "jobs/late.csv");
  EXPECT_EQ(latency_of("0.01").client, plan::ClockClient::kAny);
  EXPECT_EQ(latency_of("0.01\nclient = \"harpe\"").client, plan::ClockClient::kHarpe);
  const auto typo = job_of("profile = \"p.csv\"\nmicro-batches = 4\nswitch-latency = \"10mss\"");
  ASSERT_FALSE(typo.ok());
  EXPECT_THAT(diagnostics_of(typo.error()),
              ElementsAre(HasSubstr("jobs/job.toml:3:18: switch-latency: expected a time")));
}

TEST(PlanJob, AScheduleFileBringsItsMicroBatches) {
  const auto job = make_job({}, {option("profile", {"p.csv"}), option("schedule", {"lists.csv"})});
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_TRUE(job->schedule_is_file);
}

TEST(PlanJob, TheSameKeyInTwoSpellingsIsAFault) {
  const auto job = job_of("profile = \"p\"\nmin-dwell = 1\nmin_dwell = 2\nmicrobatches = 1");
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(job.error().text(), HasSubstr("min-dwell is given twice"));
}

TEST(PlanJob, TextNumbersAndListsAreReadAsTomlWritesThem) {
  const auto job = job_of(
      "# a comment\n"
      "'profile' = 'back\\slash' # literal text\n"
      "job = \"tab\\t \\u00e9 \\U0001F600 \\\"quoted\\\" # no comment\"\n"
      "microbatches = +1_000\n"
      "load = [ # over lines\n  5e-3,\n  '1ms' ,\n]\n");
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->profile, "jobs/back\\slash");
  EXPECT_EQ(job->name, "tab\t \xc3\xa9 \xf0\x9f\x98\x80 \"quoted\" # no comment");
  EXPECT_EQ(job->micro_batches, 1000);
  EXPECT_THAT(job->load, ElementsAre(Seconds{0.005}, Seconds{0.001}));
}

TEST(PlanJob, WhatIsNoTomlOfAJobFileIsNamedLineByLine) {
  const auto job = job_of(
      "\nprofile = p.csv\njob = \"open\nout = 'a' 'b'\nload = [1 2]\nstages\na.b = 1\n"
      "= 5\nreduce = \njob = \"\"\"x\"\"\"\njob = \"\\x\"\njob = \"\\ud800\"\nfit = TRUE\n"
      "[plan]\nload = [1,\n");
  ASSERT_FALSE(job.ok());
  EXPECT_THAT(
      diagnostics_of(job.error()),
      ElementsAre(
          HasSubstr(":2:11: expected a number, true, false, or text in quotes"),
          HasSubstr(":3:7: this quote is not closed"),
          HasSubstr(":4:11: expected the end of the line"), HasSubstr(":5:11: expected ',' or ']'"),
          HasSubstr(":6:7: expected '='"), HasSubstr(":8:1: expected a key"),
          HasSubstr(":9:10: expected a value"), HasSubstr(":10:7: text over several lines is not"),
          HasSubstr(":11:8: unknown escape"), HasSubstr(":12:8: this is not a valid character"),
          HasSubstr(":13:7: expected a number, true"), HasSubstr(":15:8: this list is not closed"),
          HasSubstr(":7:1: unknown key 'a'"), HasSubstr(":14:1: unknown key 'plan'")));
}

TEST(PlanJob, ByteOrderMarkAndWindowsLineEndsAreAccepted) {
  const auto job = job_of("\xef\xbb\xbfprofile = \"p.csv\"\r\nmicrobatches = 4\r\n");
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->micro_batches, 4);
}

}  // namespace
}  // namespace harpe::command
