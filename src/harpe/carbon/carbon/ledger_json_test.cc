#include "harpe/carbon/carbon/ledger_json.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace harpe::carbon {
namespace {

using namespace harpe::literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string refusal_of(const std::string& text) {
  const auto runs = parse_ledger(text, "a.json");
  return runs.ok() ? "read" : runs.error().text();
}

std::string one_run(const std::string& intervals) {
  return R"({"format": "harpe.energy/1", "runs": [{"id": "a", "intervals": )" + intervals + "}]}";
}

TEST(LedgerJson, ReadsWhatItWrites) {
  const std::uint64_t seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::uniform_real_distribution<double> number(0, 1e5);
  LedgerRun run{.id = "4f0c.2",
                .job = "gpt3 \"big\"",
                .run = "march",
                .start = 2,
                .user = "alice",
                .devices = 64,
                .tokens_per_iteration = 4194304,
                .simulated = true,
                .device_ids = {"GPU-1"},
                .meters = {"reported by ranks"},
                .notes = {"hosts were not measured"}};
  for (int i = 0; i < 200; ++i) {
    const double from = 1.79e9 + 100 * number(random), energy = number(random) + 1;
    ASSERT_TRUE(run.ledger
                    .add(from, from + number(random),
                         {.energy = {energy},
                          .host = {energy / 3},
                          .variance = energy,
                          .sensor_error = {energy / 20},
                          .without_error = {energy / 7},
                          .device_time = {energy / 1000 + number(random)},  // below 5 kW per device
                          .iterations = number(random),
                          .paused = {number(random)}})
                    .ok());
  }
  const auto read = parse_ledger(ledger_json({run, LedgerRun{.id = "other"}}), "a.json");
  ASSERT_TRUE(read.ok()) << read.error().text();
  ASSERT_EQ(read->size(), 2U);
  const LedgerRun& first = read->front();
  EXPECT_EQ(first.id, run.id);
  EXPECT_EQ(first.job, run.job);
  EXPECT_EQ(first.run, "march");
  EXPECT_EQ(first.tokens_per_iteration, 4194304);
  EXPECT_EQ(read->back().tokens_per_iteration, 0);
  EXPECT_EQ(first.start, 2);
  EXPECT_EQ(first.user, "alice");
  EXPECT_EQ(first.devices, 64);
  EXPECT_TRUE(first.simulated);
  EXPECT_THAT(first.device_ids, ElementsAre("GPU-1"));
  EXPECT_THAT(first.meters, ElementsAre("reported by ranks"));
  EXPECT_THAT(first.notes, ElementsAre("hosts were not measured"));
  ASSERT_EQ(first.ledger.size(), run.ledger.size());
  for (const auto& [start, use] : run.ledger.uses()) {
    const EnergyUse& again = first.ledger.uses().at(start);
    EXPECT_NEAR(again.energy.value, use.energy.value, 1e-6);
    EXPECT_NEAR(again.host.value, use.host.value, 1e-6);
    EXPECT_NEAR(again.half_width().value, use.half_width().value, 1e-6);
    EXPECT_NEAR(again.device_time.value, use.device_time.value, 1e-6);
    EXPECT_NEAR(again.iterations, use.iterations, 1e-6);
  }
  EXPECT_TRUE(read->back().user.empty());
}

TEST(LedgerJson, TakesTheColumnsThatItKnows) {
  const auto read = parse_ledger(
      one_run(
          R"({"step_s": 900, "columns": ["new", "energy_j", "start"], "rows": [[7, 5, 1800]]})"),
      "a.json");
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read->front().ledger.uses().at(UtcTime{1800}).energy.value, 5);
}

TEST(LedgerJson, ReadsTheReportOfACommand) {
  const auto read = parse_ledger(
      R"({"format": "harpe.run/1", "id": "77", "command": ["python", "train.py"],
          "simulated": true, "notes": ["shared"], "total": {},
          "devices": [{"kind": "gpu", "uuid": "GPU-a", "measured": {"source": "counter"}},
                      {"kind": "gpu", "uuid": "GPU-b", "measured": {"source": "counter"}},
                      {"kind": "cpu", "measured": null}],
          "intervals": {"step_s": 300, "columns": ["start", "energy_j"], "rows": [[300, 2]]}})",
      "a.json");
  ASSERT_TRUE(read.ok()) << read.error().text();
  ASSERT_EQ(read->size(), 1U);
  EXPECT_EQ(read->front().job, "python train.py");
  EXPECT_EQ(read->front().devices, 2);
  EXPECT_THAT(read->front().device_ids, ElementsAre("GPU-a", "GPU-b"));
  EXPECT_THAT(read->front().meters, ElementsAre("gpu: counter"));
  EXPECT_EQ(read->front().ledger.total().energy.value, 2);
}

TEST(LedgerJson, RowsOfAReportAddUpToItsTotal) {
  const auto report = [](const std::string& total) {
    return R"({"format": "harpe.run/1", "id": "77", "command": ["true"],
               "total": {"energy_j": )" +
           total + R"(}, "devices": [], "intervals":
               {"step_s": 300, "columns": ["start", "energy_j"], "rows": [[300, 2], [600, 3]]}})";
  };
  EXPECT_TRUE(parse_ledger(report("5.0000004"), "a.json").ok());
  EXPECT_TRUE(parse_ledger(report("null"), "a.json").ok()) << "it was not measured";
  EXPECT_THAT(refusal_of(report("4")), HasSubstr("add up to 5 J, but the total is 4 J"));
}

TEST(LedgerJson, SaysWhatIsWrongAndWhere) {
  EXPECT_THAT(refusal_of("{"), HasSubstr("a.json:1"));
  EXPECT_THAT(refusal_of("[]"), HasSubstr("a.json:1:1"));
  EXPECT_THAT(refusal_of(R"({"format": "harpe.energy/2", "runs": []})"),
              HasSubstr("later version of Harpe"));
  EXPECT_THAT(refusal_of(R"({"format": "other"})"), HasSubstr("harpe run --out"));
  EXPECT_THAT(refusal_of(R"({"command": ["make"], "total": {}})"),
              HasSubstr("no energy by interval"));
  EXPECT_THAT(refusal_of(R"({"format": "harpe.energy/1", "runs": [{"job": "x"}]})"),
              AllOf(HasSubstr("id: expected"), HasSubstr("intervals: expected")));
  const auto rows = [](const std::string& columns, const std::string& text) {
    return refusal_of(
        one_run(R"({"step_s": 900, "columns": )" + columns + R"(, "rows": )" + text + "}"));
  };
  const std::string both = R"(["start", "energy_j"])";
  EXPECT_THAT(rows(both, "[[900]]"), HasSubstr("2 numbers"));
  EXPECT_THAT(rows(both, "[[900, 1e15]]"), HasSubstr("the highest possible power"));
  EXPECT_THAT(rows(both, "[[901, 1]]"), HasSubstr("multiple of the step"));
  EXPECT_THAT(rows(both, "[[-900, 1]]"), HasSubstr("since 1970"));
  EXPECT_THAT(rows(both, "[[900, -1]]"), HasSubstr("negative"));
  EXPECT_THAT(rows(both, "[[900, null]]"), HasSubstr("numbers"));
  EXPECT_THAT(rows(both, "[[900, 1e19]]"), HasSubstr("1e18"));
  EXPECT_THAT(rows(both, "[[900, 1], [900, 2]]"), HasSubstr("twice"));
  EXPECT_THAT(rows(R"(["start", "energy_j", "host_j"])", "[[900, 5, 6]]"), HasSubstr("parts"));
  EXPECT_THAT(rows(R"(["start", "energy_j", "without_error_j"])", "[[900, 5, 5.1]]"),
              HasSubstr("parts"));
  EXPECT_THAT(rows(R"(["start", "energy_j", "device_s"])", "[[900, 1e15, 900]]"),
              HasSubstr("more than 5000 W"));
  EXPECT_THAT(rows(R"(["energy_j"])", "[[1]]"), HasSubstr("'start'"));
  EXPECT_THAT(refusal_of(one_run(R"({"step_s": 7, "columns": ["start"], "rows": []})")),
              HasSubstr("divide a day"));
  EXPECT_THAT(refusal_of(one_run(R"({"step_s": 900, "columns": ["start"]})")), HasSubstr("rows"));
}

}  // namespace
}  // namespace harpe::carbon
