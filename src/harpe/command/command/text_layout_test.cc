#include "harpe/command/command/text_layout.h"

#include <gtest/gtest.h>

namespace harpe::command {
namespace {

Table policies() {
  Table table = Table::of({"policy", "time s", "energy J", "gap"});
  table.add({"all-max", "1.6098", "2 855.0", "14.76 %"});
  table.add({"harpe", "1.6086", "2 492.1", "0.04 %"});
  return table;
}

TEST(Table, IsAsWideAsItsCells) {
  const Table table = policies();
  EXPECT_EQ(table.text(false),
            "policy   time s  energy J      gap\n"
            "all-max  1.6098   2 855.0  14.76 %\n"
            "harpe    1.6086   2 492.1   0.04 %\n");
  EXPECT_EQ(table.text(false, 34), table.text(false));
}

TEST(Table, HasColumnsThatDoNotFitBelowWithTheFirstColumnAgain) {
  EXPECT_EQ(policies().text(false, 33),
            "policy   time s  energy J\n"
            "all-max  1.6098   2 855.0\n"
            "harpe    1.6086   2 492.1\n"
            "\n"
            "policy       gap\n"
            "all-max  14.76 %\n"
            "harpe     0.04 %\n");
}

TEST(Table, HasTwoColumnsHoweverNarrowItShouldBe) {
  EXPECT_EQ(policies().text(false, 1),
            "policy   time s\n"
            "all-max  1.6098\n"
            "harpe    1.6086\n"
            "\n"
            "policy   energy J\n"
            "all-max   2 855.0\n"
            "harpe     2 492.1\n"
            "\n"
            "policy       gap\n"
            "all-max  14.76 %\n"
            "harpe     0.04 %\n");
}

TEST(Table, LeavesOutColumnsByRankBeforeItContinuesBelow) {
  Table table = policies();
  table.columns[1].rank = 1;
  table.columns[2].rank = 2;
  EXPECT_EQ(table.text(false, 33),
            "policy   time s      gap\n"
            "all-max  1.6098  14.76 %\n"
            "harpe    1.6086   0.04 %\n");
}

TEST(Table, CutsCellsThatMayBeCut) {
  Table table = policies();
  table.columns[0].narrowest = 4;
  EXPECT_EQ(table.text(false, 32),
            "poli…  time s  energy J      gap\n"
            "all-…  1.6098   2 855.0  14.76 %\n"
            "harpe  1.6086   2 492.1   0.04 %\n");
}

TEST(Table, DropsColumnsThatAreEmpty) {
  Table table = Table::of({"GPU", "user", "job"}, 3);
  table.add({"0", "", "a"});
  table.add({"1", "", ""});
  table.drop_empty_columns();
  EXPECT_EQ(table.text(false), "GPU  job\n0    a\n1\n");
}

TEST(Padded, CountsCharactersAndKeepsWiderText) {
  EXPECT_EQ(padded("±1", 4), "  ±1");
  EXPECT_EQ(padded("±1", 4, Align::kLeft), "±1  ");
  EXPECT_EQ(padded("12345", 4), "12345");
}

}  // namespace
}  // namespace harpe::command
