// The file of steps: the steps that are read from it, and ways in which programs may change it.

#include "harpe/zeus/tuning/step_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>

#include "harpe/base/test_directory_testing.h"

namespace harpe::zeus {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
constexpr auto kStep = StepEvent::Kind::kStep, kEpochEnd = StepEvent::Kind::kEpochEnd;

TEST(StepParser, ReadsStepsAndEpochsAndCountsOtherLines) {
  StepParser parser;
  EXPECT_THAT(parser.add("\n\nepoch\n loss 0.3\nstep\r\n"),
              ElementsAre(kStep, kStep, kEpochEnd, kStep));
  EXPECT_EQ(parser.ignored(), 1U);
}

TEST(StepParser, ALineCountsOnceItIsComplete) {
  StepParser parser;
  EXPECT_THAT(parser.add("epo"), IsEmpty());
  EXPECT_THAT(parser.add("ch"), IsEmpty());
  EXPECT_THAT(parser.add("\n"), ElementsAre(kEpochEnd));
}

TEST(StepParser, AnEndlessLineIsOneThatIsIgnored) {
  StepParser parser;
  const std::string long_piece(1 << 20, ' ');
  for (int i = 0; i < 16; ++i) EXPECT_THAT(parser.add(long_piece), IsEmpty());
  EXPECT_THAT(parser.add("\n\n"), ElementsAre(kStep));
  EXPECT_EQ(parser.ignored(), 1U);
}

/// A file of steps, and the program that writes it.
class StepFileTest : public ::testing::Test {
 protected:
  void write(const std::string& text, std::ios::openmode mode = std::ios::app) {
    std::ofstream(file_.path(), mode) << text;
  }
  std::size_t steps() {
    now_ = now_ + 0.01_s;
    return file_.poll(now_).size();
  }

  StepFile file_ = StepFile::create().take();
  Instant now_{1'000'000'000};
};

TEST_F(StepFileTest, IsThereForThisUserAloneAndGoneAfterwards) {
  std::filesystem::path path;
  {
    const StepFile file = StepFile::create().take();
    path = file.path();
    using std::filesystem::perms;
    const auto of_others = perms::group_all | perms::others_all;
    EXPECT_EQ(std::filesystem::status(path.parent_path()).permissions() & of_others, perms::none);
    EXPECT_TRUE(std::filesystem::is_regular_file(path));
  }
  EXPECT_FALSE(std::filesystem::exists(path.parent_path()));
}

TEST_F(StepFileTest, WhatAKilledProcessLeftIsRemovedByTheNext) {
  const TestDirectory temporary;
  const auto status_of = [&](const std::function<int()>& body) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::setenv("TMPDIR", temporary.path().c_str(), 1);
      ::_exit(body());
    }
    int status = 0;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    return status;
  };
  const int killed = status_of([] {
    const StepFile file = StepFile::create().take();
    return ::kill(::getpid(), SIGKILL);
  });
  ASSERT_TRUE(WIFSIGNALED(killed));
  ASSERT_FALSE(std::filesystem::is_empty(temporary.path()));
  EXPECT_EQ(status_of([] { return StepFile::create().ok() ? 0 : 1; }), 0);
  EXPECT_TRUE(std::filesystem::is_empty(temporary.path()));
}

TEST_F(StepFileTest, SaysWhatIsNew) {
  EXPECT_EQ(steps(), 0U);
  write("\n");
  EXPECT_EQ(steps(), 1U);
  EXPECT_EQ(steps(), 0U);
  write("\n\n");
  EXPECT_EQ(steps(), 2U);
}

TEST_F(StepFileTest, StepsSeenAtOnceAreSpreadOverTheTimeSinceTheLookBefore) {
  (void)file_.poll(now_);
  write("\n\n\n\n");
  const auto events = file_.poll(now_ + 0.4_s);
  ASSERT_EQ(events.size(), 4U);
  for (int i = 0; i < 4; ++i) EXPECT_NEAR((events[i].at - now_).value, 0.1 * (i + 1), 1e-6);
}

TEST_F(StepFileTest, GoesOnAfterTheFileWasCutReplacedOrRemoved) {
  write("\n\nhalf a li");
  EXPECT_EQ(steps(), 2U);
  write("\n", std::ios::trunc);
  EXPECT_EQ(steps(), 1U);
  EXPECT_EQ(file_.restarts(), 1U);
  std::filesystem::remove(file_.path());
  EXPECT_EQ(steps(), 0U);
  write("\n\n\n\n");
  EXPECT_EQ(steps(), 4U);
  std::filesystem::remove(file_.path());
  std::filesystem::create_directory(file_.path());
  EXPECT_EQ(steps(), 0U);
  std::filesystem::remove(file_.path());
  std::filesystem::create_symlink("/dev/zero", file_.path());
  EXPECT_EQ(steps(), 0U);
}

TEST_F(StepFileTest, CountsAProgramThatWritesOverItsOneLine) {
  auto changed = std::filesystem::file_time_type::clock::now();
  for (int i = 0; i < 5; ++i) {
    write("\n", std::ios::trunc);
    std::filesystem::last_write_time(file_.path(), changed += std::chrono::milliseconds(10));
    // Only a second look recognises that this was not an append.
    EXPECT_EQ(steps() + steps(), 1U) << i;
  }
}

// A file system may change the time of a file before its length.
TEST_F(StepFileTest, AnAppendThatIsHalfDoneIsNoFileWrittenOver) {
  auto changed = std::filesystem::file_time_type::clock::now();
  for (std::size_t i = 1; i <= 12; ++i) {
    std::filesystem::last_write_time(file_.path(), changed += std::chrono::milliseconds(10));
    EXPECT_EQ(steps(), 0U) << i;
    write("\n");
    EXPECT_EQ(steps(), 1U) << i;
  }
  // Even if the writer is delayed in between.
  for (int look = 0; look < 3; ++look) {
    std::filesystem::last_write_time(file_.path(), changed += std::chrono::milliseconds(10));
    EXPECT_EQ(steps(), 0U);
  }
  EXPECT_EQ(file_.restarts(), 0U);
}

/// Collects the troubles that looks find.
class StepTroubleTest : public StepFileTest {
 protected:
  /// Writes lines, then looks every 5 ms for `seconds`. Returns the troubles found.
  std::string look(double seconds, int lines = 0) {
    if (lines > 0) write(std::string(static_cast<std::size_t>(lines), '\n'));
    std::string found;
    for (double passed = 0; passed < seconds; passed += 0.005) {
      now_ = now_ + 0.005_s;
      counted_ += file_.poll(now_).size();
      if (const auto trouble = file_.take_trouble()) {
        found += trouble->what;
        timed_ = trouble->are_steps_timed;
      }
    }
    return found;
  }

  std::size_t counted_ = 0;
  bool timed_ = true;
};

TEST_F(StepTroubleTest, LinesThatAreNotFlushedArriveInBursts) {
  EXPECT_EQ(look(0.1), "");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(look(0.1, 1), "");
  EXPECT_EQ(look(3, 20), "") << "not after a silence";
  EXPECT_EQ(look(3, 20), "") << "chance once";
  EXPECT_THAT(look(3, 20), ::testing::HasSubstr("20 lines at once"));
  EXPECT_FALSE(timed_);
  EXPECT_EQ(look(3, 20), "") << "once";
  EXPECT_EQ(counted_, 100U);
}

TEST_F(StepTroubleTest, TheFirstStepsOfAnUnflushedFileAreABurst) {
  EXPECT_EQ(look(10), "");
  EXPECT_THAT(look(1, 819), ::testing::HasSubstr("819 lines at once"));
}

TEST_F(StepTroubleTest, ShortStepsAfterAPauseAreNone) {
  EXPECT_EQ(look(0.1), "");
  for (int epoch = 0; epoch < 5; ++epoch) {
    for (int i = 0; i < 50; ++i) EXPECT_EQ(look(0.005, 5), "");
    EXPECT_EQ(look(5), "");
  }
}

TEST_F(StepTroubleTest, ALookThatIsLateFindsManyStepsThatAreNone) {
  EXPECT_EQ(look(0.1, 1), "");
  for (int i = 0; i < 5; ++i) {
    now_ = now_ + 2_s;
    EXPECT_EQ(look(0.1, 20), "");
  }
}

TEST_F(StepTroubleTest, LinesFasterThanStepsCanBeAreRefused) {
  EXPECT_EQ(look(0.1), "");
  for (int i = 0; i < 10; ++i) EXPECT_EQ(look(0.1, 1), "");
  EXPECT_NE(look(0.1, 1'000'000), "");
  EXPECT_FALSE(timed_);
  EXPECT_LT(counted_, 10'000U);
  EXPECT_GT(file_.refused(), 980'000U);
}

TEST_F(StepTroubleTest, AFileThatIsRemovedOrReplacedIsToldOfOnce) {
  EXPECT_EQ(look(0.1, 1), "");
  std::filesystem::remove(file_.path());
  EXPECT_EQ(look(0.1), "the file of steps was removed");
  EXPECT_TRUE(timed_);
  EXPECT_EQ(look(0.1, 1), "");
  EXPECT_EQ(counted_, 2U);
}

TEST_F(StepTroubleTest, AnotherFileInItsPlaceIsToldOfOnce) {
  EXPECT_EQ(look(0.1, 1), "");
  const std::filesystem::path other = file_.path().string() + ".new";
  std::ofstream(other) << "\n\n";
  std::filesystem::rename(other, file_.path());
  EXPECT_EQ(look(0.1), "the file of steps was replaced by another file");
  EXPECT_EQ(look(0.1, 1), "");
  EXPECT_EQ(counted_, 4U);
}

TEST_F(StepFileTest, GigabytesAtOnceCostLittle) {
  write("\n");
  EXPECT_EQ(steps(), 1U);
  std::filesystem::resize_file(file_.path(), std::uintmax_t{4} << 30);  // a hole
  (void)steps();
  EXPECT_GT(file_.skipped(), std::uint64_t{3} << 30);
  write("\n\n");
  EXPECT_EQ(steps(), 1U) << "the first ends a line of zeros";
}

TEST_F(StepFileTest, NothingIsLostHoweverWritesAndLooksInterleave) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  std::size_t seen = 0, written = 0;
  for (int i = 0; i < 200; ++i) {
    std::string text;
    for (auto lines = random() % 50; lines > 0; --lines) text += "step\n";
    written += text.size() / 5;
    const std::size_t half = text.empty() ? 0 : random() % text.size();
    write(text.substr(0, half));
    seen += steps();
    write(text.substr(half));
    seen += steps();
  }
  EXPECT_EQ(seen, written);
  EXPECT_EQ(file_.restarts(), 0U);
}

}  // namespace
}  // namespace harpe::zeus
