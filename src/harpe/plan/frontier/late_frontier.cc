#include "harpe/plan/frontier/late_frontier.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

#include "harpe/plan/frontier/find_plan.h"
#include "harpe/plan/frontier/steady_plans.h"

namespace harpe::plan {
namespace {

// The highest of ten straight lines is within 0.05 % of the bound at deadlines between two of them.
constexpr int kBounds = 10, kBoundsOfLarge = 3;
// Deadlines from the fastest plan to the time of least energy, and from there to the slowest plan.
constexpr int kDeadlines = 50, kSlowDeadlines = 8, kDeadlinesOfQuick = 16;

/// Returns rising deadlines at equal distances.
std::vector<std::int64_t> spread(std::int64_t first, std::int64_t last, int count) {
  std::vector<std::int64_t> deadlines;
  for (int i = 0; i < count; ++i)
    deadlines.push_back(first + (last - first) / std::max(1, count - 1) * i);
  return deadlines;
}

}  // namespace

Joules LateFrontier::energy(const TimedChoices& plan) const {
  return static_cast<double>(plan.cost) * data_.problem.cost_unit +
         data_.problem.total_blocking_power() * seconds_of(plan.end);
}

double LateFrontier::tolerance() const {
  return 0.3 * point_costs_.average_step();
}

LateFrontier::Search LateFrontier::full() const {
  return {.moves = passes(data_.layout, 30'000'000, 100, 60'000)};
}

LateFrontier::Search LateFrontier::glance() const {
  return {.moves = passes(data_.layout, 1'000'000, 20, 3'000)};
}

// --- The set of plans ---------------------------------------------------------------------------

/// Adds a plan, unless the set has a better one, and removes the plans that it beats.
void LateFrontier::add(TimedChoices plan) {
  const auto at = std::ranges::lower_bound(plans_, plan.end, {}, &TimedChoices::end);
  if (at != plans_.begin() && (at - 1)->cost <= plan.cost) return;
  if (at != plans_.end() && at->end == plan.end && at->cost <= plan.cost) return;
  auto last = at;
  while (last != plans_.end() && last->cost >= plan.cost) ++last;
  plans_.insert(plans_.erase(at, last), std::move(plan));
}

/// Returns the places of the plans on the lower hull of the set, fastest first.
std::vector<std::size_t> LateFrontier::hull() const {
  std::vector<std::size_t> hull;
  const auto is_above = [&](std::size_t first, std::size_t middle, std::size_t last) {
    const auto saved = [&](std::size_t i) {
      return static_cast<double>(plans_[first].cost - plans_[i].cost);
    };
    const auto later = [&](std::size_t i) {
      return static_cast<double>(plans_[i].end - plans_[first].end);
    };
    return saved(middle) * later(last) <= saved(last) * later(middle);
  };
  for (std::size_t i = 0; i < plans_.size(); ++i) {
    while (hull.size() >= 2 && is_above(hull[hull.size() - 2], hull.back(), i)) hull.pop_back();
    hull.push_back(i);
  }
  return hull;
}

/// Returns the cheapest plan of the set that ends by the deadline, or a cheaper splice of two plans
/// of the hull.
TimedChoices LateFrontier::joined(StageSearch& stages, std::int64_t deadline) const {
  const auto after = std::ranges::upper_bound(plans_, deadline, {}, &TimedChoices::end);
  TimedChoices best = *(after - 1);
  if (after == plans_.end()) return best;
  const std::vector<std::size_t> corners = hull();
  const auto slow =
      std::ranges::find_if(corners, [&](std::size_t i) { return plans_[i].end > deadline; }) -
      corners.begin();
  const auto consider = [&](std::ptrdiff_t fast_corner, std::ptrdiff_t slow_corner) {
    if (fast_corner < 0 || slow_corner >= std::ssize(corners)) return;
    TimedChoices trial =
        stages.splice(plans_[corners[static_cast<std::size_t>(fast_corner)]],
                      plans_[corners[static_cast<std::size_t>(slow_corner)]], deadline);
    if (trial.cost < best.cost) best = std::move(trial);
  };
  consider(slow - 1, slow);
  consider(slow - 1, slow + 1);
  consider(slow - 2, slow);
  return best;
}

TimedChoices LateFrontier::cheapest_by(std::int64_t deadline, const Search& search) const {
  // A longer round tolerates losses for longer, so it can leave optima that a shorter one cannot.
  constexpr std::int64_t kFirstRound = 1'000, kLongestRound = 64'000, kTold = 50;
  StageSearch stages(data_.layout, costs_, point_costs_);
  TimedChoices plan = joined(stages, deadline);
  const std::span<const double> price = price_at(deadline);
  stages.improve(plan, deadline, price, search.moves, tolerance());
  std::int64_t tried = 0;
  const auto go_on = [&](const TimedChoices& best) {
    return tried < search.moves_on && (!search.go_on || search.go_on(tried, best.cost));
  };
  for (std::int64_t round = kFirstRound; go_on(plan); round = std::min(2 * round, kLongestRound)) {
    stages.improve(plan, deadline, price, static_cast<int>(round), tolerance(),
                   [&](const TimedChoices& best) {
                     ++tried;
                     return (tried % kTold != 0 && tried < search.moves_on) || go_on(best);
                   });
  }
  return plan;
}

TimedChoices LateFrontier::least_energy_by(std::int64_t deadline, const Search& search) const {
  TimedChoices best = cheapest_by(std::min(deadline, least_energy_end_), search);
  for (const TimedChoices& plan : plans_)
    if (plan.end <= deadline && energy(plan) < energy(best)) best = plan;
  return best;
}

// --- Bounds -------------------------------------------------------------------------------------

std::span<const double> LateFrontier::price_at(std::int64_t deadline) const {
  return std::ranges::min_element(
             bounds_, {}, [&](const Bound& bound) { return std::abs(bound.deadline - deadline); })
      ->price;
}

void LateFrontier::add_bound(const LateBound& bound, std::int64_t deadline) {
  bounds_.push_back({.deadline = deadline,
                     .price = {bound.prices().begin(), bound.prices().end()},
                     .value = bound.value(),
                     .by_deadline = bound.proves(),
                     .of_any = bound.proves_of_any()});
}

Joules LateFrontier::bound(std::int64_t deadline) const {
  Joules most{-LateCosts::kNever};
  for (const Bound& bound : bounds_) {
    // Choices that are too long for a deadline are also too long for earlier ones, but not for
    // later ones.
    const Joules proven = deadline <= bound.deadline ? bound.by_deadline : bound.of_any;
    most = std::max(most, proven + bound.value * seconds_of(bound.deadline - deadline));
  }
  return most;
}

// --- Construction -------------------------------------------------------------------------------

/// Adds plans that do not depend on the bound.
void LateFrontier::add_simple(StageSearch& stages) {
  for (PointChoices& choices : point_costs_.simple()) add(stages.timed(std::move(choices)));
  if (plans_.front().end > data_.picoseconds(data_.min_time)) {
    PointChoices fast = plans_.front().choices;
    switching_.shorten(fast, passes(data_.layout, 1'000'000, 200, 20'000));
    add(stages.timed(std::move(fast)));
  }
  for (PointChoices& choices : steady_plans(costs_)) add(stages.timed(std::move(choices)));
}

/// Adds plans with each stage cheapest at the prices of the bound, with and without the deadline.
void LateFrontier::add_at_prices(StageSearch& stages, const LateBound& bound,
                                 std::int64_t deadline) {
  constexpr double kAnyTime[] = {0.7, 1, 1.05, 1.15};
  // A higher price of time makes the plan end earlier: from some share on, it ends by the deadline.
  constexpr double kByDeadline[] = {1, 1.03, 1.06, 1.1, 1.15, 1.2, 1.3, 1.5, 2, 4, 10};
  constexpr double kWorthMoves = 1.05;
  // The fastest plan has no faster neighbour to join, so it gets more moves.
  const int moves = bounds_.size() == 1 ? full().moves / 4 : glance().moves;
  const std::vector<double> no_limit(data_.problem.table.size(), LateCosts::kNever);
  for (const double share : kAnyTime) {
    PointChoices choices = stages.at_prices(bound.prices(), share, no_limit);
    if (!choices.empty()) add(stages.timed(std::move(choices)));
  }
  for (const double share : kByDeadline) {
    PointChoices choices = stages.at_prices(bound.prices(), share, bound.longest());
    if (choices.empty()) break;  // no plan ends by the deadline, at any price
    switching_.repair(choices, deadline);
    TimedChoices plan = stages.timed(std::move(choices));
    if (plan.end > deadline) continue;
    stages.improve(plan, deadline, bound.prices(), moves, 0);
    add(std::move(plan));
    if (share > kWorthMoves) break;
  }
  PointChoices settled = joined(stages, deadline).choices;
  switching_.settle(settled, deadline);
  switching_.improve(settled, deadline, std::numeric_limits<double>::infinity(),
                     passes(data_.layout, 1'000'000, 20, 10'000));
  add(stages.timed(std::move(settled)));
}

/// Adds plans of free switching for this deadline and for an earlier one. Late settings make the
/// latter longer, but it may still end by the deadline.
void LateFrontier::add_free(StageSearch& stages, std::int64_t deadline) {
  const std::int64_t soonest = data_.picoseconds(data_.min_time);
  for (const double share : {1.0, 0.6}) {
    const auto later = static_cast<double>(std::max<std::int64_t>(0, deadline - soonest));
    const std::int64_t end = soonest + static_cast<std::int64_t>(share * later);
    const auto free = data_.search_freely(seconds_of(end), {.effort = Effort::kQuick});
    PointChoices choices = point_costs_.from(free.back());
    add(stages.timed(choices));
    switching_.repair(choices, deadline);
    TimedChoices plan = stages.timed(std::move(choices));
    if (plan.end > deadline) continue;
    stages.improve(plan, deadline, price_at(deadline), glance().moves, 0);
    add(std::move(plan));
  }
}

/// Reduces the cost of the plans on the lower hull. The deadline of each is its own time.
void LateFrontier::improve_corners(StageSearch& stages, int moves) {
  std::vector<TimedChoices> corners;
  for (const std::size_t i : hull()) corners.push_back(plans_[i]);
  for (TimedChoices& plan : corners) {
    stages.improve(plan, plan.end, price_at(plan.end), moves, tolerance());
    add(std::move(plan));
  }
}

LateFrontier::LateFrontier(const Frontier::Data& data, const LatencyByClock& latency, Effort effort)
    : data_(data),
      point_costs_(data.layout, latency),
      switching_(point_costs_),
      costs_(data.problem, latency) {
  const bool is_quick = effort == Effort::kQuick;
  StageSearch stages(data_.layout, costs_, point_costs_);
  add_simple(stages);
  const std::int64_t fastest = plans_.front().end;
  const std::int64_t least = std::max(fastest, data_.picoseconds(data_.least_energy_time));
  // After 60 steps the bound is lower than after 200 by 0.02 % of the energy, in small pipelines by
  // 1 %.
  const int climb = passes(data_.layout, 200'000, 60, Frontier::Data::kMostClimbingSteps);
  const int bounds = data_.is_large() || is_quick ? kBoundsOfLarge : kBounds;
  for (int i = 0; i < bounds; ++i) {
    // The deadlines are closer near the fastest iteration, where the bound curves most.
    const double share = std::pow(i / (bounds - 1.0), 2);
    // Rounded as a caller's seconds are, so that the first bound holds for the fastest plan.
    const std::int64_t deadline =
        data_.picoseconds(seconds_of(fastest)) +
        static_cast<std::int64_t>(share * static_cast<double>(least - fastest));
    const LateBound bound = data_.climbed_bound(costs_, seconds_of(deadline), climb);
    add_bound(bound, deadline);
    add_at_prices(stages, bound, deadline);
    add_free(stages, deadline);
  }
  const std::vector<double> no_price(data_.problem.table.size(), 0);
  const std::vector<double> no_limit(data_.problem.table.size(), LateCosts::kNever);
  add(stages.timed(stages.at_prices(no_price, 1, no_limit)));

  const int moves = passes(data_.layout, is_quick ? 300'000 : 2'000'000, 20, 1'200);
  improve_corners(stages, moves);
  std::vector<std::int64_t> deadlines =
      spread(fastest, least, is_quick || data_.is_large() ? kDeadlinesOfQuick : kDeadlines);
  const std::int64_t slowest = std::max(least, plans_.back().end);
  std::ranges::copy(spread(least, slowest, kSlowDeadlines), std::back_inserter(deadlines));
  const auto visit = [&](std::int64_t deadline) {
    TimedChoices plan = joined(stages, deadline);
    stages.improve(plan, deadline, price_at(deadline), moves, tolerance());
    add(std::move(plan));
  };
  for (std::size_t i = deadlines.size(); i-- > 0;) visit(deadlines[i]);
  for (const std::int64_t deadline : deadlines) visit(deadline);
  least_energy_end_ =
      std::ranges::min_element(plans_, {}, [&](const TimedChoices& p) { return energy(p); })->end;
}

}  // namespace harpe::plan
