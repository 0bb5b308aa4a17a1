#include "harpe/plan/instruction/instruction.h"

#include <gtest/gtest.h>

#include <set>
#include <string>

#include "harpe/plan/instruction/likely_instruction.h"

namespace harpe::plan {
namespace {

TEST(Instruction, EveryKindIsFoundByItsNameInAnyCase) {
  std::set<std::string_view> names;
  for (int i = 0; i < kInstructionKinds; ++i) {
    const auto kind = static_cast<InstructionKind>(i);
    names.insert(name(kind));
    EXPECT_EQ(instruction_kind(name(kind)), kind);
    std::string upper(name(kind));
    for (char& c : upper) c = static_cast<char>(std::toupper(c));
    EXPECT_EQ(instruction_kind(upper), kind);
  }
  EXPECT_EQ(names.size(), kInstructionKinds);
}

TEST(Instruction, NamesAreThoseOfTheFiles) {
  EXPECT_EQ(name(InstructionKind::kForward), "forward");
  EXPECT_EQ(name(InstructionKind::kRecomputeBackward), "recompute_backward");
  EXPECT_EQ(name(InstructionKind::kForwardBackward), "forward_backward");
  EXPECT_EQ(name(InstructionKind::kSwitch), "switch");
}

TEST(Instruction, OtherNamesAreUnknown) {
  for (const char* other : {"", "forwards", "for ward", " forward", "F"}) {
    EXPECT_EQ(instruction_kind(other), std::nullopt) << other;
  }
}

TEST(Instruction, WordsOfOthersAreGuessed) {
  EXPECT_EQ(likely_instruction("fwd"), "forward");
  EXPECT_EQ(likely_instruction("BWD"), "backward");
  EXPECT_EQ(likely_instruction("weight-grad"), "weight");
  EXPECT_EQ(likely_instruction("all_reduce"), "reduce");
  EXPECT_EQ(likely_instruction("foward"), "forward");
  EXPECT_EQ(likely_instruction("swich"), std::nullopt) << "no word of a profile";
  EXPECT_EQ(likely_instruction("eat"), std::nullopt);
}

TEST(Instruction, ComputationsHaveAClockToChooseAndTheRestTakeAFixedTime) {
  for (int i = 0; i < kInstructionKinds; ++i) {
    EXPECT_EQ(is_fixed_time(static_cast<InstructionKind>(i)), i >= 6) << i;
  }
}

}  // namespace
}  // namespace harpe::plan
