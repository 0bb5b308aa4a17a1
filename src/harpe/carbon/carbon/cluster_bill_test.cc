#include "harpe/carbon/carbon/cluster_bill.h"

#include <gtest/gtest.h>

namespace harpe::carbon {
namespace {

/// 16 pipelines of 64 GPUs, in 128 nodes of 8.
ClusterTerms large_cluster() {
  return {.pipelines = 16,
          .host_power = 1000_W,
          .pue = 1.2,
          .price = EnergyPrice{.per_kwh = 0.10, .currency = "EUR"},
          .intensity = CarbonIntensity{.grams_per_kwh = 400}};
}

constexpr IterationCost kPlan{.time = 10_s, .energy = 200'000_J};
constexpr IterationCost kAllMax{.time = 10_s, .energy = 250'000_J};

ClusterBill bill_of(const ClusterTerms& terms, const IterationCost& iteration) {
  return cluster_bill(terms, 64, iteration, iterations_in(terms, kPlan.time));
}

TEST(ClusterBill, IsWhatOneComputesByHand) {
  // 720 h are 259 200 iterations of 10 s. GPUs: 16 x 20 kW = 320 kW. Hosts: 128 kW. With PUE 1.2
  // 537.6 kW, or 387 072 kWh in 720 h.
  const ClusterBill bill = bill_of(large_cluster(), kPlan);
  EXPECT_EQ(bill.gpus, 1024);
  EXPECT_EQ(bill.nodes, 128);
  EXPECT_DOUBLE_EQ(bill.iterations, 259'200);
  EXPECT_DOUBLE_EQ(bill.time.value, 720 * 3600);
  EXPECT_NEAR(bill.power.value, 537'600, 1e-6);
  EXPECT_NEAR(bill.energy / kKilowattHour, 387'072, 1e-6);
  EXPECT_NEAR(bill.co2->value, 154'828'800, 1e-3);  // 154.8 t
  EXPECT_NEAR(*bill.money, 38'707.2, 1e-8);
}

TEST(ClusterBill, SavingIsTheDifferenceAtEqualWork) {
  // All-max takes 16 x 5 kW more, or 96 kW with the PUE: 69 120 kWh in 720 h.
  const ClusterTerms terms = large_cluster();
  const ClusterSaving saved = saving(bill_of(terms, kPlan), bill_of(terms, kAllMax));
  EXPECT_NEAR(saved.energy / kKilowattHour, 69'120, 1e-6);
  EXPECT_NEAR(saved.co2->value, 27'648'000, 1e-3);
  EXPECT_NEAR(*saved.money, 6'912, 1e-8);
}

TEST(ClusterBill, APlanThatIsSlowerIsNotCreditedForDoingLess) {
  // At all-max an iteration takes 8 s and the same work 576 h, in which the hosts draw power.
  ClusterTerms terms = large_cluster();
  terms.pue = 1;
  const ClusterBill faster = bill_of(terms, {.time = 8_s, .energy = 250'000_J});
  EXPECT_DOUBLE_EQ(faster.iterations, 259'200);
  EXPECT_DOUBLE_EQ(faster.time.value, 576 * 3600);
  EXPECT_NEAR(faster.energy / kKilowattHour, 259'200.0 * 16 * 250'000 / 3.6e6 + 128 * 576, 1e-6);
  EXPECT_NEAR(saving(bill_of(terms, kPlan), faster).energy / kKilowattHour,
              259'200.0 * 16 * 50'000 / 3.6e6 - 128 * (720 - 576), 1e-6);
}

TEST(ClusterBill, ScalesWithPueAndPipelinesAndTime) {
  const ClusterBill one = bill_of(large_cluster(), kPlan);
  for (const int factor : {2, 3, 7}) {
    ClusterTerms site = large_cluster(), pipelines = large_cluster(), time = large_cluster();
    site.pue *= factor;
    pipelines.pipelines *= factor;
    time.time = time.time * factor;
    for (const ClusterTerms& terms : {site, pipelines, time}) {
      const ClusterBill bill = bill_of(terms, kPlan);
      EXPECT_NEAR(bill.energy / one.energy, factor, 1e-9);
      EXPECT_NEAR(*bill.co2 / *one.co2, factor, 1e-9);
      EXPECT_NEAR(*bill.money / *one.money, factor, 1e-9);
    }
    EXPECT_NEAR(bill_of(site, kPlan).power / one.power, factor, 1e-9);
    EXPECT_DOUBLE_EQ(bill_of(time, kPlan).power.value, one.power.value);
  }
}

TEST(ClusterBill, ANodeThatIsNotFullDrawsAsMuchBesideItsGpus) {
  const ClusterTerms terms{.host_power = 500_W};
  EXPECT_EQ(cluster_bill(terms, 4, kPlan, 1).nodes, 1);
  EXPECT_EQ(cluster_bill(terms, 9, kPlan, 1).nodes, 2);
  EXPECT_DOUBLE_EQ(cluster_bill(terms, 4, kPlan, 1).energy.value, 200'000 + 500 * 10);
}

TEST(ClusterBill, WithoutPriceAndIntensityIsEnergyAlone) {
  const ClusterBill bill = cluster_bill({}, 8, kPlan, 100);
  EXPECT_DOUBLE_EQ(bill.energy.value, 2e7);
  EXPECT_FALSE(bill.co2 || bill.money);
  const ClusterSaving saved = saving(bill, bill);
  EXPECT_DOUBLE_EQ(saved.energy.value, 0);
  EXPECT_FALSE(saved.co2 || saved.money);
}

}  // namespace
}  // namespace harpe::carbon
