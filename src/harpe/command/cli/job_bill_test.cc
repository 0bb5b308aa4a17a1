#include "harpe/command/cli/job_bill.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace harpe::command {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Four pipelines of 16 GPUs. An iteration takes 0.2 s in addition to its computations.
Json training() {
  return Json::parse(R"({
      "data": 4, "stages": 8, "tensor": 2, "stragglers": [], "predicted_time_s": 2.2,
      "plans": [{"pipelines": 4, "time_s": 2.0, "energy_j": 8000, "slowdown_to_all_max": 0.25,
                 "saving_to_all_max": 0.2}],
      "energy_j": 3.6e8, "saved_j": 7.2e7, "saved_error_j": 3.6e6})");
}
carbon::ClusterTerms terms() {
  return {.pue = 1.5,
          .time = Seconds{220 * 3600.0},
          .price = carbon::EnergyPrice{.per_kwh = 0.10, .currency = "EUR"},
          .intensity = parse_intensity("400").value()};
}

TEST(JobBill, CountsAllPipelinesUnderThePlansInForce) {
  // 220 h are 360 000 iterations of 2.2 s with 4 x 8 kJ each: 3200 kWh, or 4800 kWh with the PUE.
  const Json bill = job_bill_json(training(), terms());
  EXPECT_EQ(bill["gpus"], 64);
  EXPECT_EQ(bill["pipelines"], 4);
  EXPECT_NEAR(bill["iterations"].get<double>(), 360'000, 1e-6);
  EXPECT_NEAR(bill["kwh"].get<double>(), 4800, 1e-6);
  EXPECT_NEAR(bill["money"].get<double>(), 480, 1e-7);
  // 10 kJ at all-max: 6000 kWh, in iterations of 1.6 s plus 0.2 s.
  EXPECT_NEAR(bill["saved"]["kwh"].get<double>(), 1200, 1e-6);
  EXPECT_NEAR(bill["saved"]["hours_instead"].get<double>(), 180, 1e-6);
  EXPECT_TRUE(bill["saved_against_one_clock"].is_null());
  EXPECT_NEAR(bill["measured"]["used"]["kwh"].get<double>(), 150, 1e-9);
  EXPECT_NEAR(bill["measured"]["saved"]["money"].get<double>(), 3, 1e-9);
}

TEST(JobBill, SaysWhatWasMeasuredAsFarAsThatIsMoreThanItsError) {
  Json status = training();
  EXPECT_THAT(
      job_bill_text(status, terms()),
      AllOf(HasSubstr("64 GPUs (4 pipelines of 16) the site draws"),
            HasSubstr("Measured so far: its GPUs used 150 kWh, 60.0 kg of CO2 and 15.00 EUR "
                      "and saved 30.0 kWh, 12.0 kg of CO2 and 3.00 EUR against all-max.")));
  status["saved_error_j"] = 8e7;
  EXPECT_THAT(job_bill_text(status, terms()),
              AllOf(HasSubstr("cannot be distinguished from zero"), Not(HasSubstr("and saved"))));
}

TEST(JobBill, OneClockForAllHasTheSameTimeBesideComputations) {
  Json status = training();
  EXPECT_THAT(job_bill_text(status, terms()), HasSubstr("one clock for all GPUs: no figures. No"));
  status["plans"][0]["one_clock"] = {{"frequency_mhz", 1290}, {"time_s", 1.8}, {"energy_j", 9000}};
  // 360 000 iterations with 4 x 9 kJ each: 5400 kWh with the PUE. Each takes 2.0 s.
  const Json saved = job_bill_json(status, terms())["saved_against_one_clock"];
  EXPECT_NEAR(saved["kwh"].get<double>(), 600, 1e-6);
  EXPECT_NEAR(saved["hours_instead"].get<double>(), 200, 1e-6);
  EXPECT_EQ(saved["frequency_mhz"], 1290);
  EXPECT_THAT(job_bill_text(status, terms()),
              AllOf(HasSubstr("no slower (1290 MHz)"), Not(HasSubstr("no figures"))));
}

TEST(JobBill, OneClockIsNotKnownBesideAStragglerOrIfPipelinesHaveDifferentOnes) {
  Json one_plan = training();
  one_plan["plans"][0]["one_clock"] = {{"frequency_mhz", 1290}, {"time_s", 2}, {"energy_j", 9000}};
  Json declared = one_plan, by_objective = one_plan, differing = one_plan;
  declared["stragglers"] = Json::parse(R"([{"pipeline": 3}])");
  by_objective["objective"] = {{"straggler_factor", 1.2}};
  differing["plans"].push_back(differing["plans"][0]);
  differing["plans"][1]["one_clock"]["frequency_mhz"] = 1410;
  EXPECT_TRUE(job_costs(one_plan)->one_clock.has_value());
  for (const Json& status : {declared, by_objective, differing}) {
    EXPECT_FALSE(job_costs(status)->one_clock.has_value());
  }
  EXPECT_THAT(job_bill_text(by_objective, terms()), HasSubstr("wait for a straggler"));
}

TEST(JobBill, TermsOfTheSpecificationHoldWhereNoOptionIsGiven) {
  Json status = training();
  EXPECT_TRUE(cluster_entries(status).empty());
  status["cluster_terms"] = {
      {"price", "0.10 EUR/kWh"}, {"carbon", "400"}, {"pue", 1.2}, {"hours", 100.0}, {"unknown", 1}};
  const auto key = std::ranges::find(job_keys(), "pue", &JobKey::name);
  const auto job = make_part_of_job(cluster_entries(status), {{.key = &*key, .values = {"1.5"}}});
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->cluster.pue, 1.5);
  EXPECT_EQ(job->cluster.time, Seconds{360'000});
  EXPECT_EQ(job->cluster.price->currency, "EUR");
  EXPECT_TRUE(job->cluster.carbon.has_value());
}

TEST(JobBill, PlansOfStragglersCountByTheirPipelinesAndAllMaxWaitsForThem) {
  Json status = training();
  status["stragglers"] = Json::parse(R"([{"pipeline": 3}])");
  status["plans"] = Json::parse(R"([
      {"pipelines": 3, "time_s": 2.0, "energy_j": 8000, "slowdown_to_all_max": 0.25,
       "saving_to_all_max": 0.2},
      {"pipelines": 1, "time_s": 1.6, "energy_j": 10000, "slowdown_to_all_max": 0,
       "saving_to_all_max": 0}])");
  const auto costs = job_costs(status);
  ASSERT_TRUE(costs.has_value());
  EXPECT_DOUBLE_EQ(costs->plan.energy.value, 8500);
  EXPECT_DOUBLE_EQ(costs->all_max.energy.value, 10'000);
  EXPECT_DOUBLE_EQ(costs->plan.time.value, 2.2);
  EXPECT_DOUBLE_EQ(costs->all_max.time.value, 2.2);
}

TEST(JobBill, WithoutAPlanThereIsNone) {
  for (const char* status :
       {R"({"data": 4})", R"({"data": 4, "plans": []})",
        R"({"data": 4, "plans": [{"pipelines": 4, "time_s": 2, "energy_j": 8}]})"}) {
    EXPECT_TRUE(job_bill_json(Json::parse(status), terms()).is_null());
    EXPECT_EQ(job_bill_text(Json::parse(status), terms()), "No bill yet: the job has no plan.\n");
  }
}

}  // namespace
}  // namespace harpe::command
