#include "harpe/base/result.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace harpe {
namespace {

TEST(Diagnostic, TextLeavesOutWhatIsNotKnown) {
  EXPECT_EQ((Diagnostic{"a.csv", 3, 7, "bad"}.text()), "a.csv:3:7: bad");
  EXPECT_EQ((Diagnostic{"a.csv", 3, 0, "bad"}.text()), "a.csv:3: bad");
  EXPECT_EQ((Diagnostic{"a.csv", 0, 0, "bad"}.text()), "a.csv: bad");
  EXPECT_EQ((Diagnostic{"", 0, 0, "bad"}.text()), "bad");
  EXPECT_EQ((Diagnostic{"", 3, 7, "bad"}.text()), "3:7: bad");
}

TEST(Diagnostics, KeepsTheFirstOnesAndCountsTheRest) {
  Diagnostics diagnostics("f");
  for (int i = 1; i <= 23; ++i) diagnostics.add(i, 1, "wrong");
  EXPECT_EQ(diagnostics.count(), 23);
  const auto kept = diagnostics.take();
  ASSERT_EQ(kept.size(), Diagnostics::kLimit + 1);
  EXPECT_EQ(kept[19].line, 20);
  EXPECT_EQ(kept.back().text(), "f: and 3 more errors");
  EXPECT_TRUE(diagnostics.empty());
}

TEST(Diagnostics, AtTheLimitNothingIsLeftOut) {
  Diagnostics diagnostics;
  for (std::size_t i = 0; i < Diagnostics::kLimit; ++i) diagnostics.add("wrong");
  EXPECT_EQ(diagnostics.take().size(), Diagnostics::kLimit);
}

TEST(Error, TextHasOneErrorALine) {
  Diagnostics diagnostics("f");
  diagnostics.add(1, 2, "one");
  diagnostics.add("two");
  EXPECT_EQ(Error::invalid(std::move(diagnostics)).text(), "f:1:2: one\nf: two");
}

TEST(Error, EveryCodeHasItsExitStatus) {
  EXPECT_EQ(exit_status(ErrorCode::kInvalidInput), 2);
  EXPECT_EQ(exit_status(ErrorCode::kInfeasible), 2);
  EXPECT_EQ(exit_status(ErrorCode::kIo), 2);
  EXPECT_EQ(exit_status(ErrorCode::kRefused), 1);
  EXPECT_EQ(exit_status(ErrorCode::kInternal), 70);
}

TEST(Result, HoldsAValueThatCanBeMovedOut) {
  Result<std::unique_ptr<int>> result(std::make_unique<int>(7));
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(**result, 7);
  const std::unique_ptr<int> taken = *std::move(result);
  EXPECT_EQ(*taken, 7);
}

TEST(Result, HoldsAnError) {
  const Result<int> result = Error::infeasible("too fast");
  ASSERT_FALSE(result.ok());
  EXPECT_EQ(result.error().code, ErrorCode::kInfeasible);
  EXPECT_EQ(result.error().text(), "too fast");
  EXPECT_TRUE(ok_status().ok());
}

Result<int> half_of(int number) {
  if (number % 2 != 0) return Error::invalid(std::to_string(number) + " is odd");
  return number / 2;
}

Status check_quarter(int number) {
  const int half = HARPE_TRY(half_of(number));
  HARPE_TRY(half_of(half));
  return ok_status();
}

TEST(Result, IsHandedOnWhereItIsAnError) {
  EXPECT_TRUE(check_quarter(8).ok());
  EXPECT_EQ(check_quarter(7).error().text(), "7 is odd");
  EXPECT_EQ(check_quarter(6).error().text(), "3 is odd");
}

TEST(Result, TryMovesTheValueOut) {
  const auto made = []() -> Result<std::unique_ptr<int>> { return std::make_unique<int>(7); };
  const auto used = [&]() -> Result<int> { return *HARPE_TRY(made()); };
  EXPECT_EQ(*used(), 7);
}

TEST(ResultDeath, TakingWhatIsNotThereEndsTheProgramInEveryBuild) {
  EXPECT_DEATH((void)half_of(3).value(), "the value of a failed result was requested: 3 is odd");
  EXPECT_DEATH((void)*half_of(5), "5 is odd");
  EXPECT_DEATH((void)half_of(4).error(), "the error of a successful result was requested");
}

}  // namespace
}  // namespace harpe
