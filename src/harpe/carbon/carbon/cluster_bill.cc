#include "harpe/carbon/carbon/cluster_bill.h"

namespace harpe::carbon {
namespace {

/// Returns `from - of`, or nullopt if either is unknown.
template <class T>
std::optional<T> difference(const std::optional<T>& from, const std::optional<T>& of) {
  if (!from || !of) return std::nullopt;
  return *from - *of;
}

}  // namespace

double iterations_in(const ClusterTerms& terms, Seconds iteration_time) {
  return terms.time / iteration_time;
}

ClusterBill cluster_bill(const ClusterTerms& terms, std::int64_t gpus_per_pipeline,
                         const IterationCost& iteration, double iterations) {
  ClusterBill bill{.gpus = terms.pipelines * gpus_per_pipeline, .iterations = iterations};
  bill.nodes = (bill.gpus + terms.gpus_per_node - 1) / terms.gpus_per_node;
  bill.time = iterations * iteration.time;
  const Joules gpus = iterations * terms.pipelines * iteration.energy;
  const Joules hosts = static_cast<double>(bill.nodes) * terms.host_power * bill.time;
  bill.energy = terms.pue * (gpus + hosts);
  bill.power = bill.energy / bill.time;
  if (terms.intensity) bill.co2 = emissions(bill.energy, *terms.intensity);
  if (terms.price) bill.money = bill.energy / kKilowattHour * terms.price->per_kwh;
  return bill;
}

ClusterSaving saving(const ClusterBill& bill, const ClusterBill& instead) {
  return {.energy = instead.energy - bill.energy,
          .co2 = difference(instead.co2, bill.co2),
          .money = difference(instead.money, bill.money)};
}

}  // namespace harpe::carbon
