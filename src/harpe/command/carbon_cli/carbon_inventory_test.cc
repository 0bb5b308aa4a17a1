#include "harpe/command/carbon_cli/carbon_inventory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <regex>

#include "harpe/base/csv.h"
#include "harpe/command/carbon_cli/inventory_view.h"

namespace harpe::command {
namespace {

using namespace harpe::literals;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::int64_t kMidnight = 1'795'564'800;  // 2026-11-25

/// Returns a run of one device that draws 1 kW for `hours` hours from `start`.
carbon::LedgerRun kilowatt(const std::string& job, const std::string& user, std::int64_t start,
                           int hours) {
  carbon::LedgerRun run{.id = job + std::to_string(start),
                        .job = job,
                        .user = user,
                        .devices = 1,
                        .meters = {"gpu: counter"}};
  const double time = 3600.0 * hours;
  EXPECT_TRUE(run.ledger
                  .add(static_cast<double>(start), static_cast<double>(start) + time,
                       {.energy = {1000 * time},
                        .variance = 1e8,
                        .sensor_error = {50 * time},
                        .device_time = {time},
                        .measured = {time},
                        .iterations = 10.0 * hours})
                  .ok());
  return run;
}

/// The intensity of an hour is 100 g/kWh plus 10 times the hour of the day; `missing` has none.
FindIntensity hours(IntensityKind kind = IntensityKind::kAverageLifecycle, int missing = -1) {
  return [kind, missing](carbon::UtcTime from,
                         carbon::UtcTime to) -> Result<carbon::AccountingIntensity> {
    carbon::IntensitySeries series{
        .start = {from.since_1970 / 3600 * 3600}, .kind = kind, .zone = "DE"};
    for (carbon::UtcTime time = series.start; time < to; time += carbon::whole_hours(1)) {
      const auto hour = time.since_1970 / 3600 % 24;
      series.values.push_back(hour == missing ? carbon::kNoValue
                                              : 100 + 10 * static_cast<double>(hour));
      series.estimated.push_back(0);
    }
    carbon::AccountingIntensity found{
        .identity = {.provider = "example", .zone = "DE", .kind = kind},
        .data_source = "example.org",
        .fetched_from = carbon::UtcTime{kMidnight},
        .fetched_to = carbon::UtcTime{kMidnight}};
    found.intensity.bases.assign(series.size(), carbon::IntensityBasis::kMeasured);
    for (std::size_t i = 0; i < series.size(); ++i) {
      if (!series.known(i)) found.intensity.bases[i] = carbon::IntensityBasis::kNone;
    }
    found.intensity.series = std::move(series);
    return found;
  };
}

CarbonInventory two_jobs(InventoryTerms terms = {}, const FindIntensity& find = hours(),
                         const FindIntensity& contract = {}) {
  auto made = make_inventory(
      {kilowatt("gpt3", "alice", kMidnight, 2), kilowatt("bert", "bob", kMidnight + 3600, 1),
       kilowatt("gpt3", "bob", kMidnight + 40 * 86'400, 1)},
      terms, find, contract);
  EXPECT_TRUE(made.ok()) << made.error().text();
  CarbonInventory inventory = *std::move(made);
  inventory.source = "example:DE";
  return inventory;
}

TEST(CarbonInventory, SumsByJobAndUser) {
  const CarbonInventory by_job = two_jobs();
  ASSERT_EQ(by_job.rows.size(), 2U);
  EXPECT_EQ(by_job.rows[0].name, "gpt3");
  EXPECT_NEAR(by_job.rows[0].account.operational.value, 100 + 110 + 100, 1e-9);
  EXPECT_NEAR(by_job.rows[1].account.operational.value, 110, 1e-9);
  EXPECT_NEAR(by_job.total.operational.value, 420, 1e-9);
  EXPECT_EQ(by_job.stretches.size(), 2U) << "nothing is asked of the weeks between";
  const CarbonInventory by_user = two_jobs({.by = InventoryBy::kUser});
  ASSERT_EQ(by_user.rows.size(), 2U);
  for (const InventoryRow& row : by_user.rows) {
    EXPECT_NEAR(row.account.operational.value, 210, 1e-9) << row.name;
  }
  EXPECT_EQ(two_jobs({.by = InventoryBy::kRun}).rows.size(), 3U);
}

TEST(CarbonInventory, StatesSciPerUnit) {
  InventoryTerms terms{.account = {.pue = 1.5, .embodied = EmbodiedCarbon{{3600}, {3600}}},
                       .unit = {.name = "iteration"}};
  const CarbonInventory inventory = two_jobs(terms);
  EXPECT_NEAR(inventory.units(), 40, 1e-9);
  // 4 device-hours at 3600 g per hour, plus 420 g times the PUE of 1.5, over 40 iterations.
  EXPECT_THAT(sci_sentence(inventory), AllOf(HasSubstr("375.75 g CO2eq per iteration"),
                                             HasSubstr("E x I = 15.75 g"), HasSubstr("21031")));
  terms.unit = {.name = "token", .count = 1000};
  EXPECT_THAT(sci_sentence(two_jobs(terms)), HasSubstr("15.03 g CO2eq per token (R = 1 000)"));
  terms.account.embodied.reset();
  EXPECT_THAT(sci_sentence(two_jobs(terms)),
              AllOf(HasSubstr("O = E x I"), HasSubstr("--embodied"), Not(HasSubstr("21031"))));
  EXPECT_THAT(sci_sentence(two_jobs({}, hours(IntensityKind::kAverageDirect, 1))),
              HasSubstr("not stated"));
}

TEST(CarbonInventory, CountsTokensThatEachJobTellsOf) {
  const InventoryTerms terms{.unit = {.name = "token"}};
  carbon::LedgerRun gpt3 = kilowatt("gpt3", "alice", kMidnight, 2);
  carbon::LedgerRun bert = kilowatt("bert", "bob", kMidnight, 1);
  gpt3.tokens_per_iteration = 4e6;
  const auto unknown = make_inventory({gpt3, bert}, terms, hours(), {});
  ASSERT_FALSE(unknown.ok());
  EXPECT_THAT(unknown.error().text(), AllOf(HasSubstr("'bert'"), HasSubstr("--units N")));
  bert.tokens_per_iteration = 1e6;
  const CarbonInventory inventory = make_inventory({gpt3, bert}, terms, hours(), {}).value();
  EXPECT_NEAR(inventory.units(), 20 * 4e6 + 10 * 1e6, 1);
  EXPECT_NEAR(inventory.units_of(inventory.rows[1]), 10 * 1e6, 1);
  EXPECT_THAT(method_statement(inventory), Contains(HasSubstr("Tokens: iterations")));
  // A number that the user declares takes precedence.
  const InventoryTerms told{.unit = {.name = "token", .count = 7}};
  EXPECT_EQ(make_inventory({gpt3, bert}, told, hours(), {}).value().units(), 7);
}

TEST(CarbonInventory, ShadesPausesInThePage) {
  carbon::LedgerRun run = kilowatt("gpt3", "alice", kMidnight, 2);
  EXPECT_THAT(inventory_page(make_inventory({run}, {}, hours(), {}).value()),
              Not(HasSubstr("paused")));
  ASSERT_TRUE(
      run.ledger.add(kMidnight + 3600, kMidnight + 7200, {.device_time = {3600}, .paused = {3600}})
          .ok());
  EXPECT_THAT(inventory_page(make_inventory({run}, {}, hours(), {}).value()),
              HasSubstr(": paused: gpt3 100 % of it"));
}

TEST(CarbonInventory, ListsAContractBesideTheGridAndNeverInItsPlace) {
  const FindIntensity none = [](carbon::UtcTime from, carbon::UtcTime to) {
    auto found = hours()(from, to);
    for (double& value : found->intensity.series.values) value = 0;
    return found;
  };
  const CarbonInventory inventory = two_jobs({}, hours(), none);
  EXPECT_NEAR(inventory.total.operational.value, 420, 1e-9);
  ASSERT_TRUE(inventory.total_contract.has_value());
  EXPECT_EQ(inventory.total_contract->operational.value, 0);
  EXPECT_TRUE(inventory.total_contract->market_based);
  EXPECT_THAT(inventory_text(inventory, 0, false), HasSubstr("market-based"));
  EXPECT_THAT(method_statement(inventory), Contains(HasSubstr("SCI uses only location-based")));
}

TEST(CarbonInventory, SaysThatMarginalGramsAreNoInventory) {
  const CarbonInventory inventory = two_jobs({}, hours(IntensityKind::kMarginal));
  EXPECT_THAT(method_statement(inventory), Contains(HasSubstr("They are not an inventory")));
  EXPECT_THAT(inventory_page(inventory), HasSubstr("They are not an inventory"));
}

TEST(CarbonInventory, SaysEverythingThatTheNumbersStandOn) {
  std::string text;
  for (const std::string& line : method_statement(
           two_jobs({.account = {.pue = 1.2}}, hours(IntensityKind::kAverageDirect, 1)))) {
    text += line + "\n";
  }
  EXPECT_THAT(
      text, AllOf(HasSubstr("4.000 kWh of devices"), HasSubstr("intervals of 15 min"),
                  HasSubstr("gpu: counter"), HasSubstr("no CPUs"), HasSubstr("PUE of 1.2"),
                  HasSubstr("example:DE"), HasSubstr("average, direct"),
                  HasSubstr("fetched 2026-11-25"), HasSubstr("33 % measured, 67 % no intensity")));
  EXPECT_THAT(text,
              AllOf(HasSubstr("2.400 kWh have no intensity"), HasSubstr("± 0.0048 kWh (95 %)"),
                    HasSubstr("additional error of 0.200 kWh"),
                    HasSubstr("Embodied carbon is not included")));
}

// With mixed units, a row in grams could look larger than a total in kilograms.
TEST(CarbonInventory, HasOneUnitOfEnergyAndOneOfMassThroughout) {
  const CarbonInventory inventory = make_inventory({kilowatt("large", "alice", kMidnight, 40),
                                                    kilowatt("small", "bob", kMidnight, 1)},
                                                   {}, hours(), {})
                                        .value();
  ASSERT_GT(inventory.total.operational.value, 1000);
  ASSERT_LT(inventory.rows.back().account.operational.value, 1000);
  for (const std::string& text : {inventory_text(inventory, 0, false), inventory_page(inventory)}) {
    EXPECT_THAT(text, AllOf(HasSubstr(" kg"), HasSubstr(" kWh")));
    EXPECT_FALSE(std::regex_search(text, std::regex("[0-9] (g|mg|t|Wh|MWh)(?![/a-z])"))) << text;
  }
  EXPECT_THAT(inventory_page(inventory), AllOf(HasSubstr("Energy, kWh in each hour"),
                                               HasSubstr("operation, kg in each hour")));
}

TEST(CarbonInventory, IsTheSameInEveryForm) {
  const CarbonInventory inventory = two_jobs({.account = {.pue = 1.2}});
  const auto json = nlohmann::json::parse(inventory_json(inventory));
  EXPECT_EQ(json["format"], "harpe.carbon_report/1");
  EXPECT_NEAR(json["total"]["grams"].get<double>(), 1.2 * 420, 1e-9);
  double grams = 0;
  for (const auto& row : json["rows"]) grams += row["grams"].get<double>();
  EXPECT_NEAR(grams, 1.2 * 420, 1e-9);
  EXPECT_EQ(json["runs"].size(), 3U);
  EXPECT_EQ(json["intensities"].size(), 2U);
  EXPECT_EQ(json["method"].size(), method_statement(inventory).size());
  EXPECT_THAT(inventory_csv(inventory),
              AllOf(HasSubstr("# Energy: "), HasSubstr("\njob,runs,from,to,energy_kwh"),
                    HasSubstr("\ngpt3,2,2026-11-25T00:00:00Z"), HasSubstr("\ntotal,3,")));
  EXPECT_THAT(inventory_text(inventory, 80, false),
              AllOf(HasSubstr("Method\n"), HasSubstr("gpt3"), HasSubstr("504 ± 26 g")));
  EXPECT_THAT(inventory_page(inventory), AllOf(HasSubstr("<svg"), HasSubstr("gpt3")));
}

TEST(CarbonInventory, IsATableWhateverNamesHold) {
  const auto made = make_inventory(
      {kilowatt("a \"b\", c", "alice", kMidnight, 1), kilowatt("bell\x07", "bob", kMidnight, 1)},
      {.unit = {.name = "image, small"}}, hours(), {});
  ASSERT_TRUE(made.ok()) << made.error().text();
  Diagnostics diagnostics;
  const auto rows = split_csv(inventory_csv(*made), diagnostics);
  EXPECT_TRUE(diagnostics.empty()) << Error::invalid(std::move(diagnostics)).text();
  ASSERT_EQ(rows.size(), 4U);
  for (const CsvRow& row : rows) EXPECT_EQ(row.cells.size(), 17U);
  EXPECT_EQ(rows[0].cells.back().text, "grams_per_image, small");
  EXPECT_EQ(rows[1].cells[0].text, "a \"b\", c");
}

TEST(CarbonInventory, FailsWhereThereIsNothing) {
  const auto none = make_inventory({carbon::LedgerRun{.id = "a", .job = "a"}}, {}, hours(), {});
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code, ErrorCode::kNotFound);
  const auto refused =
      make_inventory({kilowatt("a", "", kMidnight, 1)}, {},
                     [](carbon::UtcTime, carbon::UtcTime) -> Result<carbon::AccountingIntensity> {
                       return Error::of(ErrorCode::kNoPermission, "no token");
                     },
                     {});
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(refused.error().code, ErrorCode::kNoPermission);
}

}  // namespace
}  // namespace harpe::command
