#include "harpe/training/client/rank_client_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <fstream>
#include <map>

#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

using ::testing::HasSubstr;

using Variables = std::map<std::string, std::string>;

Result<RankClientOptions> completed(const Variables& variables, RankClientOptions options = {}) {
  return complete(std::move(options), [&](const char* name) -> const char* {
    const auto found = variables.find(name);
    return found == variables.end() ? nullptr : found->second.c_str();
  });
}

const Variables kEnough = {{"HARPE_SERVER", "http://127.0.0.1:7787"},
                           {"HARPE_JOB", "gpt3-7"},
                           {"HARPE_SCHEDULE", "1f1b"},
                           {"HARPE_DATA", "2"},
                           {"HARPE_STAGES", "4"},
                           {"HARPE_MICRO_BATCHES", "8"},
                           {"RANK", "6"}};

Variables with(Variables variables, const Variables& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST(RankClientOptions, TheEnvironmentSuffices) {
  const auto options = completed(kEnough);
  ASSERT_TRUE(options.ok()) << options.error().text();
  EXPECT_EQ(options->spec.schedule.stages, 4);
  EXPECT_EQ(options->spec.schedule.micro_batches, 8);
  EXPECT_EQ(*options->coordinates, (RankCoordinates{1, 2, 0}));
  EXPECT_EQ(*options->clock_socket, "/run/harpe/clock.sock");
  EXPECT_EQ(options->spec.name, "gpt3-7");
}

TEST(RankClientOptions, TrainingThatIsOnlyObservedHasNoSocketToSetClocksBy) {
  const Variables agent = with(kEnough, {{"HARPE_CLOCK_SOCKET", "/run/agent.sock"}});
  for (const char* off : {"", "0"}) {
    const auto options = completed(with(agent, {{"HARPE_OBSERVE", off}}));
    ASSERT_TRUE(options.ok()) << options.error().text();
    EXPECT_FALSE(options->spec.observe);
    EXPECT_EQ(*options->clock_socket, "/run/agent.sock");
  }
  const auto is_observed = [](const Result<RankClientOptions>& options) {
    EXPECT_TRUE(options.ok()) << options.error().text();
    EXPECT_EQ(options->clock_socket->empty(), options->spec.observe);
    return options->spec.observe;
  };
  const Variables observing = with(agent, {{"HARPE_OBSERVE", "1"}});
  EXPECT_TRUE(is_observed(completed(observing)));
  RankClientOptions given;
  given.clock_socket = "/run/own.sock";
  EXPECT_TRUE(is_observed(completed(observing, given))) << "also where the program names a socket";
  given.observe = false;
  EXPECT_FALSE(is_observed(completed(observing, given))) << "what the program gives goes first";
  given.observe = true;
  EXPECT_TRUE(is_observed(completed(agent, given)));
  RankClientOptions described;
  described.spec = *parse_job_spec(
      R"({"stages": 4, "data": 2, "schedule": "1f1b", "micro_batches": 8, "observe": true})");
  EXPECT_TRUE(is_observed(completed(agent, described)));
  EXPECT_TRUE(is_observed(completed(with(agent, {{"HARPE_OBSERVE", "0"}}), described)));
  const auto wrong = completed(with(agent, {{"HARPE_OBSERVE", "yes"}}));
  ASSERT_FALSE(wrong.ok());
  EXPECT_THAT(wrong.error().text(), HasSubstr("HARPE_OBSERVE is 0 or 1, not 'yes'"));
  EXPECT_EQ(parse_rank_client_options(R"({"observe": true})")->observe, true);
  EXPECT_EQ(parse_rank_client_options(R"({})")->observe, std::nullopt);
}

TEST(RankClientOptions, ATokenMayStandInAFile) {
  const auto options = completed(
      with(kEnough,
           {{"HARPE_TOKEN_FILE", "/run/token"}, {"HARPE_TOKEN", "old"}, {"HARPE_TAKE_OVER", "1"}}));
  ASSERT_TRUE(options.ok()) << options.error().text();
  EXPECT_EQ(options->token_file, "/run/token");
  EXPECT_TRUE(options->take_over);
  RankClientOptions given;
  given.token = "given";
  EXPECT_EQ(completed(with(kEnough, {{"HARPE_TOKEN_FILE", "/run/token"}}), given)->token_file, "")
      << "what the program gives goes first";
  EXPECT_FALSE(completed(with(kEnough, {{"HARPE_TAKE_OVER", "yes"}})).ok());
  EXPECT_FALSE(completed(with(kEnough, {{"HARPE_TAKE_OVER", "0"}}))->take_over);
  const auto read = parse_rank_client_options(R"({"token_file": "/x", "take_over": true})");
  ASSERT_TRUE(read.ok());
  EXPECT_EQ(read->token_file, "/x");
  EXPECT_TRUE(read->take_over);
}

TEST(RankClientOptions, WhatTheProgramGivesGoesFirst) {
  RankClientOptions given;
  given.job = "mine";
  given.coordinates = RankCoordinates{0, 3, 0};
  given.clock_socket = "";
  const auto options = completed(with(kEnough, {{"HARPE_CLOCK_SOCKET", "/tmp/x"}}), given);
  ASSERT_TRUE(options.ok());
  EXPECT_EQ(options->job, "mine");
  EXPECT_EQ(options->coordinates->stage, 3);
  EXPECT_EQ(*options->clock_socket, "");
}

TEST(RankClientOptions, RanksAreCountedAsTheFrameworkCountsThem) {
  const Variables job = with(kEnough, {{"HARPE_TENSOR", "2"}, {"RANK", "13"}});
  // Rank 13 of 2 x 4 x 2: tensor 1, then 6 among stages and pipelines.
  EXPECT_EQ(*completed(job)->coordinates, (RankCoordinates{1, 2, 1}));
  EXPECT_EQ(*completed(with(job, {{"HARPE_RANK_ORDER", "tensor,data,stage"}}))->coordinates,
            (RankCoordinates{0, 3, 1}));
  EXPECT_EQ(
      *completed(with(job, {{"HARPE_DATA_RANK", "1"}, {"HARPE_STAGE_RANK", "3"}}))->coordinates,
      (RankCoordinates{1, 3, 0}));
  EXPECT_FALSE(completed(with(job, {{"RANK", "16"}})).ok());
  EXPECT_FALSE(completed(with(job, {{"HARPE_RANK_ORDER", "tensor,data,data"}})).ok());
  EXPECT_FALSE(completed(with(job, {{"HARPE_RANK_ORDER", "tensor"}})).ok());
}

TEST(RankClientOptions, TheJobMayStandInAFile) {
  const auto options = completed(kEnough);
  const std::string path = ::testing::TempDir() + "harpe-job-" + std::to_string(::getpid());
  std::ofstream(path) << job_spec_json(options->spec);
  Variables variables = kEnough;
  variables.erase("HARPE_SCHEDULE");
  const auto read = completed(with(variables, {{"HARPE_JOB_FILE", path}}));
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read->spec.schedule.lists, options->spec.schedule.lists);
  std::ofstream(path) << "{\"data\": -1}";
  EXPECT_FALSE(completed(with(variables, {{"HARPE_JOB_FILE", path}})).ok());
  std::remove(path.c_str());
  const auto missing = completed(with(variables, {{"HARPE_JOB_FILE", path}}));
  ASSERT_FALSE(missing.ok());
  EXPECT_THAT(missing.error().text(), HasSubstr(path));
}

TEST(RankClientOptions, ChunksAreRefusedIfTheScheduleHasAnotherNumber) {
  EXPECT_TRUE(completed(with(kEnough, {{"HARPE_CHUNKS", "1"}})).ok());
  const auto refused = completed(with(kEnough, {{"HARPE_CHUNKS", "2"}}));
  ASSERT_FALSE(refused.ok());
  EXPECT_THAT(refused.error().text(),
              HasSubstr("HARPE_CHUNKS: 1f1b has 1 chunk a stage, not 2: leave it away"));
}

TEST(RankClientOptions, AllErrorsAtOnceWithTheVariable) {
  const auto options = completed(with(
      kEnough, {{"HARPE_JOB", "a/../b"}, {"HARPE_GPU", "first"}, {"HARPE_MICRO_BATCHES", "0"}}));
  ASSERT_FALSE(options.ok());
  EXPECT_THAT(options.error().text(), HasSubstr("a/../b"));
  EXPECT_THAT(options.error().text(), HasSubstr("HARPE_GPU"));
  EXPECT_THAT(options.error().text(), HasSubstr("HARPE_MICRO_BATCHES"));
}

TEST(RankClientOptions, WithoutAServerNothingElseIsNeeded) {
  const auto options = completed({});
  ASSERT_TRUE(options.ok());
  EXPECT_TRUE(options->server.empty());
}

TEST(RankClientOptions, AreReadFromJson) {
  const auto options = parse_rank_client_options(
      R"({"server": "http://x:1", "job": "j", "spec": {"data": 1, "stages": 2, "tensor": 1,
          "schedule": "1f1b", "micro_batches": 4, "chunks": 1}, "data": 0, "stage": 1, "gpu": 3,
          "clock_socket": "", "look_ahead_s": 0.007})");
  ASSERT_TRUE(options.ok()) << options.error().text();
  EXPECT_EQ(options->spec.schedule.lists.size(), 2);
  EXPECT_EQ(options->coordinates->stage, 1);
  EXPECT_EQ(*options->gpu, 3);
  EXPECT_DOUBLE_EQ(options->look_ahead->value, 0.007);
  for (const char* wrong : {"", "[]", R"({"sever": "http://x"})", R"({"stage": -1})",
                            R"({"spec": {"data": 0}})", R"({"spec": 3})", R"({"lease_s": 1e99})"}) {
    EXPECT_FALSE(parse_rank_client_options(wrong).ok()) << wrong;
  }
}

}  // namespace
}  // namespace harpe::training
