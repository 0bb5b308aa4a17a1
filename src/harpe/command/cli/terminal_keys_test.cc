#include <gmock/gmock.h>

#include "harpe/command/cli/live_terminal.h"

namespace harpe::command {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr KeyPress character(char c) {
  return {Key::kCharacter, c};
}

TEST(TerminalKeys, AreWhatTerminalsSendForThem) {
  EXPECT_THAT(keys_of("qj"), ElementsAre(character('q'), character('j')));
  EXPECT_THAT(keys_of("\x1b[A\x1bOBk"),
              ElementsAre(KeyPress{Key::kUp}, KeyPress{Key::kDown}, character('k')));
  EXPECT_THAT(keys_of("\x1b[5~\x1b[6~\x1b[H\x1b[4~"),
              ElementsAre(KeyPress{Key::kPageUp}, KeyPress{Key::kPageDown}, KeyPress{Key::kHome},
                          KeyPress{Key::kEnd}));
  EXPECT_THAT(keys_of("\x1b"), ElementsAre(KeyPress{Key::kEscape}));
}

TEST(TerminalKeys, NoPartOfAnUnknownSequenceIsAKey) {
  EXPECT_THAT(keys_of("\x1b[24;5~q"), ElementsAre(character('q')));
  EXPECT_THAT(keys_of("\x1b[1;5Cq"), ElementsAre(character('q')));
  EXPECT_THAT(keys_of("\x1b["), IsEmpty());
  EXPECT_THAT(keys_of("\xc3\xa4\t\r"), IsEmpty());
}

}  // namespace
}  // namespace harpe::command
