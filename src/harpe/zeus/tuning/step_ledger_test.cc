// The cost of steps under each setting.

#include <gtest/gtest.h>

#include "harpe/zeus/tuning/tuner.h"

namespace harpe::zeus {
namespace {

StepLedger ledger() {
  StepLedger ledger(3);
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
  EXPECT_EQ(ledger().begun().at(2), 1);
}

}  // namespace
}  // namespace harpe::zeus
