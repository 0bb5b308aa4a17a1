#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/profile/profile.h"

namespace harpe::plan {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kHeader = "stage,instruction,frequency,time,energy\n";
constexpr const char* kGood = "0,forward,1410,0.5,200\n";

std::vector<Diagnostic> diagnostics_of(const std::string& text) {
  const auto profile = parse_profile(text, "p.csv");
  if (profile.ok()) return {};
  EXPECT_EQ(profile.error().code, ErrorCode::kInvalidInput);
  return profile.error().diagnostics;
}

Profile parsed(const std::string& text) {
  const auto profile = parse_profile(text, "p.csv");
  EXPECT_TRUE(profile.ok()) << (profile.ok() ? "" : profile.error().text());
  return profile.ok() ? *profile : Profile();
}

/// Expects one diagnostic, at `line:column`, whose message contains `message`.
void expect_error(const std::string& text, int line, int column, const std::string& message) {
  SCOPED_TRACE(text);
  const std::vector<Diagnostic> diagnostics = diagnostics_of(text);
  ASSERT_EQ(diagnostics.size(), 1u)
      << (diagnostics.empty() ? "none" : Error{{}, diagnostics}.text());
  EXPECT_EQ(diagnostics[0].file, "p.csv");
  EXPECT_EQ(diagnostics[0].line, line) << diagnostics[0].message;
  EXPECT_EQ(diagnostics[0].column, column) << diagnostics[0].message;
  EXPECT_THAT(diagnostics[0].message, HasSubstr(message));
}

/// Expects one diagnostic in the only data row.
void expect_row_error(const std::string& row, int column, const std::string& message) {
  expect_error(kHeader + row + "\n", 2, column, message);
}

OperatingPoint row_point(int clock, double time, double energy) {
  return {{clock}, {time}, {energy}};
}

TEST(ParseProfile, ReadsRowsInAnyOrderOfRowsAndColumns) {
  const Profile profile = parsed(
      "# measured\nenergy,Time,unused,frequency,instruction,stage\n"
      "9,0.25,x,1410.0,Backward,1\n\n20,0.5,y,1395,forward,0\n# more\n21,0.5,,1410,forward,0\n");
  EXPECT_EQ(profile.stages(), 2);
  EXPECT_FALSE(profile.has_chunks());
  EXPECT_THAT(profile.points(0, 0, InstructionKind::kForward),
              ElementsAre(row_point(1395, 0.5, 20), row_point(1410, 0.5, 21)));
  EXPECT_THAT(profile.points(1, 0, InstructionKind::kBackward),
              ElementsAre(row_point(1410, 0.25, 9)));
}

TEST(ParseProfile, AcceptsCrlfByteOrderMarkAndQuotes) {
  const Profile profile = parsed(
      "\xef\xbb\xbfstage,instruction,frequency,time,energy\r\n\"0\",\"forward\", 1410 "
      ",0.5,200\r\n");
  EXPECT_THAT(profile.points(0, 0, InstructionKind::kForward),
              ElementsAre(row_point(1410, 0.5, 200)));
}

TEST(ParseProfile, SaysWhereAFileIsOfAnotherForm) {
  expect_error("{\"format\": \"harpe.plan/1\", \"job\": \"a\",\n \"stages\": 2}\n", 1, 1,
               "this is JSON");
  expect_error("# a comment\n[1, 2]\n", 2, 1, "this is JSON");
  expect_error("[[gpu]]\nmodel = \"a40\"\n", 1, 1, "this is TOML");
  expect_error("profile = \"p.csv\"\n", 1, 1, "this is TOML");
}

TEST(ParseProfile, ReadsChunks) {
  const Profile profile = parsed(
      "stage,chunk,instruction,frequency,time,energy\n0,0,forward,1410,1,2\n0,1,forward,1410,3,"
      "4\n");
  EXPECT_TRUE(profile.has_chunks());
  EXPECT_THAT(profile.points(0, 1, InstructionKind::kForward), ElementsAre(row_point(1410, 3, 4)));
}

TEST(ParseProfile, TakesTheLongestTimeAndTheMeanEnergyOverRanks) {
  const Profile profile = parsed(
      "stage,instruction,frequency,time,energy,dp_rank,tp_rank\n"
      "0,forward,1410,0.5,100,0,0\n0,forward,1410,0.7,104,0,1\n"
      "0,forward,1410,0.6,108,1,0\n0,forward,1395,0.8,90,0,0\n");
  EXPECT_THAT(profile.points(0, 0, InstructionKind::kForward),
              ElementsAre(row_point(1395, 0.8, 90), row_point(1410, 0.7, 104)));
}

TEST(ParseProfile, TheMeanOverRanksStaysWithinWhatWasMeasured) {
  const Profile profile = parsed(
      "stage,instruction,frequency,time,energy,rank\n0,forward,1410,1,1e-15,0\n"
      "0,forward,1410,1,1e-15,1\n0,forward,1410,1,1e-15,2\n");
  EXPECT_EQ(profile.points(0, 0, InstructionKind::kForward)[0].energy.value, 1e-15);
}

TEST(ParseProfile, ACommentMakesItSynthetic) {
  const std::string rows = std::string(kHeader) + kGood;
  for (const std::string& synthetic :
       {"# Synthetic profile, not measured: harpe synth --gpu a40\n" + rows,
        "\xef\xbb\xbf  #SYNTHETIC PROFILE\r\n" + rows,
        "# of the A100\n" + rows + "# synthetic profile"}) {
    EXPECT_TRUE(parsed(synthetic).is_synthetic()) << synthetic;
  }
  for (const std::string& measured :
       {rows, "# Measured while it trained on synthetic data, no synthetic profile\n" + rows,
        "# Synthetic\n" + rows,
        std::string("stage,instruction,frequency,time,energy,Synthetic "
                    "profile\n0,forward,1410,0.5,200,1\n")}) {
    EXPECT_FALSE(parsed(measured).is_synthetic()) << measured;
  }
}

TEST(ParseProfile, ReadsKnobs) {
  const Profile profile = parsed(
      "stage,instruction,frequency,Power_Limit,time,energy,label,memory_frequency\n"
      "0,forward,1410,250.5,1,20,sm12/b:1,1215.0\n0,forward,1410,,2,21,,\n"
      "0,forward,1410,,3,22,,810\n");
  const Knobs all{.memory_clock = {1215}, .power_limit = {250.5}, .label = *Label::of("sm12/b:1")};
  EXPECT_THAT(profile.points(0, 0, InstructionKind::kForward),
              ElementsAre(row_point(1410, 2, 21),
                          OperatingPoint{{1410}, {3}, {22}, {.memory_clock = {810}}},
                          OperatingPoint{{1410}, {1}, {20}, all}));
}

TEST(ParseProfile, ReadsTheConfigurationsOfKareusAsLabels) {
  const Profile profile =
      parsed("stage,instruction,frequency,configuration,time,energy\n0,forward,1410,3,1,20\n");
  EXPECT_THAT(profile.points(0, 0, InstructionKind::kForward),
              ElementsAre(OperatingPoint{{1410}, {1}, {20}, {.label = *Label::of("3")}}));
  expect_error(
      "stage,instruction,frequency,configuration,time,energy,label\n0,forward,1410,3,1,20,\n", 1,
      55, "'configuration' is another name of it");
}

TEST(ParseProfile, TakesRowsOfSeveralRanksTogetherForTheSameKnobsAlone) {
  const Profile profile = parsed(
      "stage,instruction,frequency,label,rank,time,energy\n0,forward,1410,a,0,1,20\n"
      "0,forward,1410,a,1,2,22\n0,forward,1410,b,0,3,30\n");
  EXPECT_THAT(profile.points(0, 0, InstructionKind::kForward),
              ElementsAre(OperatingPoint{{1410}, {2}, {21}, {.label = *Label::of("a")}},
                          OperatingPoint{{1410}, {3}, {30}, {.label = *Label::of("b")}}));
}

TEST(ParseProfile, RefusesKnobsOutOfRange) {
  const std::string header =
      "stage,instruction,frequency,memory_frequency,power_limit,label,time,energy\n";
  const auto refused = [&](const std::string& knobs, int column, const std::string& message) {
    expect_error(header + "0,forward,1410," + knobs + ",1,20\n", 2, column, message);
  };
  refused("0,,", 16, "memory_frequency is 0: leave it empty");
  refused("x,,", 16, "memory_frequency 'x' is not a number");
  refused("12.5,,", 16, "is not a whole number");
  refused(",0,", 17, "power_limit '0': expected watts from 0.001 to 1000000");
  refused(",-1,", 17, "power_limit");
  refused(",x,", 17, "power_limit 'x'");
  refused(",1e7,", 17, "power_limit");
  refused(",,a b", 18, "label 'a b': expected at most 31 letters, digits and _-.:+/");
  refused(",," + std::string(32, 'a'), 18, "label");
  expect_error(header + "0,forward,1410,,250,a,1,20\n0,forward,1410,,250.0,a,1,20\n", 3, 1,
               "at 1410 MHz, 250 W, a is already in line 2");
  expect_error("stage,instruction,frequency,lable,time,energy\n0,forward,1410,a,1,20\n", 1, 29,
               "is 'label' meant?");
}

TEST(ParseProfile, FixedTimeKindsNeedNoClock) {
  const Profile profile = parsed(std::string(kHeader) + kGood +
                                 "0,load,,0.01,1\n0,send,0,0.02,2\n0,recv,1410,0.03,3\n");
  EXPECT_THAT(profile.points(0, 0, InstructionKind::kLoad), ElementsAre(row_point(0, 0.01, 1)));
  EXPECT_THAT(profile.points(0, 0, InstructionKind::kSend), ElementsAre(row_point(0, 0.02, 2)));
  EXPECT_THAT(profile.points(0, 0, InstructionKind::kRecv), ElementsAre(row_point(1410, 0.03, 3)));
}

TEST(ParseProfile, AcceptsTheEndsOfTheSolversRange) {
  parsed(std::string(kHeader) + "0,forward,1,1e-9,1e-15\n0,backward,100000,1e6,1e15\n");
}

TEST(ParseProfile, NamesAMissingColumnAndWhatWasFound) {
  expect_error("stage,instruction,frequency,time\n0,forward,1410,0.5\n", 1, 1,
               "column 'energy' is missing (found: 'stage', 'instruction', 'frequency', 'time')");
  expect_error("stage,instruction,frequency,time,enrgy\n0,forward,1410,0.5,2\n", 1, 34,
               "column 'energy' is missing; is 'enrgy' meant?");
}

TEST(ParseProfile, NamesEveryMissingColumn) {
  const std::vector<Diagnostic> diagnostics = diagnostics_of("0,forward,1410,0.5,200\n");
  ASSERT_EQ(diagnostics.size(), 5u);
  EXPECT_THAT(diagnostics[0].message, HasSubstr("column 'stage' is missing"));
  EXPECT_THAT(diagnostics[4].message, HasSubstr("column 'energy' is missing"));
}

TEST(ParseProfile, RefusesADuplicateColumn) {
  expect_error("stage,instruction,frequency,time,energy,TIME\n0,forward,1410,0.5,2,3\n", 1, 41,
               "column 'time' appears twice, first at column 29");
}

TEST(ParseProfile, RefusesAMisspeltOptionalColumn) {
  expect_error("stage,instruction,frequency,time,energy,chnk\n0,forward,1410,0.5,2,0\n", 1, 41,
               "unknown column 'chnk'; is 'chunk' meant?");
}

TEST(ParseProfile, RefusesAWrongOrMissingNumber) {
  expect_row_error("0,forward,1410,half,200", 16, "time 'half' is not a number: expected a finite");
  expect_row_error("0,forward,1410,,200", 16, "time is empty: expected a finite number of seconds");
  expect_row_error("0,forward,1410,0.5,2 J", 20, "energy '2 J' is not a number");
  expect_row_error("0,forward,1410,0.5,", 20, "energy is empty");
  expect_row_error("0,forward,14x0,0.5,200", 11,
                   "frequency '14x0' is not a number: expected a clock");
  expect_row_error("zero,forward,1410,0.5,200", 1,
                   "stage 'zero' is not a number: expected a whole");
}

TEST(ParseProfile, RefusesNanAndInfinity) {
  for (const char* text : {"nan", "NaN", "inf", "-inf", "infinity", "1e999"}) {
    expect_row_error(std::string("0,forward,1410,") + text + ",200", 16,
                     "expected a finite number");
    expect_row_error(std::string("0,forward,1410,0.5,") + text, 20, "expected a finite number");
  }
  expect_row_error("0,forward,nan,0.5,200", 11, "frequency 'nan' is not a number");
}

TEST(ParseProfile, RefusesNegativeAndZeroTimeAndEnergy) {
  expect_row_error("0,forward,1410,-0.5,200", 16, "time '-0.5' is negative");
  expect_row_error("0,forward,1410,0,200", 16, "time '0' is zero");
  expect_row_error("0,forward,1410,-0.0,200", 16, "time '-0.0' is zero");
  expect_row_error("0,forward,1410,0.5,-1", 20, "energy '-1' is negative");
  expect_row_error("0,forward,1410,0.5,0.0", 20, "energy '0.0' is zero");
}

TEST(ParseProfile, RefusesNumbersBeyondTheSolversRange) {
  expect_row_error("0,forward,1410,1.1e6,200", 16,
                   "time '1.1e6' is beyond the solver's range: expected seconds");
  expect_row_error("0,forward,1410,9e-10,200", 16, "beyond the solver's range");
  expect_row_error("0,forward,1410,0.5,1.1e15", 20, "beyond the solver's range: expected joules");
  expect_row_error("0,forward,1410,0.5,9e-16", 20, "beyond the solver's range");
}

TEST(ParseProfile, NamesTheNearestInstruction) {
  expect_row_error("0,foward,1410,0.5,200", 3, "unknown instruction 'foward'; is 'forward' meant?");
  expect_row_error("0,eat,1410,0.5,200", 3,
                   "unknown instruction 'eat': expected forward, backward");
  expect_row_error("0,,1410,0.5,200", 3, "instruction is empty: expected forward, backward");
}

TEST(ParseProfile, ManyRowsOfOneCauseAreOneError) {
  std::string text = kHeader;
  for (int i = 0; i < 608; ++i) text += "0,fwd," + std::to_string(300 + i) + ",0.5,200\n";
  const std::vector<Diagnostic> all = diagnostics_of(text);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].text(),
            "p.csv:2:3: unknown instruction 'fwd'; is 'forward' meant? (the same in 608 rows: "
            "lines 2, 3, 4, ...)");

  text = kHeader;
  for (int i = 0; i < 40; ++i) {
    text += "0,fwd," + std::to_string(300 + i) + ",0.5,200\n";
    text += "0,bwd," + std::to_string(300 + i) + ",0.5,-" + std::to_string(1 + i) + "\n";
  }
  std::string said;
  for (const Diagnostic& one : diagnostics_of(text)) said += one.text() + '\n';
  EXPECT_EQ(said,
            "p.csv:2:3: unknown instruction 'fwd'; is 'forward' meant? (the same in 40 rows: "
            "lines 2, 4, 6, ...)\n"
            "p.csv:3:3: unknown instruction 'bwd'; is 'backward' meant? (the same in 40 rows: "
            "lines 3, 5, 7, ...)\n"
            "p.csv:3:15: energy '-1' is negative (the same in 40 rows: lines 3, 5, 7, ...)\n");
}

TEST(ParseProfile, FewRowsOfOneCauseAreAnErrorEach) {
  const std::string text = std::string(kHeader) +
                           "0,forward,1410,0.5,-1\n0,forward,1395,0.5,-2\n0,forward,1380,0.5,-3\n";
  EXPECT_EQ(diagnostics_of(text).size(), 3U);
}

TEST(ParseProfile, RefusesSwitchRows) {
  expect_row_error("0,switch,1410,0.5,200", 3, "'switch' cannot be measured");
}

TEST(ParseProfile, RefusesAClockOfZeroOrNone) {
  expect_row_error("0,forward,0,0.5,200", 11, "frequency is 0: a forward runs at a clock above 0");
  expect_row_error("0,forward,0.0,0.5,200", 11, "frequency is 0");
  expect_row_error("0,forward,,0.5,200", 11, "frequency is empty: expected a clock in MHz");
  expect_row_error("0,forward,-15,0.5,200", 11, "frequency '-15' is negative");
}

TEST(ParseProfile, RefusesAClockThatIsNotAWholeNumberOfMegahertz) {
  expect_row_error("0,forward,1410.5,0.5,200", 11, "frequency '1410.5' is not a whole number");
  expect_row_error("0,forward,1410.00001,0.5,200", 11, "is not a whole number");
  expect_row_error("0,forward,1410000000,0.5,200", 11,
                   "frequency '1410000000' looks like Hz: expected MHz, 1410");
  parsed(std::string(kHeader) + "0,forward,1410.0000001,0.5,200\n");
}

TEST(ParseProfile, RefusesStagesAndChunksOutOfRange) {
  expect_row_error("-1,forward,1410,0.5,200", 1, "stage '-1' is negative");
  expect_row_error("100001,forward,1410,0.5,200", 1, "stage '100001' is over 100000");
  expect_row_error("0.5,forward,1410,0.5,200", 1, "stage '0.5' is not a whole number");
  expect_error("chunk,stage,instruction,frequency,time,energy\n-2,0,forward,1410,0.5,200\n", 2, 1,
               "chunk '-2' is negative");
  expect_error("chunk,stage,instruction,frequency,time,energy\n1e6,0,forward,1410,0.5,200\n", 2, 1,
               "chunk '1e6' is over 100000");
}

TEST(ParseProfile, RefusesRanksThatAreNotWholeNumbers) {
  expect_error("rank,stage,instruction,frequency,time,energy\nx,0,forward,1410,0.5,200\n", 2, 1,
               "rank 'x' is not a number");
}

TEST(ParseProfile, RefusesTheSameRowTwice) {
  expect_error(std::string(kHeader) + kGood + "0,backward,1410,1,2\n 0,forward,1410.0,0.6,210\n", 4,
               2, "the same row twice: stage 0 forward at 1410 MHz is already in line 2");
  expect_error(
      "stage,instruction,frequency,time,energy,rank\n0,forward,1410,0.5,2,3\n"
      "0,forward,1410,0.5,2,4\n0,forward,1410,0.6,2,3\n",
      4, 1, "the same row twice for one rank: stage 0 forward at 1410 MHz is already in line 2");
  expect_error(std::string(kHeader) + "0,load,,0.5,2\n0,load,0,0.5,2\n", 3, 1,
               "stage 0 load without a clock is already in line 2");
}

TEST(ParseProfile, RefusesAChoiceOfClocksForAFixedTime) {
  expect_error(std::string(kHeader) + "0,send,1410,0.5,2\n0,send,1395,0.5,2\n", 3, 8,
               "send has no clock to choose, but stage 0 send is here at 1395 MHz and in line 2 at "
               "1410 MHz");
}

TEST(ParseProfile, RefusesRowsWithTooFewOrTooManyCells) {
  expect_error(std::string(kHeader) + "0,forward,1410\n" + kGood, 2, 15,
               "too few cells: 3 cells, the header has 5");
  expect_error(std::string(kHeader) + "0,forward,1410,0.5,200,7\n" + kGood, 2, 24,
               "too many cells: 6 cells, the header has 5");
}

TEST(ParseProfile, SaysWhenTheLastLineLooksTruncated) {
  expect_error(std::string(kHeader) + kGood + "0,backward,14", 3, 14, "the file may be truncated");
  const std::vector<Diagnostic> diagnostics = diagnostics_of(std::string(kHeader) + "0\n" + kGood);
  ASSERT_EQ(diagnostics.size(), 1u);
  EXPECT_THAT(diagnostics[0].message, testing::Not(HasSubstr("truncated")));
}

TEST(ParseProfile, RefusesFilesWithoutRows) {
  expect_error("", 1, 1, "the file is empty: expected the header stage,instruction,frequency,");
  expect_error("# only a comment\n\n", 1, 1, "the file has no rows: expected the header");
  expect_error(std::string("# measured\n") + kHeader, 2, 1, "no rows follow the header");
}

TEST(ParseProfile, RefusesBytesThatAreNotText) {
  EXPECT_FALSE(diagnostics_of(std::string(kHeader) + kGood + std::string("\0", 1)).empty());
  EXPECT_FALSE(diagnostics_of(std::string(kHeader) + "\"0,forward,1410,0.5,200\n").empty());
}

TEST(ParseProfile, RefusesGapsBetweenStages) {
  const auto row = [](int stage) { return std::to_string(stage) + ",forward,1410,0.5,200\n"; };
  expect_error(kHeader + row(0) + row(2), 3, 1, "but stage 1 is missing (the highest is 2)");
  expect_error(kHeader + row(5) + row(2) + row(9), 3, 1,
               "but stages 0, 1, 3, 4, 6 to 8 are missing (the highest is 9)");
}

TEST(ParseProfile, DoesNotCallAStageMissingWhoseRowsCannotBeRead) {
  expect_error(std::string(kHeader) + kGood + "1,forward,1410\n2,forward,1410,0.5,200\n", 3, 15,
               "too few cells");
}

TEST(ParseProfile, ReportsAllErrorsAtOnce) {
  const std::vector<Diagnostic> diagnostics = diagnostics_of(std::string(kHeader) +
                                                             "-1,foward,0.5,x,nan\n"
                                                             "0,forward,1410\n"
                                                             "0,forward,1410,0.5,200\n"
                                                             "0,forward,1410,-0.5,200\n"
                                                             "0,forward,1410,0.5,200,9\n");
  std::vector<std::string> places;
  places.reserve(diagnostics.size());
  for (const Diagnostic& diagnostic : diagnostics) {
    places.push_back(std::to_string(diagnostic.line) + ":" + std::to_string(diagnostic.column));
  }
  EXPECT_THAT(places,
              ElementsAre("2:1", "2:4", "2:11", "2:15", "2:17", "3:15", "5:16", "5:1", "6:24"));
}

TEST(ParseProfile, CountsTheErrorsThatItLeavesOut) {
  std::string text = kHeader;
  for (int i = 0; i < 100; ++i) {
    const std::string word{'q', static_cast<char>('a' + i / 10), static_cast<char>('a' + i % 10)};
    text += "0,qqqqqqqq" + word + ",1410,0.5,200\n";
  }
  const std::vector<Diagnostic> diagnostics = diagnostics_of(text);
  ASSERT_EQ(diagnostics.size(), Diagnostics::kLimit + 1);
  EXPECT_THAT(diagnostics.back().message, HasSubstr("80 more"));
}

TEST(ReadProfile, NamesTheFileThatCannotBeRead) {
  const auto profile = read_profile("/no/such/profile.csv");
  ASSERT_FALSE(profile.ok());
  EXPECT_EQ(profile.error().code, ErrorCode::kIo);
  EXPECT_THAT(profile.error().text(), HasSubstr("/no/such/profile.csv"));
}

std::size_t points_in(const Profile& profile) {
  std::size_t count = 0;
  for (const InstructionProfile& entry : profile.entries()) count += entry.points.size();
  return count;
}

TEST(ReadProfile, ReadsThePublishedProfiles) {
  const std::filesystem::path data = measured_data() / "sosp24";
  if (!std::filesystem::exists(data)) GTEST_SKIP() << data << " is missing";
  const struct {
    const char* file;
    int stages;
    std::size_t points;
  } files[] = {
      {"emulation/gpt3-175b_a100-sxm.csv", 8, 608},
      {"emulation/bloom-176b_a100-sxm.csv", 8, 608},
      {"measured/bert-1.3b.csv", 4, 63},
      {"measured/bloom-3b.csv", 4, 48},
      {"measured/gpt3-1.3b.csv", 4, 43},
      {"measured/t5-3b.csv", 4, 99},
      {"measured/wide-resnet101.csv", 4, 84},
  };
  for (const auto& expected : files) {
    SCOPED_TRACE(expected.file);
    const auto profile = read_profile(data / expected.file);
    ASSERT_TRUE(profile.ok()) << profile.error().text();
    EXPECT_EQ(profile->stages(), expected.stages);
    EXPECT_EQ(profile->entries().size(), static_cast<std::size_t>(2 * expected.stages));
    EXPECT_EQ(points_in(*profile), expected.points);
  }
}

}  // namespace
}  // namespace harpe::plan
