#include "harpe/plan/schedule/pipeline.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <random>
#include <sstream>

#include "harpe/base/file.h"
#include "harpe/base/json.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/schedule/cells_testing.h"
#include "harpe/plan/schedule/replay.h"

namespace harpe::plan {
namespace {

// Seconds of each kind of instruction.
struct NodeCosts {
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

Seconds longest_path(const Pipeline& pipeline, const NodeCosts& costs) {
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

TEST(Pipeline, MakespansEqualAnIndependentSimulator) {
  const auto file = measured_data() / "schedules/oracle_makespans.json";
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
    NodeCosts costs;
    ASSERT_EQ(std::sscanf(key.c_str(), "%63s p%d m%d F%lfI%lfW%lf", name, &stages, &micro_batches,
                          &costs.forward, &costs.input, &costs.weight),
              6)
        << key;
    if (!names.contains(name)) continue;
    SCOPED_TRACE(key);
    EXPECT_DOUBLE_EQ(longest_path(build(names.at(name), stages, micro_batches), costs).value,
                     value.number);
    ++checked;
  }
  EXPECT_GT(checked, 300);
}

TEST(Pipeline, MakespansFollowTheKnownFormulas) {
  for (int p = 1; p <= 6; ++p) {
    for (int m = 1; m <= 12; ++m) {
      const NodeCosts costs{.forward = 2, .input = 3, .weight = 1};
      const double both = 6;
      EXPECT_DOUBLE_EQ(longest_path(build("gpipe", p, m), costs).value, (m + p - 1) * both);
      EXPECT_DOUBLE_EQ(longest_path(build("1f1b", p, m), costs).value, (m + p - 1) * both);
      EXPECT_DOUBLE_EQ(longest_path(build("recompute-1f1b", p, m), costs).value,
                       (m + p - 1) * (both + 2));
      EXPECT_DOUBLE_EQ(longest_path(build("early-recompute-1f1b", p, m), costs).value,
                       (m + p - 1) * (both + 2) - (p - 1) * 2);
      if (m % p == 0) {
        EXPECT_DOUBLE_EQ(longest_path(build("interleaved-1f1b", p, m), costs).value,
                         (2 * m + p - 1) * both);
        EXPECT_DOUBLE_EQ(longest_path(build("looped-bfs", p, m), costs).value,
                         (2 * m + p - 1) * both);
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
  EXPECT_DOUBLE_EQ(longest_path(build("1f1b", 2, 1, transfers), {}).value, one);
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

/// Random schedules of the generators, with random transfers, times and splits.
class RandomCase {
 public:
  explicit RandomCase(unsigned seed) : random_(seed) {}

  std::size_t below(std::size_t n) { return random_() % n; }
  Seconds time() { return {std::uniform_real_distribution(0.1, 3.0)(random_)}; }

  Schedule schedule() {
    const auto& generators = schedule_generators();
    while (true) {
      const Result<Schedule> made = generators[below(generators.size())].make(
          {.stages = 1 + static_cast<int>(below(5)),
           .micro_batches = 1 + static_cast<int>(below(10)),
           .chunks = 1 + static_cast<int>(below(3))});
      if (made.ok()) return *made;
    }
  }
  Transfers transfers(int parts) {
    Transfers transfers{
        .mode = below(2) == 0 ? Transfers::Mode::kOverlapped : Transfers::Mode::kRendezvous,
        .forward = {},
        .backward = {}};
    for (auto* times : {&transfers.forward, &transfers.backward}) {
      if (below(3) == 0) continue;
      for (int part = 0; part + 1 < parts; ++part)
        times->push_back(below(4) == 0 ? Seconds{0} : time());
    }
    return transfers;
  }
  /// Splits a fused instruction, or leaves it whole.
  std::vector<Instruction> split(const Instruction& i) {
    const auto part = [](InstructionKind kind, int of_part, int micro_batch) {
      return Instruction{.kind = kind, .part = of_part, .micro_batch = micro_batch};
    };
    if (below(3) == 0) return {i};
    if (i.kind == InstructionKind::kRecomputeBackward) {
      return {part(InstructionKind::kRecompute, i.part, i.micro_batch),
              part(InstructionKind::kBackward, i.part, i.micro_batch)};
    }
    if (i.kind == InstructionKind::kForwardBackward) {
      return {part(InstructionKind::kForward, i.part, i.micro_batch),
              part(InstructionKind::kBackward, i.backward_part, i.backward_micro_batch),
              part(InstructionKind::kWeight, i.backward_part, i.backward_micro_batch)};
    }
    return {i};
  }

 private:
  std::mt19937 random_;
};

/// Compares the starts of instructions with a replay of the schedule's own lists.
void expect_starts_of_a_replay(RandomCase& random, const Schedule& schedule,
                               const Transfers& transfers) {
  const Result<Pipeline> pipeline = Pipeline::build(
      schedule, transfers, [&](int, const Instruction& i) { return random.split(i); });
  std::vector<std::vector<Seconds>> wholes;
  for (const auto& list : schedule.lists) wholes.emplace_back(list.size());
  if (!pipeline.ok()) {
    EXPECT_FALSE(replay(schedule, transfers, wholes).ok()) << pipeline.error().text();
    return;
  }
  std::vector<Seconds> durations, within;
  for (const PipelineNode& node : pipeline->nodes()) {
    durations.push_back(node.stage < 0 ? node.transfer_time : random.time());
    if (node.stage < 0) continue;
    Seconds& whole = wholes[node.stage][node.position];
    within.push_back(whole);
    whole += durations.back();
  }
  const Timeline timeline = pipeline->earliest(durations);
  const Result<Replay> played = replay(schedule, transfers, wholes);
  ASSERT_TRUE(played.ok()) << played.error().text();
  EXPECT_NEAR(timeline.makespan.value, played->makespan.value, 1e-9);
  for (int i = 0; i < pipeline->instructions(); ++i) {
    const PipelineNode& node = pipeline->nodes()[i];
    const Seconds start = played->start[node.stage][node.position] + within[i];
    ASSERT_NEAR(timeline.start[i].value, start.value, 1e-9)
        << "stage " << node.stage << " node " << i;
  }
}

TEST(Pipeline, StartsAreThoseOfAReplayHoweverInstructionsAreSplit) {
  int split = 0, circles = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomCase random(seed);
    const Schedule schedule = random.schedule();
    const Transfers transfers = random.transfers(schedule.parts());
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << schedule.name << " "
                                    << schedule.stages << "x" << schedule.micro_batches);
    expect_starts_of_a_replay(random, schedule, transfers);
    if (testing::Test::HasFatalFailure()) return;
    circles += !Pipeline::build(schedule, transfers).ok();
    split += schedule.name.find("recompute") != std::string::npos || schedule.name == "dualpipev";
  }
  EXPECT_GT(split, 300);
  EXPECT_GT(circles, 100);
}

TEST(Pipeline, StartsAreThoseOfAReplayWhereverCellsStand) {
  std::map<Transfers::Mode, int> ran, circles;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    RandomCase random(seed);
    const Schedule schedule = with_random_cells(random.schedule(), [&](int n) {
      return static_cast<int>(random.below(static_cast<std::size_t>(n)));
    });
    const Transfers transfers = random.transfers(schedule.parts());
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << schedule.name << " "
                                    << schedule.stages << "x" << schedule.micro_batches);
    expect_starts_of_a_replay(random, schedule, transfers);
    if (testing::Test::HasFatalFailure()) return;
    if (schedule.stages == 1) continue;
    ++(Pipeline::build(schedule, transfers).ok() ? ran : circles)[transfers.mode];
  }
  EXPECT_GT(ran[Transfers::Mode::kOverlapped], 300);
  EXPECT_GT(ran[Transfers::Mode::kRendezvous], 100);
  EXPECT_GT(circles[Transfers::Mode::kRendezvous], 300);
}

/// Returns the makespan if computations take random times, by their part and micro-batch, and cells
/// no time; nullopt if stages wait for each other in a circle.
std::optional<Seconds> random_makespan(unsigned seed, const Schedule& schedule,
                                       const Transfers& transfers) {
  const Result<Pipeline> pipeline = Pipeline::build(schedule, transfers);
  if (!pipeline.ok()) return std::nullopt;
  std::vector<Seconds> durations;
  for (const PipelineNode& node : pipeline->nodes()) {
    const Instruction& i = node.instruction;
    std::seed_seq numbers{static_cast<int>(seed), static_cast<int>(i.kind), i.part, i.micro_batch};
    std::mt19937 random(numbers);
    const Seconds time{std::uniform_real_distribution(0.1, 3.0)(random)};
    durations.push_back(node.stage < 0          ? node.transfer_time
                        : is_fixed_time(i.kind) ? Seconds{0}
                                                : time);
  }
  return pipeline->earliest(durations).makespan;
}

TEST(Pipeline, CellsRightAtTheirComputationsChangeNothingButWhatBlocks) {
  int ran = 0, longer = 0;
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomCase random(seed);
    const char* const names[] = {"1f1b", "gpipe", "recompute-1f1b", "zb-h1"};
    const Schedule schedule =
        *make_schedule(names[seed % 4], {.stages = 1 + static_cast<int>(random.below(4)),
                                         .micro_batches = 1 + static_cast<int>(random.below(8))});
    Transfers transfers = random.transfers(schedule.parts());
    SCOPED_TRACE(testing::Message() << "seed " << seed << " " << schedule.name << " "
                                    << schedule.stages << "x" << schedule.micro_batches);
    const Seconds without = *random_makespan(seed, schedule, transfers);
    const std::optional<Seconds> with = random_makespan(seed, with_cells(schedule), transfers);
    const bool blocks = transfers.mode == Transfers::Mode::kRendezvous;
    if (!with) {
      EXPECT_TRUE(blocks);
      continue;
    }
    ++ran;
    // With cells, the middle one of three stages sends to one neighbour before it receives from the
    // other; without cells it does both at once.
    if (blocks && schedule.stages > 2) {
      EXPECT_GE(with->value, without.value - 1e-9);
      longer += *with > without + Seconds{1e-6};
    } else {
      EXPECT_NEAR(with->value, without.value, 1e-9);
    }
  }
  EXPECT_GT(ran, 600);
  EXPECT_GT(longer, 20);
}

TEST(Pipeline, BlockingSendsThatWaitForEachOtherAreNamed) {
  const Schedule schedule = *parse_torch_csv(
      "0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
      "f");
  Transfers transfers{
      .mode = Transfers::Mode::kRendezvous, .forward = {Seconds{0.5}}, .backward = {Seconds{0.25}}};
  const Result<Pipeline> blocked = Pipeline::build(schedule, transfers);
  ASSERT_FALSE(blocked.ok());
  EXPECT_EQ(blocked.error().text(),
            "the order of instructions and their dependencies form a cycle: the transfer of send "
            "of part 0 micro-batch 1 (0SEND_F1) waits for the transfer of send of part 1 "
            "micro-batch 0 (1SEND_B0) waits for the transfer of send of part 0 micro-batch 1 "
            "(0SEND_F1); 0SEND_F1 and 1SEND_B0 wait for each other: a blocking send ends with its "
            "recv");
  transfers.mode = Transfers::Mode::kOverlapped;
  EXPECT_TRUE(Pipeline::build(schedule, transfers).ok());
}

TEST(Pipeline, StartsOfPyTorchsOwnSchedulesAreThoseOfAReplay) {
  const auto folder = measured_data() / "schedules";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no " << folder;
  int files = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() != ".csv") continue;
    SCOPED_TRACE(entry.path());
    const bool two_ways = entry.path().filename().string().starts_with("dualpipe_");
    const Result<Schedule> schedule =
        read_schedule(entry.path(), TorchDialect::kDetect, two_ways ? 2 : 1);
    ASSERT_TRUE(schedule.ok()) << schedule.error().text();
    for (unsigned seed = 0; seed < 10; ++seed) {
      RandomCase random(seed);
      expect_starts_of_a_replay(random, *schedule, random.transfers(schedule->parts()));
    }
    ++files;
  }
  EXPECT_GT(files, 10);
}

TEST(Pipeline, TheHalvesOfAFusedInstructionWaitForWhatTheWholeWaitsFor) {
  // 4 equal stages x 5 micro-batches take 32 units, or 29 with early recompute.
  for (const auto& [name, expected] :
       {std::pair{"recompute-1f1b", 32.0}, std::pair{"early-recompute-1f1b", 29.0}}) {
    const Schedule schedule = *make_schedule(name, {.stages = 4, .micro_batches = 5});
    const Pipeline split = *Pipeline::build(schedule, {}, [](int, const Instruction& i) {
      if (i.kind != InstructionKind::kRecomputeBackward) return std::vector{i};
      Instruction recompute = i, backward = i;
      recompute.kind = InstructionKind::kRecompute;
      backward.kind = InstructionKind::kBackward;
      return std::vector{recompute, backward};
    });
    EXPECT_EQ(longest_path(split, {}).value, expected) << name;
  }
}

TEST(Pipeline, WalksTheCircleOfASchedule) {
  const char* text =
      R"({"ranks": [[{"op": "backward", "stage": 0, "mb": 0}, {"op": "forward", "stage": 0, "mb": 0}]]})";
  Result<Schedule> schedule = parse_schedule_json(text, "x.json");
  ASSERT_TRUE(schedule.ok()) << schedule.error().text();
  const Result<Pipeline> pipeline = Pipeline::build(*schedule);
  ASSERT_FALSE(pipeline.ok());
  EXPECT_EQ(pipeline.error().code, ErrorCode::kInvalidInput);
  EXPECT_NE(pipeline.error().text().find(
                "form a cycle: stage 0 backward of part 0 micro-batch 0 waits for stage 0 forward"),
            std::string::npos)
      << pipeline.error().text();
}

TEST(Pipeline, RefusesTransfersThatDoNotFit) {
  Result<Schedule> schedule = one_f_one_b({.stages = 3, .micro_batches = 2});
  const Result<Pipeline> pipeline = Pipeline::build(
      *schedule, {.mode = {}, .forward = {Seconds{1}}, .backward = {Seconds{1}, Seconds{-1}}});
  ASSERT_FALSE(pipeline.ok());
  EXPECT_EQ(pipeline.error().diagnostics.size(), 2u);
}

}  // namespace
}  // namespace harpe::plan
