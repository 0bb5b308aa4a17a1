#include "harpe/command/plan_cli/cluster.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "harpe/command/command/text_layout.h"
#include "harpe/command/plan_cli/plan_job.h"

namespace harpe::command {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// 16 pipelines of 64 GPUs, in 128 nodes: 720 h are 259 200 iterations of 10 s.
carbon::ClusterTerms large_cluster() {
  return {.pipelines = 16,
          .host_power = 1000_W,
          .pue = 1.2,
          .price = carbon::EnergyPrice{.per_kwh = 0.10, .currency = "EUR"},
          .intensity = parse_intensity("400").value()};
}
ClusterCosts costs_there() {
  return {.gpus_per_pipeline = 64,
          .plan = {.time = 10_s, .energy = 200'000_J},
          .all_max = {.time = 10_s, .energy = 250'000_J},
          .one_clock = ClusterCosts::OneClock{.cost = {.time = 10_s, .energy = 240'000_J},
                                              .clock = 1395_MHz}};
}

TEST(WrappedText, KeepsTheGroupsOfANumberOnALine) {
  EXPECT_EQ(wrapped_text("needs no less than 395 448.6 J of 1 395 448 J", 22),
            "needs no less than\n  395 448.6 J of\n  1 395 448 J\n");
  EXPECT_EQ(wrapped_text("stage 2 of 1410 MHz", 12), "stage 2 of\n  1410 MHz\n");
}

TEST(Cluster, IsSaidInPlainWords) {
  // By hand: see cluster_bill_test.cc.
  EXPECT_EQ(cluster_text(large_cluster(), costs_there()),
            "In plain words: for 1 024 GPUs (16 pipelines of 64) the site draws 537.6 kW under "
            "this plan. "
            "In a month of 720 h they do "
            "259 200 iterations for 387 072 kWh, 155 t of CO2 and 38 707 EUR.\n"
            "Against all-max, this plan saves 69 120 kWh, 27.6 t of CO2 and 6 912 EUR (15.2 %).\n"
            "Against the best one clock for all GPUs that is no slower (1395 MHz), this plan saves "
            "55 296 kWh, 22.1 t of CO2 and 5 530 EUR (12.5 %).\n"
            "Counted with: PUE 1.2; 1000 W of host power for each of 128 nodes; 400 g/kWh "
            "(given); 0.1 EUR/kWh.\n");
}

TEST(Cluster, RowsOfATableHaveTheSameFigures) {
  const auto facts = cluster_facts(large_cluster(), costs_there());
  ASSERT_EQ(facts.size(), 4U);
  EXPECT_EQ(facts[0],
            std::pair(std::string("1 024 GPUs (16 pipelines of 64) in 720 h"),
                      std::string("537.6 kW; 387 072 kWh, 155 t of CO2 and 38 707 EUR for "
                                  "259 200 iterations")));
  EXPECT_EQ(facts[1].second, "69 120 kWh, 27.6 t of CO2 and 6 912 EUR");
  EXPECT_EQ(facts[2].second, "55 296 kWh, 22.1 t of CO2 and 5 530 EUR");
  EXPECT_THAT(facts[3].second, HasSubstr("PUE 1.2"));
}

TEST(Cluster, AMarginalIntensityIsSaidToBeNoInventory) {
  carbon::ClusterTerms terms = large_cluster();
  EXPECT_THAT(cluster_text(terms, costs_there()), Not(HasSubstr("inventory")));
  terms.intensity->kind = IntensityKind::kMarginal;
  EXPECT_THAT(cluster_text(terms, costs_there()), HasSubstr("not for an inventory"));
}

TEST(Cluster, WhatIsNotGivenIsLeftOutAndSaid) {
  carbon::ClusterTerms terms{.pipelines = 2};
  EXPECT_THAT(cluster_text(terms, costs_there()),
              AllOf(HasSubstr("PUE 1 (--pue"), HasSubstr("host power not counted (--host-power)"),
                    Not(HasSubstr("CO2")), Not(HasSubstr("/kWh"))));
  const Json json = cluster_json(terms, costs_there());
  for (const char* key : {"co2_t", "money", "currency", "price_per_kwh", "carbon"})
    EXPECT_TRUE(json[key].is_null()) << key;
  EXPECT_TRUE(json["saved"]["co2_t"].is_null());
  terms.price = carbon::EnergyPrice{.per_kwh = 0.12};
  terms.intensity = parse_intensity("DE").value();
  const std::string text = cluster_text(terms, costs_there());
  EXPECT_THAT(text, AllOf(HasSubstr("g/kWh (DE, average, life cycle, Ember"), HasSubstr("0.12/kWh"),
                          Not(HasSubstr("EUR"))));
  EXPECT_TRUE(cluster_json(terms, costs_there())["currency"].is_null());
}

TEST(Cluster, TheJsonHasTheSameFigures) {
  const Json json = cluster_json(large_cluster(), costs_there());
  EXPECT_EQ(json["gpus"], 1024);
  EXPECT_EQ(json["currency"], "EUR");
  EXPECT_NEAR(json["kw"].get<double>(), 537.6, 1e-9);
  EXPECT_NEAR(json["kwh"].get<double>(), 387'072, 1e-6);
  EXPECT_NEAR(json["co2_t"].get<double>(), 154.8288, 1e-9);
  EXPECT_NEAR(json["money"].get<double>(), 38'707.2, 1e-8);
  EXPECT_NEAR(json["saved"]["kwh"].get<double>(), 69'120, 1e-6);
  EXPECT_NEAR(json["saved"]["money"].get<double>(), 6'912, 1e-8);
  EXPECT_NEAR(json["saved_against_one_clock"]["co2_t"].get<double>(), 22.1184, 1e-9);
  EXPECT_EQ(json["saved_against_one_clock"]["frequency_mhz"], 1395);
}

TEST(Cluster, AnAlternativeThatIsFasterOrCheaperIsSaidToBe) {
  ClusterCosts costs = costs_there();
  costs.all_max.time = 8_s;
  costs.one_clock->cost.energy = 190'000_J;
  EXPECT_THAT(
      cluster_text(large_cluster(), costs),
      AllOf(
          HasSubstr("Against all-max, which needs 576 h for the same iterations, this plan saves"),
          HasSubstr("1395 MHz), this plan needs 13 824 kWh, 5.53 t of CO2 and 1 382 EUR "
                    "more (3.7 %).")));
  costs.one_clock->cost = costs.plan;
  EXPECT_THAT(cluster_text(large_cluster(), costs),
              HasSubstr("1395 MHz), this plan saves nothing."));
  costs.one_clock.reset();
  EXPECT_THAT(cluster_text(large_cluster(), costs), Not(HasSubstr("one clock")));
  EXPECT_TRUE(cluster_json(large_cluster(), costs)["saved_against_one_clock"].is_null());
}

/// Returns the job for these pairs of key and value.
Result<PlanJob> job_of(const std::vector<std::pair<std::string_view, std::string>>& options) {
  std::vector<JobEntry> entries;
  for (const auto& [name, value] : options) {
    const auto key = std::ranges::find(job_keys(), name, &JobKey::name);
    entries.push_back({.key = &*key, .values = {value}});
  }
  return make_part_of_job({}, entries);
}

TEST(Cluster, TermsAreReadFromOptions) {
  const auto job = job_of({{"pipelines", "128"},
                           {"hours", "30d"},
                           {"price", "0.10 EUR/kWh"},
                           {"carbon", "fr"},
                           {"pue", "1.2"},
                           {"host-power", "1.5kW"},
                           {"gpus-per-node", "4"}});
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_TRUE(job->cluster.given());
  const auto terms = cluster_terms(job->cluster);
  ASSERT_TRUE(terms.ok()) << terms.error().text();
  EXPECT_EQ(terms->pipelines, 128);
  EXPECT_EQ(terms->time, carbon::kMonth);
  EXPECT_EQ(terms->price->currency, "EUR");
  EXPECT_EQ(terms->intensity->grams_per_kwh, 56);
  EXPECT_EQ(terms->pue, 1.2);
  EXPECT_EQ(terms->host_power, 1500_W);
  EXPECT_EQ(terms->gpus_per_node, 4);
  EXPECT_FALSE(job_of({})->cluster.given());
  EXPECT_EQ(job_of({{"hours", "8760"}})->cluster.time, Seconds{8760 * 3600.0});
}

TEST(Cluster, WhatCannotBeIsRefusedByItsName) {
  const auto refused = [](std::string_view name, const std::string& value) {
    const auto job = job_of({{name, value}});
    return job.ok() ? "accepted" : job.error().text();
  };
  EXPECT_THAT(refused("pipelines", "0"), HasSubstr("--pipelines: expected a whole number from 1"));
  EXPECT_THAT(refused("pipelines", "-3"), HasSubstr("--pipelines: expected"));
  EXPECT_THAT(refused("gpus-per-node", "0"), HasSubstr("--gpus-per-node: expected"));
  EXPECT_THAT(refused("hours", "0"), HasSubstr("--hours: expected more than 0 hours"));
  EXPECT_THAT(refused("hours", "-1"), HasSubstr("--hours: expected more than 0 hours"));
  EXPECT_THAT(refused("hours", "-1h"), HasSubstr("--hours: expected"));
  EXPECT_THAT(refused("hours", "month"), HasSubstr("--hours: expected hours such as 720"));
  EXPECT_THAT(refused("hours", "100000"), HasSubstr("at most 10 years"));
  EXPECT_THAT(refused("pue", "0.9"), HasSubstr("--pue: a PUE is"));
  EXPECT_THAT(refused("pue", "120%"), HasSubstr("--pue: a PUE is"));
  EXPECT_THAT(refused("pue", "20%"), HasSubstr("; write 1.2 for 20 % more"));
  EXPECT_THAT(refused("pue", "1,3"), HasSubstr("; use a point: 1.3"));
  EXPECT_THAT(refused("hours", "0,5"), HasSubstr("; use a point: 0.5"));
  EXPECT_THAT(refused("host-power", "20%"), HasSubstr("; a percentage is not accepted"));
  EXPECT_THAT(refused("carbon", "302,5"), HasSubstr("'302,5'; use a point: 302.5"));
  EXPECT_THAT(refused("host-power", "-5"), HasSubstr("--host-power: '-5' is negative"));
  EXPECT_THAT(refused("price", "-0.10/kWh"), HasSubstr("is negative"));
  EXPECT_THAT(refused("price", "0.10 ERU/kWh"), HasSubstr("did you mean EUR?"));
  EXPECT_THAT(refused("price", "0.10/GJ"), HasSubstr("--price: expected a price"));
  EXPECT_THAT(refused("carbon", "-1"), HasSubstr("--carbon: a carbon intensity of '-1' g/kWh"));
  EXPECT_THAT(refused("carbon", "0.4"), HasSubstr("looks like kg/kWh"));
  EXPECT_THAT(refused("carbon", "XX"), HasSubstr("--carbon: unknown source 'XX'"));
  EXPECT_THAT(refused("carbon", "electricty-maps:DE"), HasSubstr("did you mean electricity-maps?"));
  const auto job = job_of({{"carbon", "file:/no/such/file.csv"}});
  EXPECT_THAT(cluster_terms(job->cluster).error().text(), HasSubstr("/no/such/file.csv"));
}

TEST(Cluster, AFileOfIntensitiesIsRelativeToTheJobFile) {
  const auto entries = parse_job("carbon = \"file:grid/de.csv\"\n", "jobs/job.toml");
  ASSERT_TRUE(entries.ok()) << entries.error().text();
  EXPECT_EQ(make_part_of_job(*entries, {})->cluster.carbon->path, "jobs/grid/de.csv");
  const auto whole = parse_job("carbon = \"file:/grid/de.csv\"\nhours = 24\n", "jobs/job.toml");
  EXPECT_EQ(make_part_of_job(*whole, {})->cluster.carbon->path, "/grid/de.csv");
  EXPECT_EQ(make_part_of_job(*whole, {})->cluster.time, Seconds{86'400});
}

}  // namespace
}  // namespace harpe::command
