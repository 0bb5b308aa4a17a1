#pragma once
/// \file
/// What a frontier holds. Only for `.cc` files.

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "harpe/flow/sweep.h"
#include "harpe/frontier/find_plan.h"
#include "harpe/frontier/frontier.h"
#include "harpe/frontier/late_bound.h"
#include "harpe/frontier/problem.h"
#include "harpe/frontier/search_order.h"
#include "harpe/frontier/switching.h"

namespace harpe {

struct Frontier::Data {
  explicit Data(Problem p) : problem(std::move(p)), layout(problem) {}
  Data(const Data&) = delete;

  /// Sum of effective energies, per GPU, of the relaxed optimum at an iteration time.
  Joules effective(Seconds time) const;
  /// `time` less what rounding to nanoseconds can add up to, as a horizon of the network.
  std::int64_t horizon(Seconds time) const;
  /// The relaxed optimum there.
  flow::State relaxed(Seconds time) const;
  /// Half the second derivative of the relaxed cost there over its first, per picosecond.
  double curvature(Seconds time) const;
  /// The plan of these operating points, one a pipeline node.
  Plan plan_of(const std::vector<OperatingPoint>& points,
               const std::vector<LateChange>& late = {}) const;
  Plan plan_of(const Assignment& assignment) const;
  /// The certificate that leaves out options which do not fit, and the sum of effective energies
  /// that it proves; nothing where it takes long or gains nothing.
  std::optional<std::pair<Certificate, Joules>> fitting_proof(Seconds deadline) const;
  /// The same of plans whose clocks come late; nothing where none ends by the deadline.
  std::optional<std::pair<Certificate, Joules>> late_proof(Seconds deadline,
                                                           const LatencyByClock& latency) const;
  /// That of the two which proves more.
  std::optional<std::pair<Certificate, Joules>> tight_proof(Seconds deadline,
                                                            const PlanOptions& options) const;
  /// A bound for late clocks with the best flow that is found in a fraction of the time of a plan.
  LateBound climbed_bound(const LateCosts& costs, Seconds deadline) const;
  Assignment search_freely(Seconds deadline, const PlanOptions& options) const;
  Result<Plan> search(Seconds deadline, const PlanOptions& options) const;
  Result<Plan> search_switching(std::optional<Seconds> deadline, const PlanOptions& options) const;
  /// Whether relaxed optima besides those at hand take too long to step to.
  bool is_large() const;
  std::int64_t picoseconds(Seconds deadline) const;
  void set_iteration_time(Plan& plan, Seconds time) const;
  Seconds seconds(std::int64_t horizon) const {
    return Seconds{static_cast<double>(horizon) * 1e-9};
  }

  Problem problem;
  SearchOrder layout;
  flow::CostCurve curve;
  std::vector<Milestone> milestones;  ///< on the way from the fastest to the slowest plan
  std::vector<Joules> cost_at;        ///< of each breakpoint: effective energy above the least
  Joules least_effective;
  Seconds min_time;
  Seconds least_energy_time;
  std::int64_t longest_chain = 0;  ///< most instructions in a row
};

}  // namespace harpe
