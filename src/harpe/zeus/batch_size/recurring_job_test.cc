#include "harpe/zeus/batch_size/recurring_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace harpe::zeus {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

json zeus_job() {
  return {{"job_id", nullptr},
          {"job_id_prefix", "mnist"},
          {"batch_sizes", {64, 32, 128, 64}},
          {"default_batch_size", 64},
          {"eta_knob", 0.25},
          {"beta_knob", 1.5},
          {"target_metric", 0.9},
          {"higher_is_better_metric", false},
          {"max_epochs", 10},
          {"num_pruning_rounds", 1},
          {"window_size", 7},
          {"mab_prior_mean", -3.5},
          {"mab_prior_precision", 0.5},
          {"mab_num_explorations", 3},
          {"mab_seed", -123456},
          {"max_power", 1200.0},
          {"number_of_gpus", 4},
          {"gpu_model", "NVIDIA A40"}};
}

TEST(RecurringJob, IsReadAsZeusWritesIt) {
  const Result<RecurringJob> job = parse_recurring_job(zeus_job().dump());
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->id, "");
  EXPECT_THAT(job->batch_sizes, ElementsAre(32, 64, 128));
  EXPECT_EQ(job->beta, 1.5);
  EXPECT_EQ(job->seed, -123456);
  EXPECT_FALSE(job->higher_is_better);
  EXPECT_EQ(job->max_power, Watts{1200});
  EXPECT_EQ(job->algorithm, BatchSizeAlgorithm::kZeus);
}

TEST(RecurringJob, HasZeusDefaults) {
  const Result<RecurringJob> job = parse_recurring_job(
      R"({"job_id_prefix": "a", "batch_sizes": [8], "default_batch_size": 8, "max_power": 300,
          "number_of_gpus": 1, "gpu_model": "V100"})");
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->eta, 0.5);
  EXPECT_EQ(job->beta, 2.0);
  EXPECT_EQ(job->target_metric, 0.5);
  EXPECT_TRUE(job->higher_is_better);
  EXPECT_EQ(job->max_epochs, 100);
  EXPECT_EQ(job->pruning_rounds, 2);
  EXPECT_EQ(job->window, 0);
  EXPECT_EQ(job->explorations, 2);
  EXPECT_EQ(job->seed, std::nullopt);
}

TEST(RecurringJob, IsTheSameOnceWrittenAndRead) {
  json document = zeus_job();
  document["job_id"] = "mnist-1";
  document["beta_knob"] = nullptr;
  document["algorithm"] = "harpe";
  document["recurrences"] = 40;
  const Result<RecurringJob> job = parse_recurring_job(document.dump());
  ASSERT_TRUE(job.ok()) << job.error().text();
  EXPECT_EQ(job->beta, std::nullopt);
  EXPECT_EQ(*parse_recurring_job(recurring_job_json(*job)), *job);
}

TEST(RecurringJob, WritesNoMemberThatZeusDoesNotKnowUnlessItWasGiven) {
  const json written = json::parse(recurring_job_json(*parse_recurring_job(zeus_job().dump())));
  for (const auto& [name, value] : written.items()) EXPECT_TRUE(zeus_job().contains(name)) << name;
  EXPECT_EQ(written.size(), zeus_job().size());
}

TEST(RecurringJob, EveryWrongMemberIsNamed) {
  const std::vector<std::pair<std::string, json>> wrong{{"job_id", "other-1"},
                                                        {"batch_sizes", json::array()},
                                                        {"batch_sizes", {0, 8}},
                                                        {"default_batch_size", 65},
                                                        {"default_batch_size", 0},
                                                        {"eta_knob", 1.01},
                                                        {"eta_knob", -0.1},
                                                        {"beta_knob", 0},
                                                        {"max_epochs", 0},
                                                        {"num_pruning_rounds", -1},
                                                        {"num_pruning_rounds", 100'000},
                                                        {"mab_num_explorations", -1},
                                                        {"max_power", 0},
                                                        {"number_of_gpus", 0},
                                                        {"gpu_model", ""},
                                                        {"mab_seed", 0.5},
                                                        {"algorithm", "best"},
                                                        {"surprise", 1}};
  for (const auto& [member, value] : wrong) {
    json document = zeus_job();
    document[member] = value;
    const Result<RecurringJob> job = parse_recurring_job(document.dump());
    ASSERT_FALSE(job.ok()) << member;
    EXPECT_THAT(job.error().text(), HasSubstr(member));
  }
  json document = zeus_job();
  document["eta_knob"] = 2;
  document["max_epochs"] = 0;
  document.erase("gpu_model");
  EXPECT_EQ(parse_recurring_job(document.dump()).error().diagnostics.size(), 3U);
}

TEST(RecurringJob, CostWeighsEnergyAgainstTime) {
  RecurringJob job;
  job.max_power = Watts{300};
  for (const auto& [eta, cost] : {std::pair{0.0, 3000.0}, {1.0, 2000.0}, {0.25, 2750.0}}) {
    job.eta = eta;
    EXPECT_DOUBLE_EQ(job.cost(Joules{2000}, Seconds{10}), cost);
  }
}

}  // namespace
}  // namespace harpe::zeus
