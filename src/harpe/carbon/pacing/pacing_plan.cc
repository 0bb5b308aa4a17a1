#include "harpe/carbon/pacing/pacing_plan.h"

#include <algorithm>
#include <array>
#include <limits>

#include "harpe/carbon/pacing/priced_paths.h"
#include "harpe/carbon/pacing/structure_search.h"

namespace harpe {
namespace {

// Of a bisection of the price of work: doubles have 52 bits.
constexpr int kPriceHalvings = 52, kPriceDoublings = 60;
// Where only the first interval is decided.
constexpr int kQuickHalvings = 26;
// Linear programmes times intervals.
constexpr std::size_t kThoroughSearch = 200'000;
// Around the price that does the work: more pauses, or fewer.
constexpr std::array<double, 4> kOtherPrices{0.6, 0.8, 1.25, 1.7};

/// All intervals at the fastest pace, from the start that it takes on.
std::vector<PacedInterval> at_fastest_pace(const PaceCurve& curve, const PacingJob& job,
                                           const PacingState& state,
                                           std::span<const PacingInterval> intervals) {
  std::vector<PacedInterval> paced;
  for (const PacingInterval& interval : intervals) {
    paced.push_back({.runs = true, .pace = curve.paces().size() - 1, .run = interval.duration});
  }
  if (state.is_paused && state.has_begun) {
    paced[0].lost = std::min(job.pause.start, intervals[0].duration);
    paced[0].run -= paced[0].lost;
  }
  return paced;
}

/// The dearest price whose path does too little work, and the cheapest whose path does enough.
struct PriceBracket {
  double low = 0, high = 0;
  PricedPath under{}, over{};
};

PriceBracket price_of_work(PricedPaths& paths, double work, int halvings = kPriceHalvings) {
  PriceBracket found{.under = paths.at(0)};
  found.over = found.under;
  if (found.under.work >= work) return found;
  found.high = 1;
  found.over = paths.at(found.high);
  for (int i = 0; i < kPriceDoublings && found.over.work < work; ++i) {
    found.low = found.high;
    found.under = std::move(found.over);
    found.over = paths.at(found.high *= 2);
  }
  for (int i = 0; i < halvings; ++i) {
    const double middle = (found.low + found.high) / 2;
    if (middle <= found.low || middle >= found.high) break;
    PricedPath path = paths.at(middle);
    const bool is_enough = path.work >= work;
    (is_enough ? found.high : found.low) = middle;
    (is_enough ? found.over : found.under) = std::move(path);
  }
  return found;
}

/// A plan as far as prices tell: whether it runs first, and which intervals then.
struct PricedStart {
  double cost = std::numeric_limits<double>::infinity();  ///< at least
  std::vector<bool> runs{};
};

/// Whether to run or to pause first is not read off one price, at which hours that are alike change
/// their minds together, but off what the rest costs at least after each.
/// \param price  of all the work
PricedStart priced_start(const PaceCurve& curve, PacingJob job, const PacingState& state,
                         std::span<const PacingInterval> intervals, bool runs, double price) {
  const PacingInterval& interval = intervals.front();
  PacedInterval first{.runs = runs, .pace = curve.best(interval.weight, price)};
  const bool changes = state.is_paused == runs;
  const bool is_free = runs && !state.has_begun;
  if (changes && !is_free) first.lost = runs ? job.pause.start : job.pause.stop;
  first.lost = std::min(first.lost, interval.duration);
  if (runs) first.run = interval.duration - first.lost;
  const IntervalUse use = use_of(curve, job, first, interval.duration);
  PricedStart start{.cost = interval.weight * use.energy.value + job.held_cost * use.time.value,
                    .runs = {runs}};
  if (use.work >= job.work) {
    start.cost *= job.work / use.work;
    return start;
  }
  job.work -= use.work;
  if (intervals.size() == 1) return {};
  const PacingState then = after(state, first, interval.duration);
  PricedPaths paths(curve, job, then, intervals.subspan(1));
  const PriceBracket rest = price_of_work(paths, job.work, kQuickHalvings);
  if (rest.over.work < job.work) return {};
  start.cost += paths.cost(rest.high);
  const std::vector<bool> later = runs_of(rest.over.intervals);
  start.runs.insert(start.runs.end(), later.begin(), later.end());
  return start;
}

}  // namespace

IntervalUse use_of(const PaceCurve& curve, const PacingJob& job, const PacedInterval& paced,
                   Seconds duration) {
  const Seconds rest = paced.ends ? Seconds{0} : duration - paced.lost - paced.run;
  const Joules beside = curve.slowest().power * paced.lost + job.pause.idle_power * rest;
  const Seconds time = paced.lost + paced.run + rest;
  if (!paced.runs) return {.energy = beside, .time = time};
  const CurvePace& slow = curve.paces()[paced.pace];
  Watts power = slow.power;
  double speed = slow.speed;
  if (paced.faster_share > 0) {
    const CurvePace& fast = curve.paces()[paced.pace + 1];
    power += (fast.power - slow.power) * paced.faster_share;
    speed += (fast.speed - slow.speed) * paced.faster_share;
  }
  return {.energy = beside + power * paced.run, .work = speed * paced.run.value, .time = time};
}

PacingEffort replanning_effort(std::size_t intervals) {
  constexpr std::size_t kSearched = 60;
  return intervals <= kSearched ? PacingEffort::kSearched : PacingEffort::kQuick;
}

PacingState after(const PacingState& state, const PacedInterval& paced, Seconds duration) {
  const bool is_paused = !paced.runs;
  const bool stays = state.is_paused == is_paused;
  PacingState next{
      .is_paused = is_paused, .since = duration, .has_begun = state.has_begun || paced.runs};
  if (stays) next.since = state.since ? std::optional(*state.since + duration) : std::nullopt;
  return next;
}

PacingPlan plan_pacing(const PaceCurve& curve, const PacingJob& job, const PacingState& state,
                       std::span<const PacingInterval> intervals, PacingEffort effort) {
  if (job.work <= 0) return {.finishes = true};
  if (intervals.empty()) return {};
  PacingPlan best;
  best.intervals = at_fastest_pace(curve, job, state, intervals);
  double most = 0;
  for (std::size_t i = 0; i < intervals.size(); ++i) {
    const IntervalUse use = use_of(curve, job, best.intervals[i], intervals[i].duration);
    best.cost += intervals[i].weight * use.energy.value + job.held_cost * use.time.value;
    most += use.work;
  }
  if (most < job.work * (1 - kWorkRounding)) return best;
  best.cost = std::numeric_limits<double>::infinity();
  const std::vector<bool> always = runs_of(best.intervals);
  PricedPaths paths(curve, job, state, intervals);
  const bool is_quick = effort == PacingEffort::kQuick;
  const PriceBracket price =
      price_of_work(paths, job.work, is_quick ? kQuickHalvings : kPriceHalvings);
  const std::size_t programmes =
      effort == PacingEffort::kThorough ? kThoroughSearch : kThoroughSearch / 10;
  StructureSearch search(curve, job, state, intervals,
                         {.dwell = paths.dwell(), .spent = paths.spent(), .search = programmes},
                         best);
  if (is_quick && job.pause.allowed && paths.spent() >= paths.dwell()) {
    const PricedStart run = priced_start(curve, job, state, intervals, true, price.high);
    const PricedStart pause = priced_start(curve, job, state, intervals, false, price.high);
    if (search.consider(run.cost <= pause.cost ? run.runs : pause.runs)) {
      best.lower_bound = std::min(best.cost, paths.lower_bound(price.high));
      return best;
    }
  }
  if (is_quick && search.consider(runs_of(price.over.intervals))) {
    best.lower_bound = std::min(best.cost, paths.lower_bound(price.low));
    return best;
  }
  search.from(runs_of(price.over.intervals));
  search.from(runs_of(price.under.intervals));
  search.from(always);
  if (job.pause.allowed) {
    for (const double share : kOtherPrices) {
      search.from(runs_of(paths.at(price.high * share).intervals));
    }
    search.improve();
  }
  best.lower_bound =
      std::min(best.cost, std::max(paths.lower_bound(price.low), paths.lower_bound(price.high)));
  return best;
}

}  // namespace harpe
