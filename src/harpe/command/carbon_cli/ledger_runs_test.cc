#include "harpe/command/carbon_cli/ledger_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace harpe::command {
namespace {

using namespace harpe::literals;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

carbon::LedgerRun run_of(const std::string& id, std::vector<double> joules,
                         std::int64_t start = 0) {
  carbon::LedgerRun run{.id = id, .job = "job " + id};
  for (const double energy : joules) {
    const auto at = static_cast<double>(start);
    EXPECT_TRUE(run.ledger.add(at, at, {.energy = {energy}}).ok());
    start += 900;
  }
  return run;
}

TEST(CountOnce, KeepsRunsThatDiffer) {
  const CountedRuns counted =
      count_once({{run_of("a", {1, 2}), "a.json"}, {run_of("b", {3}), "b.json"}});
  ASSERT_EQ(counted.runs.size(), 2U);
  EXPECT_THAT(counted.notes, IsEmpty());
  EXPECT_EQ(counted.runs[0].ledger.total().energy.value, 3);
}

TEST(CountOnce, CountsTheSameRunOnce) {
  const CountedRuns counted =
      count_once({{run_of("a", {1, 2}), "a.json"}, {run_of("a", {1, 2}), "copy.json"}});
  ASSERT_EQ(counted.runs.size(), 1U);
  EXPECT_EQ(counted.runs[0].ledger.total().energy.value, 3);
  EXPECT_THAT(counted.notes,
              ElementsAre(AllOf(HasSubstr("a.json"), HasSubstr("copy.json"), HasSubstr("once"))));
}

TEST(CountOnce, TakesWhatALaterCopyHasMoreOf) {
  for (const bool later_first : {false, true}) {
    ReadRun early{run_of("a", {1, 2}), "early.json"}, late{run_of("a", {1, 5, 7}), "late.json"};
    const CountedRuns counted = later_first ? count_once({late, early}) : count_once({early, late});
    ASSERT_EQ(counted.runs.size(), 1U);
    EXPECT_EQ(counted.runs[0].ledger.total().energy.value, 13);
    EXPECT_THAT(counted.notes, ElementsAre(HasSubstr("in copies that differ")));
  }
}

TEST(CountOnce, NamesDevicesThatAreMeasuredTwice) {
  carbon::LedgerRun one = run_of("a", {1, 1, 1}), other = run_of("b", {1, 1, 1}, 900);
  one.device_ids = other.device_ids = {"GPU-1"};
  EXPECT_THAT(count_once({{one, "a"}, {other, "b"}}).notes,
              ElementsAre(AllOf(HasSubstr("GPU-1"), HasSubstr("counted twice"))));
  carbon::LedgerRun next =
      run_of("c", {1}, 2 * 900);  // begins in the interval in which the other ended
  next.device_ids = {"GPU-1"};
  EXPECT_THAT(count_once({{one, "a"}, {next, "c"}}).notes, IsEmpty());
}

}  // namespace
}  // namespace harpe::command
