#include "harpe/base/csv.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

MATCHER_P2(CellAt, column, text, "") {
  return arg.text == std::string(text) && arg.column == column;
}

std::vector<CsvRow> split(std::string_view text, bool keep_empty_lines = false) {
  Diagnostics diagnostics;
  auto rows = split_csv(text, diagnostics, keep_empty_lines);
  EXPECT_TRUE(diagnostics.empty()) << Error::invalid(std::move(diagnostics)).text();
  return rows;
}

std::string diagnostics_of(std::string_view text) {
  Diagnostics diagnostics;
  (void)split_csv(text, diagnostics);
  return Error::invalid(std::move(diagnostics)).text();
}

TEST(SplitCsv, TrimsCellsAndKnowsWhereTheyStart) {
  const auto rows = split("a, bc ,,\n  d\te ,f");
  ASSERT_EQ(rows.size(), 2);
  EXPECT_EQ(rows[0].line, 1);
  EXPECT_THAT(rows[0].cells,
              ElementsAre(CellAt(1, "a"), CellAt(4, "bc"), CellAt(8, ""), CellAt(9, "")));
  EXPECT_EQ(rows[1].line, 2);
  EXPECT_THAT(rows[1].cells, ElementsAre(CellAt(3, "d e"), CellAt(8, "f")));
}

TEST(SplitCsv, SkipsCommentsAndEmptyLinesButCountsThem) {
  const auto rows = split("# one\n\n \t\n  # four\na\n");
  ASSERT_EQ(rows.size(), 1);
  EXPECT_EQ(rows[0].line, 5);
}

TEST(SplitCsv, KeepsEmptyLinesWhereAsked) {
  const auto rows = split("a\n\n# no\nb\n", true);
  ASSERT_EQ(rows.size(), 3);
  EXPECT_THAT(rows[1].cells, IsEmpty());
  EXPECT_EQ(rows[2].line, 4);
}

TEST(SplitCsv, AcceptsByteOrderMarkAndCrLf) {
  const auto rows = split(
      "\xef\xbb\xbf"
      "a,b\r\n\r\nc\r\n");
  ASSERT_EQ(rows.size(), 2);
  EXPECT_THAT(rows[0].cells, ElementsAre(CellAt(1, "a"), CellAt(3, "b")));
  EXPECT_THAT(rows[1].cells, ElementsAre(CellAt(1, "c")));
}

TEST(SplitCsv, ReadsQuotedCells) {
  const auto rows = split(R"("a,b" , "say ""hi""","" ,x"y)");
  ASSERT_EQ(rows.size(), 1);
  EXPECT_THAT(rows[0].cells, ElementsAre(CellAt(1, "a,b"), CellAt(9, R"(say "hi")"), CellAt(22, ""),
                                         CellAt(26, R"(x"y)")));
}

TEST(SplitCsv, ReportsEveryErrorWithItsPlace) {
  EXPECT_EQ(diagnostics_of("ok\na,\"open\n\"x\" y,\"z"),
            "2:3: this quote does not close on its line\n"
            "3:5: expected a comma after the closing quote\n"
            "3:7: this quote does not close on its line");
}

TEST(SplitCsv, RefusesNulBytes) {
  EXPECT_EQ(diagnostics_of(std::string_view("a\nb,\0", 5)),
            "2:3: NUL byte: this is not a text file");
}

TEST(SplitCsv, RefusesControlCharactersAndReadsTabsAsSpaces) {
  EXPECT_EQ(diagnostics_of("a,b\nc,\"x\x01\"\n# \x02\nd\re,\x7f\n"),
            "2:5: expected text, found a control character (code 1)\n"
            "4:2: expected text, found a control character (code 13)");
  const auto rows = split("a\tb,\"\tc\"\r\r\n");
  ASSERT_EQ(rows.size(), 1);
  EXPECT_THAT(rows[0].cells, ElementsAre(CellAt(1, "a b"), CellAt(5, " c")));
}

TEST(SplitCsv, AnEmptyTextHasNoRows) {
  EXPECT_THAT(split("", true), IsEmpty());
}

TEST(SplitCsv, TakesTheSeparatorOfTheFirstLine) {
  Diagnostics diagnostics;
  const auto semicolons = split_csv("# a, comment\na;\"b;c\";d\n1;0,5;x,y\n", diagnostics);
  ASSERT_EQ(semicolons.size(), 2u);
  ASSERT_EQ(semicolons[0].cells.size(), 3u);
  EXPECT_EQ(semicolons[0].cells[1].text, "b;c");
  EXPECT_EQ(semicolons[1].cells[1].text, "0.5");
  EXPECT_EQ(semicolons[1].cells[1].column, 3);
  EXPECT_EQ(semicolons[1].cells[2].text, "x,y");
  const auto tabs = split_csv("a\tb\n\t2\n", diagnostics);
  ASSERT_EQ(tabs[1].cells.size(), 2u);
  EXPECT_EQ(tabs[1].cells[0].text, "");
  EXPECT_EQ(tabs[1].cells[1].text, "2");
  EXPECT_TRUE(diagnostics.empty());

  EXPECT_EQ(csv_form_remark("a,b;c\n"), "");
  EXPECT_EQ(csv_form("a,b\n0;5\n").separator, ',');
  EXPECT_EQ(csv_form_remark("a;b\n1;2\n"), "columns are separated by ';'");
}

}  // namespace
}  // namespace harpe
