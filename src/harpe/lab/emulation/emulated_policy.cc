#include "harpe/lab/emulation/emulated_policy.h"

#include <algorithm>
#include <utility>

namespace harpe {

EmulatedPolicy::EmulatedPolicy(Plans plans, const Objective& objective, int reaction,
                               EmulatedCluster& cluster)
    : plans_(std::move(plans)),
      objective_(objective),
      cluster_(cluster),
      reaction_(static_cast<std::size_t>(reaction)) {
  const auto pipelines = static_cast<std::size_t>(cluster.shape().pipelines);
  past_.assign(reaction_, std::vector<double>(pipelines, 1.0));
  known_.assign(pipelines, 1.0);
}

/// Returns true if what is known of the pipelines has changed.
bool EmulatedPolicy::learn(std::span<const double> slowdowns) {
  learnt_.assign(slowdowns.begin(), slowdowns.end());
  if (reaction_ > 0) {
    std::ranges::copy(past_.front(), learnt_.begin());
    for (const std::vector<double>& past : past_)
      std::ranges::transform(learnt_, past, learnt_.begin(),
                             [](double a, double b) { return std::min(a, b); });
    std::ranges::copy(slowdowns, past_[next_past_].begin());
    next_past_ = (next_past_ + 1) % reaction_;
  }
  if (learnt_ == known_) return false;
  known_.swap(learnt_);
  slow_.clear();
  for (std::size_t p = 0; p < known_.size(); ++p) {
    if (known_[p] == 1) continue;
    slow_.push_back({.pipeline = static_cast<int>(p),
                     .factors = {known_[p]},
                     .fastest = cluster_.makespan(plans_.all_max, known_[p]),
                     .settled = true});
  }
  return true;
}

void EmulatedPolicy::assign(const Objective& objective) {
  const ClusterShape& shape = cluster_.shape();
  const PlanChoice choice =
      choose_plans(plans_.table, objective, shape.overhead, shape.pipelines, slow_);
  plan_of_.clear();
  for (const PlanRef& plan : choice.plan_of) {
    plan_of_.push_back(plan.from == PlanRef::From::kAllMax ? plans_.all_max
                                                           : plans_.numbers[plan.plan]);
  }
}

Watts EmulatedPolicy::expected_power() {
  const ClusterIteration expected = cluster_.nominal({plan_of_, known_});
  return expected.energy / expected.time;
}

bool EmulatedPolicy::choose(std::span<const double> slowdowns, std::optional<Watts> cap) {
  const bool has_learnt = learn(slowdowns);
  if (!plan_of_.empty() && !has_learnt && cap == cap_) return false;
  cap_ = cap;
  const std::vector<std::size_t> before = plan_of_;
  is_above_cap_ = false;
  assign(objective_);
  if (cap && expected_power() > *cap) {
    assign({Objective::Kind::kPowerCap, cap->value});
    is_above_cap_ = expected_power() > *cap;
  }
  return plan_of_ != before;
}

}  // namespace harpe
