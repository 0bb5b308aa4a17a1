// The saving of a run against its highest setting, from looks at that setting.

#include "harpe/zeus/tuning/saving_account.h"

#include <gtest/gtest.h>

#include <cmath>

namespace harpe::zeus {
namespace {

/// Adds steps of 0.1 s and `joules` each, the first `unmeasured` of them outside of windows.
void visit(SavingAccount& account, std::size_t setting, int steps, double joules,
           int unmeasured = 0) {
  for (int i = 0; i < steps; ++i) account.step(setting, 0.1_s);
  const int measured = steps - unmeasured;
  account.add(setting, {.steps = measured,
                        .time = {0.1 * measured},
                        .energy = {joules * measured},
                        .error = {joules * measured * 0.002}});
}

TEST(SavingAccount, ClaimsAllStepsAgainstTheLooksBesideThem) {
  SavingAccount account;
  visit(account, 0, 40, 30);
  visit(account, 1, 200, 20, 20);
  visit(account, 0, 40, 30);
  const Saving saving = account.saving({});
  EXPECT_NEAR(saving.saved.value, 200 * 10, 1e-6);
  EXPECT_NEAR(saving.at_highest.value, 280 * 30, 1e-6);
  EXPECT_GT(saving.error.value, 0.002 * 200 * 30);
}

TEST(SavingAccount, StepsThatBecomeShorterUnderEverySettingAreNoSaving) {
  SavingAccount account;
  visit(account, 0, 40, 30);
  visit(account, 1, 200, 20);
  // Steps of half the time, also in their window.
  for (int i = 0; i < 200; ++i) account.step(1, 0.05_s);
  account.add(1, {.steps = 200, .time = 10_s, .energy = 2000_J, .error = 4_J});
  EXPECT_NEAR(account.saving({}).saved.value, 200 * 10 + 200 * 5, 1e-6);
}

TEST(SavingAccount, LooksThatDisagreeWidenTheBar) {
  const auto saving = [](double later) {
    SavingAccount account;
    visit(account, 0, 40, 30);
    visit(account, 1, 200, 20);
    visit(account, 0, 40, later);
    visit(account, 1, 200, 20);
    return account.saving({});
  };
  const Saving steady = saving(30), moved = saving(24);
  // The true saving is between 200 * 10 + 200 * 4 and 200 * 4 + 200 * 4.
  EXPECT_NEAR(moved.saved.value, 2200, moved.error.value);
  EXPECT_LT(moved.saved.value, steady.saved.value);
  EXPECT_GT(moved.error.value, 5 * steady.error.value);
}

TEST(SavingAccount, TheNodesPowerIsPaidForALongerTime) {
  SavingAccount account;
  visit(account, 0, 40, 30);
  for (int i = 0; i < 100; ++i) account.step(1, 0.12_s);
  account.add(1, {.steps = 100, .time = 12_s, .energy = 2000_J, .error = 4_J});
  EXPECT_NEAR(account.saving({400}).saved.value, 100 * (30 - 20 - 0.02 * 400), 1e-6);
  EXPECT_NEAR(account.delay().beyond.value, 2, 1e-9);
  EXPECT_NEAR(account.delay().at_highest.value, 14, 1e-9);
  EXPECT_NEAR(account.slowdown(1)->ratio, 1.2, 1e-9);
}

TEST(SavingAccount, NothingIsSavedAgainstWhatWasNotMeasured) {
  SavingAccount account;
  EXPECT_EQ(account.saving({}).saved.value, 0);
  visit(account, 1, 100, 20);
  EXPECT_EQ(account.saving({}).saved.value, 0);
  EXPECT_FALSE(account.slowdown(1).has_value());
}

TEST(SavingAccount, LinesThatAreNoStepsClaimNothing) {
  SavingAccount account;
  visit(account, 0, 40, 30);
  visit(account, 1, 200, 20);
  const double honest = account.saving({}).saved.value;
  // Thirty million steps at once take no time.
  account.step(1, 0.001_s);
  account.add(1, {.steps = 30'000'000, .time = 1_s, .energy = 200_J, .error = 1_J});
  visit(account, 0, 40, 30);
  EXPECT_LE(account.saving({}).saved.value, 1.1 * honest);
}

TEST(SavingAccount, AnEarlierRunIsComparedWithAndIsNoPartOfTheSaving) {
  SavingAccount account;
  account.add_known(0, {.steps = 1, .time = 0.1_s, .energy = 30_J, .error = 0.6_J});
  account.add_known(1, {.steps = 1, .time = 0.1_s, .energy = 20_J, .error = 0.4_J});
  visit(account, 1, 100, 20);
  EXPECT_NEAR(account.saving({}).saved.value, 1000, 1e-6);
  EXPECT_NEAR(account.saving({}).at_highest.value, 3000, 1e-6);
}

TEST(SavingAccount, LongVisitsAreKeptInFewEntriesAndGiveTheSame) {
  SavingAccount account;
  visit(account, 0, 40, 30);
  for (int i = 0; i < 100; ++i) visit(account, 1, 25, 20);
  visit(account, 0, 40, 30);
  EXPECT_NEAR(account.saving({}).saved.value, 2500 * 10, 1e-6);
}

}  // namespace
}  // namespace harpe::zeus
