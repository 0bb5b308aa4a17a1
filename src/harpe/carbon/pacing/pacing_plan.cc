#include "harpe/carbon/pacing/pacing_plan.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <limits>
#include <utility>

namespace harpe::carbon {
namespace {

// Cap of the minimum dwell in intervals: a longer dwell has no benefit and costs states.
constexpr double kMostDwellIntervals = 64;

/// Relative tolerance: the order of summation changes a sum of work by rounding.
constexpr double kWorkRounding = 1e-9;

/// The intervals up to the end of the job, with the time that stopping and starting take.
struct PricedPath {
  std::vector<PacedInterval> intervals{};
  double work = 0;  ///< work done at the paces of the price
};

/// Shortest paths over intervals x (running or paused, for how long) for one price of work after
/// another. The price is the value of a second of work at the fastest pace. A path gives the
/// intervals in which the job runs. The constructor's arguments must outlive the object.
/// O(intervals x dwell) per price.
class PricedPaths {
 public:
  PricedPaths(const PaceCurve& curve, const PacingJob& job, const PacingState& state,
              std::span<const PacingInterval> intervals)
      : curve_(curve), job_(job), state_(state), intervals_(intervals) {
    // The first interval and the last, which ends at the deadline, may be shorter than the others.
    const auto longest = std::ranges::max_element(
        intervals, {}, [](const PacingInterval& one) { return one.duration.value; });
    const double step = longest->duration.value;
    const double dwell = job.pause.allowed ? job.pause.min_dwell.value : 0;
    dwell_ = static_cast<std::size_t>(
        std::clamp(std::ceil(dwell / step - kWorkRounding), 1.0, kMostDwellIntervals));
    modes_ = dwell_ + 1;
    first_ = dwell_;
    if (state.since) {
      const double spent = std::floor(state.since->value / step + kWorkRounding);
      first_ = state.since->value + kWorkRounding >= dwell
                   ? dwell_
                   : static_cast<std::size_t>(std::min(spent, static_cast<double>(dwell_ - 1)));
    }
  }

  PricedPath at(double price) {
    solve(price);
    return trace();
  }

  /// Returns a lower bound on the cost of every plan that does all the work in whole intervals.
  double cost(double price) { return solve(price) + price * job_.work; }

  /// Returns a lower bound on the cost of every plan. An interval that is used in part is next to a
  /// pause. It counts as a running interval, at the lower of the cost of running throughout and the
  /// cost of not running.
  double lower_bound(double price) {
    relaxed_ = true;
    const double least = solve(price);
    relaxed_ = false;
    return least + price * job_.work;
  }

  /// Returns the least number of intervals of a run or a pause.
  std::size_t dwell() const { return dwell_; }
  /// Returns the number of intervals that the first state has lasted, at most `dwell`.
  std::size_t spent() const { return first_; }

 private:
  enum class Action : unsigned char { kRun, kPause, kEnd };

  std::size_t state_of(bool paused, std::size_t spent) const {
    return (paused ? modes_ : 0) + spent;
  }

  Seconds lost(std::size_t interval, bool was_paused, bool runs) const {
    if (was_paused == !runs) return {0};
    const bool is_first = interval == 0 && !state_.has_begun;
    const Seconds start = is_first ? Seconds{0} : job_.pause.start;
    const Seconds wanted = runs ? start : job_.pause.stop;
    return std::min(wanted, intervals_[interval].duration);
  }

  /// Computes the best action of every state, from the last interval to the first. Returns the
  /// least cost, minus the price of the work done.
  double solve(double price) {
    price_ = price;
    const std::size_t states = 2 * modes_;
    actions_.assign(intervals_.size() * states, Action::kEnd);
    std::vector<double> later(states, 0), now(states, 0);
    // Cost from the next interval on if a running job pauses there, with its dwell already over.
    double pause_next = std::numeric_limits<double>::infinity();
    for (std::size_t i = intervals_.size(); i-- > 0;) {
      const std::array<double, 2> run{cost_of_run(i, false), cost_of_run(i, true)};
      const std::array<double, 2> pause{cost_of_pause(i, false), cost_of_pause(i, true)};
      for (std::size_t s = 0; s < states; ++s) {
        const bool paused = s >= modes_;
        const std::size_t spent = s % modes_;
        const bool may_change = spent >= dwell_;
        const std::size_t stays = std::min(dwell_, spent + 1);
        double best = 0;  // the job ends
        Action action = Action::kEnd;
        if (!paused || may_change) {
          const double cost = run[paused ? 1 : 0] + later[state_of(false, paused ? 1 : stays)];
          if (cost <= best) {
            best = cost;
            action = Action::kRun;
          }
        }
        if (job_.pause.allowed && (paused || may_change)) {
          const double cost = pause[paused ? 1 : 0] + later[state_of(true, paused ? stays : 1)];
          if (cost < best) {
            best = cost;
            action = Action::kPause;
          }
        }
        if (relaxed_ && !paused && stays >= dwell_) {
          best = std::min(best, cost_of_idling(i) + pause_next);
        }
        now[s] = best;
        actions_[i * states + s] = action;
      }
      if (job_.pause.allowed) pause_next = pause[0] + later[state_of(true, 1)];
      std::swap(later, now);
    }
    return later[state_of(state_.is_paused, first_)];
  }

  double cost_of_run(std::size_t i, bool was_paused) const {
    const PacingInterval& interval = intervals_[i];
    const Seconds gone = lost(i, was_paused, true);
    const Seconds left = interval.duration - gone;
    const CurvePace& pace = curve_.paces()[curve_.best(interval.weight, price_)];
    double cost = interval.weight * (pace.power * left).value - price_ * pace.speed * left.value;
    if (relaxed_ && was_paused) {
      cost = std::min(cost, interval.weight * (job_.pause.idle_power * left).value);
    }
    return cost + interval.weight * (curve_.slowest().power * gone).value +
           job_.held_cost * interval.duration.value;
  }

  double cost_of_pause(std::size_t i, bool was_paused) const {
    const PacingInterval& interval = intervals_[i];
    const Seconds gone = lost(i, was_paused, false);
    const Joules stop = (curve_.slowest().power - job_.pause.idle_power) * gone;
    return interval.weight * stop.value + cost_of_idling(i);
  }

  double cost_of_idling(std::size_t i) const {
    const Seconds duration = intervals_[i].duration;
    return intervals_[i].weight * (job_.pause.idle_power * duration).value +
           job_.held_cost * duration.value;
  }

  PricedPath trace() const {
    PricedPath found;
    const std::size_t states = 2 * modes_;
    bool paused = state_.is_paused;
    std::size_t spent = first_;
    for (std::size_t i = 0; i < intervals_.size(); ++i) {
      const Action action = actions_[i * states + state_of(paused, spent)];
      if (action == Action::kEnd) break;
      const bool runs = action == Action::kRun;
      PacedInterval paced{.runs = runs, .lost = lost(i, paused, runs)};
      if (runs) {
        paced.pace = curve_.best(intervals_[i].weight, price_);
        found.work +=
            curve_.paces()[paced.pace].speed * (intervals_[i].duration - paced.lost).value;
      }
      found.intervals.push_back(paced);
      spent = runs == !paused ? std::min(dwell_, spent + 1) : 1;
      paused = !runs;
    }
    return found;
  }

  const PaceCurve& curve_;
  const PacingJob& job_;
  const PacingState& state_;
  std::span<const PacingInterval> intervals_;
  std::size_t dwell_ = 1, first_ = 0;  ///< in intervals
  std::size_t modes_ = 2;              ///< states of a running job: 0 to `dwell_` intervals run
  double price_ = 0;
  bool relaxed_ = false;
  std::vector<Action> actions_;  ///< for each interval and state
};

struct SearchTerms {
  std::size_t dwell = 1;   ///< least length of a run or a pause, in intervals
  std::size_t spent = 0;   ///< intervals that the initial state has lasted
  std::size_t search = 0;  ///< maximum of linear programmes times intervals
};

constexpr std::size_t kNoInterval = std::numeric_limits<std::size_t>::max();

// Steps of a bisection of the price of work: a double has 52 bits of mantissa.
constexpr int kHalvings = 52, kDoublings = 60;

/// The linear programme of the paces of a job whose pauses are fixed, solved exactly. One interval
/// may be flexible: the job runs for a part of it and idles, or has ended, for the rest, so that
/// the curve of this interval begins at speed 0.
class StructurePaces {
 public:
  StructurePaces(const PaceCurve& curve, const PacingJob& job,
                 std::span<const PacingInterval> intervals, std::vector<PacedInterval>& paced,
                 std::size_t flexible)
      : curve_(curve), intervals_(intervals), paced_(paced), flexible_(flexible) {
    if (flexible == kNoInterval) return;
    const PacingInterval& interval = intervals[flexible];
    const bool is_last = flexible + 1 == paced.size();
    const double rest = is_last ? 0 : interval.weight * job.pause.idle_power.value + job.held_cost;
    for (std::size_t i = 0; i < curve.paces().size(); ++i) {
      const CurvePace& pace = curve.paces()[i];
      const double rate = interval.weight * pace.power.value + job.held_cost;
      const double price = (rate - rest) / pace.speed;
      if (price >= first_price_) continue;
      first_price_ = price;
      first_pace_ = i;
    }
  }

  /// Sets the paces that do exactly `work`, or more if the slowest paces do more. Returns false if
  /// the fastest paces do less.
  bool set(double work) {
    double most = 0;
    for (std::size_t i = 0; i < paced_.size(); ++i) most += time_left(i);
    if (most < work * (1 - kWorkRounding)) return false;
    double low = lowest_price(), high = std::max(1.0, std::abs(low));
    double done = at(low);
    if (done >= work) return true;
    for (int i = 0; i < kDoublings && at(high) < work; ++i) high *= 2;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (at(middle) < work ? low : high) = middle;
    }
    // The intervals whose paces differ between these two prices do the remaining work, all at one
    // price. Earlier intervals are filled first, because work that is done early is safe.
    at(high);
    const std::vector<PacedInterval> faster = paced_;
    done = at(low);
    for (std::size_t i = 0; i < paced_.size() && done < work; ++i) fill(i, faster[i], work, done);
    return true;
  }

 private:
  double time_left(std::size_t i) const {
    return paced_[i].runs ? (intervals_[i].duration - paced_[i].lost).value : 0;
  }
  /// Returns a price at which the flexible interval idles.
  double lowest_price() const {
    return flexible_ == kNoInterval ? 0 : std::min(0.0, first_price_ - 1);
  }

  /// Sets the paces at a price. Returns the work that they do.
  double at(double price) {
    double work = 0;
    for (std::size_t i = 0; i < paced_.size(); ++i) {
      PacedInterval& paced = paced_[i];
      if (!paced.runs) continue;
      paced.faster_share = 0;
      paced.pace = curve_.best(intervals_[i].weight, std::max(price, 0.0));
      paced.run = {time_left(i)};
      if (i == flexible_) {
        if (price < first_price_) paced.run = {0};
        paced.pace = std::max(paced.pace, first_pace_);
      }
      work += curve_.paces()[paced.pace].speed * paced.run.value;
    }
    return work;
  }

  /// Moves an interval towards a faster pace until all the work is done.
  void fill(std::size_t i, const PacedInterval& faster, double work, double& done) {
    PacedInterval& paced = paced_[i];
    if (!paced.runs) return;
    if (paced.run < faster.run) {
      const double speed = curve_.paces()[paced.pace].speed;
      paced.run = {std::min(time_left(i), (work - done) / speed)};
      done += speed * paced.run.value;
    }
    while (paced.pace < faster.pace && done < work) {
      const double gain =
          (curve_.paces()[paced.pace + 1].speed - curve_.paces()[paced.pace].speed) *
          paced.run.value;
      if (gain > work - done) {
        paced.faster_share = (work - done) / gain;
        done = work;
      } else {
        ++paced.pace;
        done += gain;
      }
    }
  }

  const PaceCurve& curve_;
  std::span<const PacingInterval> intervals_;
  std::vector<PacedInterval>& paced_;
  std::size_t flexible_;
  double first_price_ = std::numeric_limits<double>::infinity();
  std::size_t first_pace_ = 0;
};

/// Returns the cheapest plan that does all the work in the intervals that run, or nullopt if they
/// are too few. O(intervals log paces) for each of about 100 prices.
/// \param paced  the intervals that run, and the time lost to stopping and starting in each
/// \param flexible  an interval that the job may run in for a part and then idle or end;
///                  kNoInterval if there is none
std::optional<PacingPlan> plan_of_structure(const PaceCurve& curve, const PacingJob& job,
                                            std::span<const PacingInterval> intervals,
                                            std::vector<PacedInterval> paced,
                                            std::size_t flexible) {
  if (!StructurePaces(curve, job, intervals, paced, flexible).set(job.work)) return std::nullopt;
  PacingPlan plan{.finishes = true};
  double left = job.work;
  for (std::size_t i = 0; i < paced.size() && left > job.work * kWorkRounding; ++i) {
    PacedInterval& one = paced[i];
    one.idles_first = i == flexible && (i == 0 || !paced[i - 1].runs);
    IntervalUse use = use_of(curve, job, one, intervals[i].duration);
    if (use.work >= left * (1 - kWorkRounding)) {
      one.run = one.run * std::min(1.0, left / use.work);
      one.ends = true;
      use = use_of(curve, job, one, intervals[i].duration);
    }
    left -= use.work;
    plan.cost += intervals[i].weight * use.energy.value + job.held_cost * use.time.value;
    plan.intervals.push_back(one);
  }
  return plan;
}

// Minimum and maximum number of linear programmes of a search.
constexpr std::size_t kLeastSearch = 8, kMostSearch = 20'000;

constexpr double kNever = std::numeric_limits<double>::infinity();

void trim(std::vector<bool>& runs) {
  while (!runs.empty() && !runs.back()) runs.pop_back();
}

/// Returns, for each interval of a plan or a path, true if the job runs in it.
std::vector<bool> runs_of(const std::vector<PacedInterval>& paced) {
  std::vector<bool> runs;
  for (const PacedInterval& one : paced) runs.push_back(one.runs);
  trim(runs);
  return runs;
}

/// A search for the best set of intervals to run in, near the set that a price chose. A price
/// cannot distinguish intervals that have equal value at it, such as the hour in which a job ends
/// among equal hours. All arguments must outlive the search. The number of linear programmes falls
/// with the number of intervals, so that the search time hardly depends on it.
class StructureSearch {
 public:
  /// \param best  replaced by each cheaper plan
  StructureSearch(const PaceCurve& curve, const PacingJob& job, const PacingState& state,
                  std::span<const PacingInterval> intervals, const SearchTerms& terms,
                  PacingPlan& best)
      : curve_(curve),
        job_(job),
        state_(state),
        intervals_(intervals),
        dwell_(terms.dwell),
        spent_(terms.spent),
        best_(best),
        left_(std::clamp(terms.search / intervals.size(), kLeastSearch, kMostSearch)) {}

  /// Tries the runs unchanged, and with one interval at an end of a run used in part; runs of the
  /// least length stay whole. Returns true if one of these gives the best plan so far.
  bool consider(std::vector<bool> runs) {
    trim(runs);
    if (runs.empty() || runs.size() > intervals_.size() || left_ == 0) return false;
    const auto paced = structure(runs);
    if (!paced) return false;
    bool is_best = take(*paced, kNoInterval);
    std::size_t begin = 0;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      if (!runs[i]) continue;
      if (i == 0 || !runs[i - 1]) begin = i;
      const bool is_end = i + 1 == runs.size();
      const bool is_last = is_end || !runs[i + 1];
      const bool may_shrink = job_.pause.allowed && is_last && i + 1 - begin > dwell_;
      if (is_end || may_shrink) is_best = take(*paced, i) || is_best;
      if (may_shrink && begin > 0) is_best = take(*paced, begin) || is_best;
    }
    return is_best;
  }

  /// Considers these runs, and the same runs with the cheapest earlier end. As the end moves, the
  /// cost falls and then rises, or nearly so: bisection finds its minimum.
  /// \param runs  for each interval, true if the job runs; the last is true
  void from(const std::vector<bool>& runs) {
    if (runs.empty()) return;
    std::size_t low = 1, high = runs.size();
    while (low < high) {
      const std::size_t middle = (low + high) / 2;
      const double here = cost_until(runs, middle);
      if (here == kNever || here > cost_until(runs, middle + 1)) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    consider({runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(low)});
    consider(runs);
  }

  /// Tries moves from the best plan until none improves it.
  void improve() {
    while (left_ > 0 && try_moves()) {
    }
  }

 private:
  /// Returns the intervals with their times lost, or nullopt if a run or a pause is too short.
  std::optional<std::vector<PacedInterval>> structure(const std::vector<bool>& runs) const {
    std::vector<PacedInterval> paced;
    bool was_running = !state_.is_paused;
    std::size_t spent = spent_;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      PacedInterval one{.runs = runs[i]};
      if (runs[i] != was_running) {
        if (spent < dwell_) return std::nullopt;
        const bool is_free = runs[i] && i == 0 && !state_.has_begun;
        const Seconds wanted = runs[i] ? job_.pause.start : job_.pause.stop;
        one.lost = is_free ? Seconds{0} : std::min(wanted, intervals_[i].duration);
        spent = 0;
      }
      was_running = runs[i];
      ++spent;
      paced.push_back(one);
    }
    return paced;
  }

  double cost_until(const std::vector<bool>& runs, std::size_t end) const {
    std::vector<bool> part(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(end));
    trim(part);
    const auto paced = structure(part);
    if (!paced || part.empty()) return kNever;
    const auto plan = plan_of_structure(curve_, job_, intervals_, *paced, part.size() - 1);
    return plan ? plan->cost : kNever;
  }

  bool take(const std::vector<PacedInterval>& paced, std::size_t flexible) {
    if (left_ > 0) --left_;
    auto plan = plan_of_structure(curve_, job_, intervals_, paced, flexible);
    if (!plan || !(plan->cost < best_.cost)) return false;
    best_ = *std::move(plan);
    runs_ = runs_of(paced);
    return true;
  }

  /// Tries moves of each length: flips consecutive intervals between running and paused, inserts a
  /// pause and shifts the rest later, or removes a pause and shifts the rest earlier. Returns true
  /// at the first move that improves the best plan.
  bool try_moves() {
    const std::vector<bool> from = runs_;
    for (std::size_t length = 1; length <= from.size();
         length = std::max(length + 1, length * 5 / 4)) {
      for (std::size_t i = 0; i <= from.size() && left_ > 0; ++i) {
        const std::size_t end = std::min(i + length, from.size());
        std::vector<bool> later = from, earlier = from, flipped = from;
        later.insert(later.begin() + static_cast<std::ptrdiff_t>(i), length, false);
        if (consider(std::move(later))) return true;
        const auto first = earlier.begin() + static_cast<std::ptrdiff_t>(i);
        const auto last = earlier.begin() + static_cast<std::ptrdiff_t>(end);
        if (std::find(first, last, true) == last) {
          earlier.erase(first, last);
          if (consider(std::move(earlier))) return true;
        }
        flipped.resize(std::max(flipped.size(), i + length), false);
        for (std::size_t k = i; k < i + length; ++k) flipped[k] = !flipped[k];
        if (consider(std::move(flipped))) return true;
      }
    }
    return false;
  }

  const PaceCurve& curve_;
  const PacingJob& job_;
  const PacingState& state_;
  std::span<const PacingInterval> intervals_;
  std::size_t dwell_, spent_;
  PacingPlan& best_;
  std::vector<bool> runs_;  ///< for each interval of the best plan
  std::size_t left_;        ///< linear programmes that may still be solved
};

// Halvings of the price when only the first interval is decided.
constexpr int kQuickHalvings = 26;
// Limit of linear programmes times intervals.
constexpr std::size_t kThoroughSearch = 200'000;
// Factors on the price that does the work, for paths with more pauses or with fewer.
constexpr std::array<double, 4> kOtherPrices{0.6, 0.8, 1.25, 1.7};

/// Returns a plan that runs in all intervals at the fastest pace, after the time of a restart.
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

/// The highest tried price whose path does too little work, and the lowest whose path does enough.
struct PriceBracket {
  double low = 0, high = 0;
  PricedPath under{}, over{};
};

PriceBracket price_of_work(PricedPaths& paths, double work, int halvings = kHalvings) {
  PriceBracket found{.under = paths.at(0)};
  found.over = found.under;
  if (found.under.work >= work) return found;
  found.high = 1;
  found.over = paths.at(found.high);
  for (int i = 0; i < kDoublings && found.over.work < work; ++i) {
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

/// A plan derived from prices: the first action, and the intervals that run after it.
struct PricedStart {
  double cost = std::numeric_limits<double>::infinity();  ///< lower bound
  std::vector<bool> runs{};
};

/// Returns the plan that runs, or pauses, in the first interval. The two are compared by the least
/// cost of the remaining intervals after each: at a single price, all hours with equal weights
/// change between running and paused together.
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
  const PriceBracket price = price_of_work(paths, job.work, is_quick ? kQuickHalvings : kHalvings);
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

}  // namespace harpe::carbon
