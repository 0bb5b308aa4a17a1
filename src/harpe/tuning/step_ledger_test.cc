// What steps cost and what was saved.

#include "harpe/tuning/step_ledger.h"

#include <gtest/gtest.h>

#include <cmath>

namespace harpe {
namespace {

StepLedger ledger() {
  StepLedger ledger(3);
  for (int i = 0; i < 30; ++i) ledger.count(0);
  for (int i = 0; i < 100; ++i) ledger.count(1);
  ledger.count(2);
  ledger.add(0, 10, 1_s, 300_J, 3_J);
  ledger.add(0, 10, 1_s, 300_J, 4_J);
  ledger.add(1, 50, 6_s, 1000_J, 10_J);
  return ledger;
}

TEST(StepLedger, CostsAreMeansOfWhatWasMeasured) {
  const auto costs = ledger().costs();
  EXPECT_EQ(costs[0].steps, 20);
  EXPECT_DOUBLE_EQ(costs[0].energy.value, 30);
  EXPECT_DOUBLE_EQ(costs[0].error.value, 0.25);
  EXPECT_DOUBLE_EQ(costs[1].time.value, 0.12);
  EXPECT_EQ(costs[2].steps, 0);
}

TEST(StepLedger, SavesByAllStepsOfMeasuredSettings) {
  const Saving saving = ledger().saving({});
  EXPECT_DOUBLE_EQ(saving.saved.value, 100 * (30 - 20));
  EXPECT_DOUBLE_EQ(saving.at_highest.value, 130 * 30);
  EXPECT_DOUBLE_EQ(saving.error.value, std::hypot(100 * 0.25, 100 * 0.2));
}

TEST(StepLedger, TheNodesPowerIsPaidForALongerTime) {
  // A step takes 0.02 s more.
  EXPECT_NEAR(ledger().saving({400}).saved.value, 100 * (30 - 20 - 0.02 * 400), 1e-9);
}

TEST(StepLedger, NothingIsSavedAgainstWhatWasNotMeasured) {
  StepLedger ledger(2);
  ledger.count(1);
  ledger.add(1, 1, 1_s, 1_J, 0_J);
  EXPECT_EQ(ledger.saving({}).saved.value, 0);
  EXPECT_EQ(StepLedger(0).saving({}).saved.value, 0);
}

}  // namespace
}  // namespace harpe
