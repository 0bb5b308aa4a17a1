#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/schedule_testing.h"

namespace harpe::plan {
namespace {

using testing::HasSubstr;

/// Two stages, two micro-batches, weights split off: stage 0 is F0 F1 I0 W0 I1 W1.
Schedule small() {
  return must(zb_h1({.stages = 2, .micro_batches = 2}));
}

TEST(Validate, NamesAnInstructionThatStandsTwice) {
  Schedule schedule = small();
  schedule.lists[0].push_back(schedule.lists[0][1]);
  EXPECT_EQ(
      diagnostics_of(validate(schedule)),
      "stage 0, position 6: forward of micro-batch 1 on part 0 appears twice; the first is at "
      "stage 0, position 1");
}

TEST(Validate, NamesAnInstructionThatIsMissing) {
  for (const auto& [position, role] : {std::pair{1, "forward"}, std::pair{4, "backward"}}) {
    Schedule schedule = small();
    schedule.lists[0].erase(schedule.lists[0].begin() + position);
    EXPECT_THAT(diagnostics_of(validate(schedule)),
                HasSubstr(std::string(role) + " of micro-batch 1 on part 0 is missing"));
  }
}

TEST(Validate, NamesMicroBatchesAndPartsThatNeverRun) {
  Schedule schedule = must(gpipe({.stages = 2, .micro_batches = 6}));
  std::erase_if(schedule.lists[1], [](const Instruction& i) { return i.micro_batch >= 3; });
  EXPECT_THAT(diagnostics_of(validate(schedule)),
              HasSubstr("no computation for micro-batches 3 to 5 (of 6) on part 1"));
  std::erase_if(schedule.lists[0], [](const Instruction& i) { return i.micro_batch == 2; });
  EXPECT_THAT(diagnostics_of(validate(schedule)),
              HasSubstr("no computation for micro-batch 2 (of 6) on part 0"));
  schedule.lists[1].clear();
  EXPECT_THAT(diagnostics_of(validate(schedule)), HasSubstr("stage 1 has no instruction"));
  EXPECT_THAT(diagnostics_of(validate(schedule)), HasSubstr("no computation for part 1"));
  schedule = must(gpipe({.stages = 4, .micro_batches = 1}));
  schedule.lists[1] = schedule.lists[2] = {{.kind = InstructionKind::kOptimizer}};
  EXPECT_EQ(diagnostics_of(validate(schedule)), "no computation for parts 1 to 2");
}

TEST(Validate, RefusesAPartOnAStageItDoesNotBelongTo) {
  Schedule schedule = small();
  std::swap(schedule.lists[0][0], schedule.lists[1][0]);
  const std::string errors = diagnostics_of(validate(schedule));
  EXPECT_THAT(errors, HasSubstr("stage 0, position 0: part 1 is on stage 0 here, but belongs "
                                "to stage 1"));
  EXPECT_THAT(errors, HasSubstr("stage 1, position 0: part 0 is on stage 1 here"));
}

TEST(Validate, RefusesNumbersOutOfRange) {
  Schedule schedule = small();
  schedule.lists[0][0].part = 2;
  schedule.lists[0][1].micro_batch = 2;
  schedule.lists[0][2].part = -1;
  schedule.lists[0].push_back({.kind = InstructionKind::kLoad, .part = 0, .micro_batch = 9});
  const std::string errors = diagnostics_of(validate(schedule));
  EXPECT_THAT(errors, HasSubstr("position 0: part 2 is not one of 0 to 1"));
  EXPECT_THAT(errors, HasSubstr("position 1: micro-batch 2 is not one of 0 to 1"));
  EXPECT_THAT(errors, HasSubstr("position 2: part -1 is not one of 0 to 1"));
  EXPECT_THAT(errors, HasSubstr("position 6: micro-batch 9 is not one of 0 to 1"));
}

TEST(Validate, RefusesSizesThatDoNotFit) {
  EXPECT_FALSE(validate(Schedule{}).ok());
  Schedule schedule = small();
  schedule.lists.pop_back();
  EXPECT_EQ(diagnostics_of(validate(schedule)), "a schedule of 2 stages has 1 lists");
  schedule = small();
  schedule.placement[1] = 2;
  EXPECT_EQ(diagnostics_of(validate(schedule)), "part 1 is placed on stage 2 of 2");
  schedule = must(gpipe({.stages = 3, .micro_batches = 1}));
  schedule.copies = 2;
  EXPECT_EQ(diagnostics_of(validate(schedule)), "3 model parts cannot be those of 2 equal models");
}

TEST(Validate, AllowsFixedTimeInstructionsAnywhere) {
  Schedule schedule = small();
  for (const InstructionKind kind :
       {InstructionKind::kLoad, InstructionKind::kSend, InstructionKind::kRecv,
        InstructionKind::kReduce, InstructionKind::kUnshard, InstructionKind::kOptimizer}) {
    schedule.lists[0].insert(schedule.lists[0].begin() + 1, {.kind = kind});
    schedule.lists[1].push_back({.kind = kind, .part = 1, .micro_batch = 1});
  }
  EXPECT_EQ(diagnostics_of(validate(schedule)), "");
}

TEST(Validate, RefusesFieldsOfOtherKinds) {
  Schedule schedule = small();
  schedule.lists[0][0].gradient = true;
  schedule.lists[0][1].backward_part = 0;
  schedule.lists[0].push_back({.kind = InstructionKind::kSend, .part = 0});
  const std::string errors = diagnostics_of(validate(schedule));
  EXPECT_THAT(errors, HasSubstr("position 0: only send and recv can carry a gradient"));
  EXPECT_THAT(errors, HasSubstr("position 1: only an overlapped block has a second part"));
  EXPECT_THAT(errors, HasSubstr("position 6: send needs both a part and a micro-batch"));
}

TEST(Validate, RefusesWorkThatABackwardAlreadyHolds) {
  Schedule schedule = must(recompute_one_f_one_b({.stages = 1, .micro_batches = 1}));
  schedule.lists[0].push_back({.kind = InstructionKind::kWeight, .part = 0, .micro_batch = 0});
  schedule.lists[0].push_back({.kind = InstructionKind::kRecompute, .part = 0, .micro_batch = 0});
  EXPECT_EQ(diagnostics_of(validate(schedule)),
            "stage 0, position 2: weight of micro-batch 0 on part 0 is already part of its "
            "recompute_backward\n"
            "stage 0, position 3: recompute of micro-batch 0 on part 0 is already part of its "
            "recompute_backward");
}

TEST(Validate, RefusesABlockThatWaitsForItself) {
  Schedule schedule = must(gpipe({.stages = 1, .micro_batches = 1}));
  schedule.lists[0] = {{.kind = InstructionKind::kForwardBackward,
                        .part = 0,
                        .micro_batch = 0,
                        .backward_part = 0,
                        .backward_micro_batch = 0}};
  EXPECT_EQ(diagnostics_of(validate(schedule)),
            "stage 0, position 0: an overlapped block cannot hold a forward and the backward that "
            "waits for it");
}

/// Validation finds every single change of a valid schedule that drops or repeats a computation, or
/// moves it to another stage.
TEST(Validate, FindsEverySingleMutation) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE(testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t size) { return random() % size; };
  const auto& generators = schedule_generators();
  for (int round = 0; round < 2000; ++round) {
    const int p = 1 + static_cast<int>(pick(4));
    Schedule schedule =
        must(generators[pick(generators.size())].make({.stages = p, .micro_batches = 4 * p}));
    const std::size_t stage = pick(schedule.lists.size());
    auto& list = schedule.lists[stage];
    const auto at = list.begin() + static_cast<std::ptrdiff_t>(pick(list.size()));
    const Instruction chosen = *at;
    switch (pick(3)) {
      case 0:
        if (chosen.kind == InstructionKind::kWeight || chosen.kind == InstructionKind::kRecompute) {
          continue;  // without it the backward is a full one
        }
        list.erase(at);
        break;
      case 1:
        list.insert(at, chosen);
        break;
      default:
        if (p == 1) continue;
        list.erase(at);
        schedule.lists[(stage + 1) % schedule.lists.size()].push_back(chosen);
        break;
    }
    EXPECT_FALSE(validate(schedule).ok()) << schedule.name << ' ' << p;
  }
}

}  // namespace
}  // namespace harpe::plan
