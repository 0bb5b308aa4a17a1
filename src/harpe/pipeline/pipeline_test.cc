#include "harpe/pipeline/pipeline.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <sstream>

#include "harpe/base/file.h"
#include "harpe/base/json.h"

namespace harpe {
namespace {

// Seconds of each kind of instruction.
struct Costs {
  double forward = 1, input = 1, weight = 1;

  Seconds of(const Instruction& i, bool split) const {
    const double backward = split ? input : input + weight;
    switch (i.kind) {
      case InstructionKind::kForward:
      case InstructionKind::kRecompute:
        return Seconds{forward};
      case InstructionKind::kBackward:
        return Seconds{backward};
      case InstructionKind::kWeight:
        return Seconds{weight};
      case InstructionKind::kRecomputeBackward:
      case InstructionKind::kForwardBackward:
        return Seconds{forward + input + weight};
      default:
        return Seconds{0};
    }
  }
};

bool is_split(const Schedule& schedule, const Instruction& backward) {
  for (const auto& list : schedule.lists) {
    for (const Instruction& i : list) {
      if (i.kind == InstructionKind::kWeight && i.part == backward.part &&
          i.micro_batch == backward.micro_batch) {
        return true;
      }
    }
  }
  return false;
}

Seconds makespan(const Pipeline& pipeline, const Costs& costs) {
  std::vector<Seconds> durations;
  for (const PipelineNode& node : pipeline.nodes()) {
    durations.push_back(node.stage < 0 ? node.transfer_time
                                       : costs.of(node.instruction,
                                                  is_split(pipeline.schedule(), node.instruction)));
  }
  return pipeline.earliest(durations).makespan;
}

Pipeline build(const std::string& name, int stages, int micro_batches, Transfers transfers = {}) {
  Result<Schedule> schedule =
      make_schedule(name, {.stages = stages, .micro_batches = micro_batches});
  EXPECT_TRUE(schedule.ok()) << name;
  Result<Pipeline> pipeline = Pipeline::build(*schedule, std::move(transfers));
  EXPECT_TRUE(pipeline.ok()) << name << ": " << (pipeline.ok() ? "" : pipeline.error().text());
  return std::move(pipeline).value();
}

std::filesystem::path shared_folder() {
  if (const char* folder = std::getenv("HARPE_SHARED")) return folder;
  return std::filesystem::path(HARPE_SOURCE_DIR) / ".." / "shared";
}

TEST(Pipeline, MakespansEqualAnIndependentSimulator) {
  const auto file = shared_folder() / "data/schedules/oracle_makespans.json";
  if (!std::filesystem::exists(file)) GTEST_SKIP() << "no " << file;
  const std::map<std::string, std::string> names{{"early_recompute_1f1b", "early-recompute-1f1b"},
                                                 {"zb_h1", "zb-h1"},
                                                 {"zb_h2", "zb-h2"},
                                                 {"zbv", "zb-v"},
                                                 {"dualpipev", "dualpipev"}};
  const Result<std::string> text = read_file(file);
  ASSERT_TRUE(text.ok());
  const Result<JsonValue> json = parse_json(*text, file.string());
  ASSERT_TRUE(json.ok());
  int checked = 0;
  for (const auto& [key, value] : json->members) {
    char name[64];
    int stages = 0, micro_batches = 0;
    Costs costs;
    ASSERT_EQ(std::sscanf(key.c_str(), "%63s p%d m%d F%lfI%lfW%lf", name, &stages, &micro_batches,
                          &costs.forward, &costs.input, &costs.weight),
              6)
        << key;
    if (!names.contains(name)) continue;
    SCOPED_TRACE(key);
    EXPECT_DOUBLE_EQ(makespan(build(names.at(name), stages, micro_batches), costs).value,
                     value.number);
    ++checked;
  }
  EXPECT_GT(checked, 300);
}

TEST(Pipeline, MakespansFollowTheKnownFormulas) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 12; ++m) {
      const Costs costs{.forward = 2, .input = 3, .weight = 1};
      const double both = 6;
      EXPECT_DOUBLE_EQ(makespan(build("gpipe", p, m), costs).value, (m + p - 1) * both);
      EXPECT_DOUBLE_EQ(makespan(build("1f1b", p, m), costs).value, (m + p - 1) * both);
      EXPECT_DOUBLE_EQ(makespan(build("recompute-1f1b", p, m), costs).value,
                       (m + p - 1) * (both + 2));
      EXPECT_DOUBLE_EQ(makespan(build("early-recompute-1f1b", p, m), costs).value,
                       (m + p - 1) * (both + 2) - (p - 1) * 2);
      if (m % p == 0) {
        EXPECT_DOUBLE_EQ(makespan(build("interleaved-1f1b", p, m), costs).value,
                         (2 * m + p - 1) * both);
        EXPECT_DOUBLE_EQ(makespan(build("looped-bfs", p, m), costs).value, (2 * m + p - 1) * both);
      }
    }
  }
}

TEST(Pipeline, PeakActivationsAreThoseOfTheLiterature) {
  using V = std::vector<int>;
  EXPECT_EQ(build("gpipe", 4, 12).peak_activations(), (V{12, 12, 12, 12}));
  EXPECT_EQ(build("1f1b", 4, 12).peak_activations(), (V{4, 3, 2, 1}));
  EXPECT_EQ(build("interleaved-1f1b", 4, 12).peak_activations(), (V{11, 9, 7, 5}));
  EXPECT_EQ(build("zb-h1", 4, 12).peak_activations(), (V{4, 4, 4, 4}));
  EXPECT_EQ(build("zb-h2", 4, 12).peak_activations(), (V{7, 7, 7, 7}));
  EXPECT_EQ(build("zb-v", 4, 12).peak_activations(), (V{8, 8, 8, 8}));
  EXPECT_EQ(build("dualpipev", 4, 12).peak_activations(), (V{9, 9, 9, 9}));
}

TEST(Pipeline, OverlappedTransfersDelayOnlyTheReceiver) {
  const Transfers transfers{
      .mode = Transfers::Mode::kOverlapped, .forward = {Seconds{0.5}}, .backward = {Seconds{0.25}}};
  // F0 on stage 0, its transfer, F and B on stage 1, the gradient's transfer, B on stage 0.
  const double one = 1 + 0.5 + 1 + 2 + 0.25 + 2;
  EXPECT_DOUBLE_EQ(makespan(build("1f1b", 2, 1, transfers), {}).value, one);
}

TEST(Pipeline, BlockingTransfersOccupyBothStages) {
  const Transfers transfers{
      .mode = Transfers::Mode::kRendezvous, .forward = {Seconds{0.5}}, .backward = {Seconds{0.25}}};
  const Pipeline pipeline = build("gpipe", 2, 2, transfers);
  std::vector<Seconds> durations;
  for (const PipelineNode& node : pipeline.nodes()) {
    durations.push_back(node.stage < 0 ? node.transfer_time : Seconds{1});
  }
  const Timeline timeline = pipeline.earliest(durations);
  // Stage 0: F0 0-1, transfer 1-1.5, F1 1.5-2.5; its transfer waits until stage 1 has ended F0
  // at 2.5.
  EXPECT_DOUBLE_EQ(timeline.start[1].value, 1.5);
  EXPECT_DOUBLE_EQ(timeline.start[4].value, 1.5);
  EXPECT_DOUBLE_EQ(timeline.start[5].value, 3.0);
}

TEST(Pipeline, WalksTheCircleOfASchedule) {
  const char* text =
      R"({"ranks": [[{"op": "backward", "stage": 0, "mb": 0}, {"op": "forward", "stage": 0, "mb": 0}]]})";
  Result<Schedule> schedule = parse_schedule_json(text, "x.json");
  ASSERT_TRUE(schedule.ok()) << schedule.error().text();
  const Result<Pipeline> pipeline = Pipeline::build(*schedule);
  ASSERT_FALSE(pipeline.ok());
  EXPECT_EQ(pipeline.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(
      pipeline.error().text().find(
          "form a circle: stage 0 backward of part 0 micro-batch 0 waits for stage 0 forward"),
      std::string::npos)
      << pipeline.error().text();
}

TEST(Pipeline, RefusesTransfersThatDoNotFit) {
  Result<Schedule> schedule = one_f_one_b({.stages = 3, .micro_batches = 2});
  const Result<Pipeline> pipeline = Pipeline::build(
      *schedule, {.mode = {}, .forward = {Seconds{1}}, .backward = {Seconds{1}, Seconds{-1}}});
  ASSERT_FALSE(pipeline.ok());
  EXPECT_EQ(pipeline.error().faults.size(), 2u);
}

}  // namespace
}  // namespace harpe
