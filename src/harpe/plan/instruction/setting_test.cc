#include "harpe/plan/instruction/setting.h"

#include <gtest/gtest.h>

namespace harpe::plan {
namespace {

TEST(InstructionSetting, IsOrderedByClockFirst) {
  const Knobs knobs{.memory_clock = {1215}};
  EXPECT_LT((InstructionSetting{{1200}, knobs}), (InstructionSetting{{1410}, {}}));
  EXPECT_LT((InstructionSetting{{1410}, {}}), (InstructionSetting{{1410}, knobs}));
  EXPECT_EQ((InstructionSetting{{1410}, knobs}), (InstructionSetting{{1410}, knobs}));
}

TEST(InstructionSetting, SaysWhatIsGiven) {
  const Knobs all{.memory_clock = {1215}, .power_limit = {250.5}, .label = *Label::of("sm12")};
  EXPECT_EQ(text_of(InstructionSetting{{1410}, {}}), "1410 MHz");
  EXPECT_EQ(text_of(InstructionSetting{{1410}, all}), "1410 MHz, memory 1215 MHz, 250.5 W, sm12");
  EXPECT_EQ(text_of(InstructionSetting{{1410}, {.label = *Label::of("sm12")}}), "1410 MHz, sm12");
  EXPECT_EQ(text_of(Knobs{}), "");
}

}  // namespace
}  // namespace harpe::plan
