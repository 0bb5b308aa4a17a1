#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/schedule_testing.h"

namespace harpe::plan {
namespace {

using testing::HasSubstr;

constexpr int kMostStages = 8;
constexpr int kMostMicroBatches = 17;

/// Calls `visit(schedule, options)` for every generator that accepts the sizes.
template <class Visit>
void for_all_sizes(const ScheduleGenerator& generator, Visit visit) {
  for (int p = 1; p <= kMostStages; ++p) {
    for (int m = 1; m <= kMostMicroBatches; ++m) {
      for (int chunks = generator.uses_chunks ? 1 : 2; chunks <= (generator.uses_chunks ? 3 : 2);
           ++chunks) {
        const ScheduleOptions options{.stages = p, .micro_batches = m, .chunks = chunks};
        const auto schedule = generator.make(options);
        if (!schedule.ok()) continue;
        SCOPED_TRACE(testing::Message()
                     << generator.name << " p" << p << " m" << m << " v" << chunks);
        visit(*schedule, options);
      }
    }
  }
}

struct Costs {
  double forward = 1, input = 1, weight = 1, recompute = 1;
};

double makespan_at(const Schedule& schedule, const Costs& costs) {
  std::set<std::pair<int, int>> split;
  for (const auto& list : schedule.lists) {
    for (const Instruction& i : list) {
      if (i.kind == InstructionKind::kWeight) split.emplace(i.part, i.micro_batch);
    }
  }
  const double backward = costs.input + costs.weight;
  const auto total = makespan(schedule, [&](const Instruction& instruction) {
    switch (instruction.kind) {
      case InstructionKind::kForward:
        return costs.forward;
      case InstructionKind::kBackward:
        return split.contains({instruction.part, instruction.micro_batch}) ? costs.input : backward;
      case InstructionKind::kWeight:
        return costs.weight;
      case InstructionKind::kRecompute:
        return costs.recompute;
      case InstructionKind::kRecomputeBackward:
        return costs.recompute + backward;
      default:
        return costs.forward + backward;
    }
  });
  EXPECT_TRUE(total.has_value()) << "instructions wait for each other";
  return total.value_or(0);
}

class EveryGenerator : public testing::TestWithParam<ScheduleGenerator> {};

TEST_P(EveryGenerator, GivesValidListsThatCanRun) {
  int made = 0;
  for_all_sizes(GetParam(), [&](const Schedule& schedule, const ScheduleOptions& options) {
    ++made;
    EXPECT_EQ(schedule.name, GetParam().name);
    EXPECT_EQ(schedule.stages, options.stages);
    EXPECT_EQ(schedule.micro_batches, options.micro_batches);
    EXPECT_EQ(diagnostics_of(validate(schedule)), "");
    EXPECT_GT(makespan_at(schedule, Costs{}), 0);
  });
  EXPECT_GT(made, 20);
}

TEST_P(EveryGenerator, GivesTheInstructionsOfItsKind) {
  for_all_sizes(GetParam(), [&](const Schedule& schedule, const ScheduleOptions&) {
    std::map<InstructionKind, int> counts;
    for (const auto& list : schedule.lists) {
      for (const Instruction& instruction : list) ++counts[instruction.kind];
    }
    const int all = schedule.parts() * schedule.micro_batches;
    const int forwards =
        counts[InstructionKind::kForward] + counts[InstructionKind::kForwardBackward];
    const int backwards = counts[InstructionKind::kBackward] +
                          counts[InstructionKind::kRecomputeBackward] +
                          counts[InstructionKind::kForwardBackward];
    EXPECT_EQ(forwards, all);
    EXPECT_EQ(backwards, all);
    const std::string_view name = schedule.name;
    if (name.starts_with("zb")) {
      EXPECT_EQ(counts[InstructionKind::kWeight], all);
    } else if (name != "dualpipev") {
      EXPECT_EQ(counts[InstructionKind::kWeight], 0);
    }
    const int recomputed = name.find("recompute") == std::string_view::npos ? 0 : all;
    EXPECT_EQ(counts[InstructionKind::kRecompute] + counts[InstructionKind::kRecomputeBackward],
              recomputed);
  });
}

TEST_P(EveryGenerator, WorksThroughTheMicroBatchesInOrder) {
  for_all_sizes(GetParam(), [&](const Schedule& schedule, const ScheduleOptions&) {
    std::map<std::pair<InstructionKind, int>, int> next;  // by kind and part
    const auto expect_next = [&](InstructionKind kind, int part, int micro_batch) {
      const bool reverse = kind == InstructionKind::kBackward && schedule.name == "looped-bfs";
      const int expected = next[{kind, part}]++;
      EXPECT_EQ(micro_batch, reverse ? schedule.micro_batches - 1 - expected : expected);
    };
    for (const auto& list : schedule.lists) {
      for (const Instruction& i : list) {
        if (i.kind == InstructionKind::kForwardBackward) {
          expect_next(InstructionKind::kForward, i.part, i.micro_batch);
          expect_next(InstructionKind::kBackward, i.backward_part, i.backward_micro_batch);
        } else if (i.kind == InstructionKind::kRecomputeBackward) {
          expect_next(InstructionKind::kBackward, i.part, i.micro_batch);
        } else if (i.kind == InstructionKind::kForward || i.kind == InstructionKind::kBackward) {
          expect_next(i.kind, i.part, i.micro_batch);
        } else if (i.kind == InstructionKind::kWeight) {
          // Only some backwards of DualPipeV are split.
          int& first_left = next[{i.kind, i.part}];
          EXPECT_GE(i.micro_batch, first_left);
          first_left = i.micro_batch + 1;
        }
      }
    }
  });
}

TEST_P(EveryGenerator, RefusesSizesBelowOneAndTooManyInstructions) {
  const auto make = GetParam().make;
  EXPECT_THAT(diagnostics_of(make({.stages = 0, .micro_batches = 8})),
              HasSubstr("the number of stages must be at least 1, got 0"));
  EXPECT_THAT(diagnostics_of(make({.stages = 2, .micro_batches = -1})), HasSubstr("micro-batches"));
  EXPECT_THAT(diagnostics_of(make({.stages = 2'000'000'000, .micro_batches = 2'000'000'000})),
              HasSubstr("4000000"));
  if (GetParam().uses_chunks) {
    EXPECT_THAT(diagnostics_of(make({.stages = 2, .micro_batches = 8, .chunks = 0})),
                HasSubstr("the number of chunks must be at least 1, got 0"));
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, EveryGenerator, testing::ValuesIn(schedule_generators()),
                         [](const auto& generator) {
                           std::string name(generator.param.name);
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

/// Makespans without transfers on equal stages.
TEST(Makespan, FollowsTheFormulaOfTheSchedule) {
  const Costs all_costs[] = {{1, 1, 1, 1}, {2, 3, 1, 2}, {3, 1, 4, 1}, {1, 2, 2, 3}};
  for (const Costs& costs : all_costs) {
    const auto [f, i, w, recompute] = costs;
    const double fb = f + i + w;
    for (const ScheduleGenerator& generator : schedule_generators()) {
      for_all_sizes(generator, [&](const Schedule& schedule, const ScheduleOptions& options) {
        const int p = options.stages;
        const int m = options.micro_batches;
        const std::string_view name = generator.name;
        double expected = 0;
        if (name == "gpipe" || name == "1f1b") {
          expected = (m + p - 1) * fb;
        } else if (name == "recompute-1f1b") {
          expected = (m + p - 1) * (fb + recompute);
        } else if (name == "early-recompute-1f1b" && m >= p && recompute <= f) {
          expected = (m + p - 1) * (fb + recompute) - (p - 1) * recompute;
        } else if (name == "interleaved-1f1b" || (name == "looped-bfs" && m >= p)) {
          expected = (m * options.chunks + p - 1) * fb;
        } else if (name == "zb-h1" && m >= 2 * p) {
          expected = m * fb + (p - 1) * std::max({f, i, f + i - w});
        } else if (name == "dualpipev" && f == i && i >= w) {
          const double idle = (p - 1) * (fb + (i + w) - 3 * w);
          expected = 2 * m * fb + idle;
        } else {
          return;
        }
        EXPECT_EQ(makespan_at(schedule, costs), expected);
      });
    }
  }
}

TEST(Makespan, OfFourStagesAndTwelveMicroBatchesIsAsPublished) {
  const std::map<std::string, double> expected = {
      {"gpipe", 45},          {"1f1b", 45},  {"interleaved-1f1b", 81},
      {"looped-bfs", 81},     {"zb-h1", 39}, {"zb-h2", 39},
      {"recompute-1f1b", 60}, {"zb-v", 75},  {"early-recompute-1f1b", 57},
      {"dualpipev", 78}};
  for (const auto& [name, total] : expected) {
    const Schedule schedule = must(make_schedule(name, {.stages = 4, .micro_batches = 12}));
    EXPECT_EQ(makespan_at(schedule, Costs{}), total) << name;
  }
}

TEST(Generators, GiveTheReferenceLists) {
  const auto folder = measured_data() / "schedules";
  if (!std::filesystem::exists(folder)) GTEST_SKIP() << "no reference schedules in " << folder;
  const std::tuple<const char*, const char*, int> references[] = {
      {"gpipe", "gpipe_p4_m12.csv", 12},
      {"1f1b", "1f1b_p4_m12.csv", 12},
      {"interleaved-1f1b", "interleaved_v2_p4_m12.csv", 12},
      {"interleaved-1f1b-torch", "interleaved_torch_v2_m10_p4_m10.csv", 10},
      {"recompute-1f1b", "recompute_1f1b_p4_m12.csv", 12},
      {"early-recompute-1f1b", "early_recompute_1f1b_p4_m12.csv", 12},
      {"zb-h1", "zb_h1_p4_m12.csv", 12},
      {"zb-h2", "zb_h2_p4_m12.csv", 12},
      {"zb-v", "zbv_p4_m12.csv", 12},
      {"dualpipev", "dualpipev_p4_m12.csv", 12},
      {"dualpipev", "pytorch_golden/dualpipev_4rank_10mb.csv", 10},
      {"looped-bfs", "looped_bfs_v2_p4_m12.csv", 12},
  };
  for (const auto& [name, file, micro_batches] : references) {
    SCOPED_TRACE(file);
    const Schedule made =
        must(make_schedule(name, {.stages = 4, .micro_batches = micro_batches, .chunks = 2}));
    std::string text = must(read_file(folder / file));
    std::erase(text, '\r');
    if (!text.ends_with('\n')) text += '\n';
    EXPECT_EQ(torch_csv(made), text);
    const Schedule read = must(read_schedule(folder / file));
    EXPECT_EQ(read.lists, made.lists);
    EXPECT_EQ(read.placement, made.placement);
    EXPECT_EQ(read.micro_batches, micro_batches);
  }
}

TEST(Interleaved, GroupsMustDivideTheMicroBatches) {
  EXPECT_EQ(diagnostics_of(interleaved_one_f_one_b({.stages = 4, .micro_batches = 10})),
            "interleaved-1f1b: the number of micro-batches (10) must be a multiple of the "
            "micro-batches per group (4, the number of stages)");
  EXPECT_THAT(diagnostics_of(interleaved_one_f_one_b(
                  {.stages = 4, .micro_batches = 10, .micro_batch_group = 6})),
              HasSubstr("(6)"));
  EXPECT_THAT(diagnostics_of(interleaved_one_f_one_b(
                  {.stages = 4, .micro_batches = 10, .micro_batch_group = -2})),
              HasSubstr("(-2)"));
  EXPECT_EQ(diagnostics_of(
                interleaved_one_f_one_b({.stages = 4, .micro_batches = 9, .micro_batch_group = 3})),
            "interleaved-1f1b: the micro-batches per group (3) must be at least the number of "
            "stages (4)");
  EXPECT_THAT(diagnostics_of(interleaved_one_f_one_b_torch({.stages = 4, .micro_batches = 14})),
              HasSubstr("must be a multiple of the number of rounds (3"));
}

TEST(Interleaved, WithAnotherGroupCanRun) {
  for (int p = 1; p <= 6; ++p) {
    for (int group = p; group <= 12; ++group) {
      const Schedule schedule = must(interleaved_one_f_one_b(
          {.stages = p, .micro_batches = 2 * group, .chunks = 2, .micro_batch_group = group}));
      EXPECT_EQ(diagnostics_of(validate(schedule)), "");
      EXPECT_GT(makespan_at(schedule, Costs{}), 0) << p << ' ' << group;
    }
  }
}

TEST(DualPipeV, NeedsTwoMicroBatchesAStage) {
  EXPECT_EQ(
      diagnostics_of(dual_pipe_v({.stages = 4, .micro_batches = 7})),
      "dualpipev: 4 stages need at least 8 micro-batches (twice the number of stages), got 7");
  EXPECT_EQ(diagnostics_of(dual_pipe_v({.stages = 4, .micro_batches = 8})), "");
}

TEST(MakeSchedule, KnowsNamesInAnyCaseAndThoseOfPyTorch) {
  const ScheduleOptions options{.stages = 2, .micro_batches = 4};
  const std::pair<const char*, const char*> names[] = {
      {"1F1B", "1f1b"},
      {"GPipe", "gpipe"},
      {"Interleaved1F1B", "interleaved-1f1b-torch"},
      {"INTERLEAVED_1F1B", "interleaved-1f1b"},
      {"ZBVZeroBubble", "zb-v"},
      {"DualPipeV", "dualpipev"},
      {"LoopedBFS", "looped-bfs"},
      {"looped_bfs", "looped-bfs"},
      {" zb_h1 ", "zb-h1"}};
  for (const auto& [name, expected] : names) {
    EXPECT_EQ(must(make_schedule(name, options)).name, expected) << name;
  }
}

TEST(MakeSchedule, KnowsBeforehandHowManyInstructionsThereAreAtMost) {
  for (const ScheduleGenerator& generator : schedule_generators()) {
    for_all_sizes(generator, [&](const Schedule& schedule, const ScheduleOptions& options) {
      std::size_t made = 0;
      for (const auto& list : schedule.lists) made += list.size();
      const std::int64_t most = most_instructions(generator.name, options);
      EXPECT_LE(made, static_cast<std::uint64_t>(most));
      EXPECT_GE(made * 3, static_cast<std::uint64_t>(most));
    });
  }
  EXPECT_EQ(most_instructions("1F1B", {.stages = 512, .micro_batches = 1024}), 1'048'576);
  EXPECT_EQ(most_instructions("none", {.stages = 512, .micro_batches = 1024}), 0);
  EXPECT_GT(most_instructions("interleaved_1f1b",
                              {.stages = 1 << 30, .micro_batches = 1 << 30, .chunks = 1 << 30}),
            1'000'000'000'000);
}

TEST(MakeSchedule, NamesTheNearestForATypo) {
  const std::string errors = diagnostics_of(make_schedule("interleavd-1f1b", {}));
  EXPECT_THAT(errors, HasSubstr("unknown schedule 'interleavd-1f1b'; did you mean "
                                "'interleaved-1f1b'?"));
  EXPECT_THAT(errors, HasSubstr("early-recompute-1f1b"));
  EXPECT_THAT(diagnostics_of(make_schedule("", {})), HasSubstr("unknown schedule ''"));
}

TEST(MakeSchedule, NamesTheSchedulesOfAFamily) {
  EXPECT_THAT(diagnostics_of(make_schedule("interleaved", {})),
              HasSubstr("did you mean 'interleaved-1f1b' (Megatron's) or "
                        "'interleaved-1f1b-torch'?"));
  EXPECT_THAT(diagnostics_of(make_schedule("Zero_Bubble", {})),
              HasSubstr("did you mean 'zb-h1', 'zb-h2' or 'zb-v'?"));
  EXPECT_THAT(diagnostics_of(make_schedule("dualpipe", {})), HasSubstr("'dualpipev'"));
}

TEST(Schedule, ChunkIsThePositionAmongThePartsOfAStage) {
  const Schedule loop = must(looped_bfs({.stages = 4, .micro_batches = 4, .chunks = 3}));
  EXPECT_EQ(loop.chunks(), 3);
  EXPECT_EQ(loop.chunk(3), 0);
  EXPECT_EQ(loop.chunk(4), 1);
  EXPECT_EQ(loop.chunk(11), 2);
  const Schedule vee = must(zb_v({.stages = 4, .micro_batches = 4}));
  EXPECT_EQ(vee.placement, (std::vector<int>{0, 1, 2, 3, 3, 2, 1, 0}));
  EXPECT_EQ(vee.chunk(0), 0);
  EXPECT_EQ(vee.chunk(7), 1);
}

}  // namespace
}  // namespace harpe::plan
