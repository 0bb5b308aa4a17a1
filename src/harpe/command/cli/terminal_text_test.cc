#include "harpe/command/cli/terminal_text.h"

#include <gmock/gmock.h>

#include <array>
#include <cmath>
#include <random>

namespace harpe::command {
namespace {

TEST(Printable, LeavesNothingThatATerminalObeys) {
  EXPECT_EQ(printable("NVIDIA A40"), "NVIDIA A40");
  EXPECT_EQ(printable("größe ± 日本"), "größe ± 日本");
  EXPECT_EQ(printable("a\x1b]0;title\x07\r\n"), "a?]0;title???");
  EXPECT_EQ(printable("a\xc2\x9b"
                      "31mb"),
            "a?31mb")
      << "the one-character introducer of sequences";
  EXPECT_EQ(printable("ab\xe2\x80\xae"
                      "cd"),
            "ab?cd")
      << "turns the direction";
  EXPECT_EQ(printable("\xff\xc0\xaf\xed\xa0\x80\xe2\x82"), "????????") << "no UTF-8";
}

TEST(Printable, OfAnyBytesGivesTextWithoutCommands) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::string bytes;
    for (int i = 0; i < 12; ++i) bytes += static_cast<char>(random() % 256);
    const std::string text = printable(bytes);
    for (const char c : text) {
      EXPECT_TRUE(static_cast<unsigned char>(c) >= ' ' && c != 0x7f);
    }
    EXPECT_EQ(printable(text), text);
  }
}

TEST(AsciiText, KeepsTheWidth) {
  const std::string text = "▁▄█ 21 534 ± 12 J long na… \x1b[1mbold\x1b[0m";
  const std::string ascii = ascii_text(text);
  EXPECT_EQ(ascii, "_=# 21 534 +-12 J long na~ \x1b[1mbold\x1b[0m");
  EXPECT_EQ(shown_width(ascii), shown_width(text));
}

TEST(AsciiText, KeepsWordsAfterTheSignApart) {
  EXPECT_EQ(ascii_text("12 ± 3 J, ± ? kJ"), "12 +-3 J, +-? kJ");
  EXPECT_EQ(ascii_text("± is the error"), "+- is the error");
}

TEST(Bar, IsAsWideAsItIsToldAndAsFullAsItsShare) {
  EXPECT_EQ(bar(0.5, "50%", 12, Paint::kGreen, false), "[|||||  50%]");
  EXPECT_EQ(bar(0, "0%", 12, Paint::kGreen, false), "[        0%]");
  EXPECT_EQ(bar(2, "all", 12, Paint::kGreen, false), "[|||||||all]");
  EXPECT_EQ(bar(std::nan(""), "-", 6, Paint::kGreen, false), "[   -]");
  for (std::size_t width = 5; width < 40; ++width) {
    for (double share = -0.5; share < 1.5; share += 0.1) {
      for (const bool coloured : {false, true}) {
        EXPECT_EQ(shown_width(bar(share, "312/400W", width, Paint::kGreen, coloured)), width);
      }
    }
  }
}

TEST(Spark, HasOneCharacterALevel) {
  EXPECT_EQ(spark(std::array{0.0, 0.5, 1.0, 7.0, std::nan("")}), "▁▅██ ");
}

TEST(CutPainted, CutsWhatIsSeenAndEndsThePaint) {
  EXPECT_EQ(cut_painted("ab\x1b[1mcdef\x1b[0mgh", 8), "ab\x1b[1mcdef\x1b[0mgh");
  EXPECT_EQ(cut_painted("ab\x1b[1mcdef\x1b[0mgh", 4), "ab\x1b[1mc…\x1b[0m");
  EXPECT_EQ(cut_painted("ab\x1b[1mcd\x1b[0mefgh", 6), "ab\x1b[1mcd\x1b[0me…");
}

}  // namespace
}  // namespace harpe::command
