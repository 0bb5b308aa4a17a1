#include "harpe/report/page_data.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <string_view>

#include "harpe/report/test_plans.h"

namespace harpe::report {
namespace {

using Json = nlohmann::json;

/// Reads a number written by `append_number`, as the page does.
std::uint64_t take_number(std::string_view& text) {
  constexpr std::string_view kCharacters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
  std::uint64_t number = 0;
  for (int shift = 0;; shift += 5) {
    const std::uint64_t value = kCharacters.find(text.front());
    text.remove_prefix(1);
    number |= (value & 31) << shift;
    if (value < 32) return number;
  }
}

TEST(AppendNumber, IsReadBack) {
  constexpr unsigned kSeed = 5;
  SCOPED_TRACE(kSeed);
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 1000; ++round) {
    const std::uint64_t number = random() >> (random() % 64);
    std::string text;
    append_number(text, number);
    std::string_view rest = text;
    EXPECT_EQ(take_number(rest), number);
    EXPECT_TRUE(rest.empty());
  }
}

/// Checks that every instruction is read back with its exact mode, and its start to a tick.
void expect_read_back(const Json& data, const Json& drawing, const Plan& plan) {
  const double tick = data["tick"];
  const Json& shape = data["shapes"][drawing["shape"].get<std::size_t>()];
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    const std::string stream = drawing["stages"][stage];
    std::string_view rest = stream;
    double cursor = 0;
    for (std::size_t i = 0; i < plan.instructions[stage].size(); ++i) {
      const PlannedInstruction& instruction = plan.instructions[stage][i];
      const Json& mode = data["modes"][stage][take_number(rest)];
      EXPECT_EQ(mode[0], instruction.clock.value);
      EXPECT_EQ(mode[1], instruction.time.value);
      EXPECT_EQ(mode[2], instruction.energy.value);
      const double start = cursor + static_cast<double>(take_number(rest));
      EXPECT_NEAR(start * tick, instruction.start.value, 1.001 * tick);
      cursor = start + std::floor(instruction.time.value / tick);
      EXPECT_EQ(shape["stages"][stage]["kinds"][i], static_cast<int>(instruction.kind));
      EXPECT_EQ(shape["stages"][stage]["microBatches"][i], instruction.micro_batch);
    }
    EXPECT_TRUE(rest.empty());
  }
}

TEST(PageData, HoldsEveryPlan) {
  TestPipeline pipeline{.stages = 4, .micro_batches = 9, .with_optimizer = true};
  pipeline.transfers = {.mode = Transfers::Mode::kRendezvous,
                        .forward = {{0.001}, {0.002}, {0.001}},
                        .backward = {{0.001}, {0.002}, {0.001}}};
  const ReportInput input = make_report(pipeline, 25);
  const Json data = Json::parse(page_data(input));
  ASSERT_EQ(data["points"].size(), 25U);
  EXPECT_EQ(data["shapes"].size(), 1U) << "plans of one schedule share their shape";
  EXPECT_EQ(data["shapes"][0]["links"].size(), 2U * 3 * 9);
  expect_read_back(data, data["allMax"], input.all_max);
  for (std::size_t i = 0; i < 25; ++i) {
    expect_read_back(data, data["points"][i], input.points[i].plan);
    EXPECT_EQ(data["points"][i]["time"], input.points[i].time.value);
    EXPECT_EQ(data["points"][i]["energy"], input.points[i].energy.value);
  }
}

TEST(PageData, HoldsPlansOfDifferentShape) {
  ReportInput input = make_report({}, 2);
  auto& list = input.points[1].plan.instructions[0];
  PlannedInstruction change;
  change.kind = InstructionKind::kSwitch;
  change.start = list.back().start + list.back().time;
  change.time = {0.0104};
  list.push_back(change);
  const Json data = Json::parse(page_data(input));
  EXPECT_EQ(data["shapes"].size(), 2U);
  expect_read_back(data, data["points"][0], input.points[0].plan);
  expect_read_back(data, data["points"][1], input.points[1].plan);
}

TEST(PageData, HoldsWhatIsSetBesideAClock) {
  ReportInput input = make_report({}, 2);
  input.points[1].plan.instructions[0][0].knobs = {.label = *Label::of("sm12")};
  const Json data = Json::parse(page_data(input));
  expect_read_back(data, data["points"][1], input.points[1].plan);
  std::size_t with_knobs = 0;
  for (const Json& mode : data["modes"][0]) {
    if (mode.size() == 3U) continue;
    ++with_knobs;
    EXPECT_EQ(mode[3], "sm12");
  }
  EXPECT_EQ(with_knobs, 1U);
}

TEST(DrawnPoints, AreAllOfAnOrdinaryPipeline) {
  EXPECT_EQ(drawn_points(make_report({.stages = 8, .micro_batches = 12}, 60)).size(), 60U);
}

TEST(DrawnPoints, AreFewOfALargePipelineButFirstLastAndChosen) {
  ReportInput input;
  input.points.resize(60);
  for (ReportPoint& point : input.points) {
    point.plan.instructions.assign(64, std::vector<PlannedInstruction>(1024));
  }
  input.chosen = 17;
  const auto drawn = drawn_points(input);
  EXPECT_LE(drawn.size(), 12U);
  EXPECT_GE(drawn.size(), 3U);
  EXPECT_EQ(drawn.front(), 0U);
  EXPECT_EQ(drawn.back(), 59U);
  EXPECT_TRUE(std::find(drawn.begin(), drawn.end(), 17U) != drawn.end());
}

}  // namespace
}  // namespace harpe::report
