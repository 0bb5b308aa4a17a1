#include "harpe/command/plan_cli/table.h"

#include <gtest/gtest.h>

namespace harpe {
namespace {

const Table kTable{.rows = {{"policy", "time s", "energy J", "gap"},
                            {"all-max", "1.6098", "2 855.0", "14.76 %"},
                            {"harpe", "1.6086", "2 492.1", "0.04 %"}}};

TEST(Table, IsAsWideAsItsCells) {
  EXPECT_EQ(kTable.text(false),
            "policy   time s  energy J      gap\n"
            "all-max  1.6098   2 855.0  14.76 %\n"
            "harpe    1.6086   2 492.1   0.04 %\n");
  EXPECT_EQ(kTable.text(false, 34), kTable.text(false));
}

TEST(Table, HasColumnsThatDoNotFitBelowWithTheFirstColumnAgain) {
  EXPECT_EQ(kTable.text(false, 33),
            "policy   time s  energy J\n"
            "all-max  1.6098   2 855.0\n"
            "harpe    1.6086   2 492.1\n"
            "\n"
            "policy       gap\n"
            "all-max  14.76 %\n"
            "harpe     0.04 %\n");
}

TEST(Table, HasTwoColumnsHoweverNarrowItShouldBe) {
  EXPECT_EQ(kTable.text(false, 1),
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

}  // namespace
}  // namespace harpe
