#include "harpe/carbon/pacing/structure_search.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "harpe/carbon/pacing/pacing_plan.h"
#include "harpe/carbon/pacing/priced_paths.h"

namespace harpe {
namespace {

constexpr std::size_t kNoInterval = std::numeric_limits<std::size_t>::max();

// Of a bisection of the price of work: doubles have 52 bits.
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
    // The intervals that differ between these prices do the last of the work, all at one price. The
    // first of them go first, because work that is done early is safe.
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

  /// Moves an interval towards a faster pace until no work is missing.
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

/// Returns the cheapest plan that does all the work in the intervals that run; nullopt if they
/// cannot. O(intervals log paces) for each of about 100 prices.
/// \param paced     which intervals run, and the time that stopping and starting take of each
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

// Linear programmes that a search takes at least, and at most.
constexpr std::size_t kLeastSearch = 8, kMostSearch = 20'000;

constexpr double kNever = std::numeric_limits<double>::infinity();

void trim(std::vector<bool>& runs) {
  while (!runs.empty() && !runs.back()) runs.pop_back();
}

}  // namespace

StructureSearch::StructureSearch(const PaceCurve& curve, const PacingJob& job,
                                 const PacingState& state,
                                 std::span<const PacingInterval> intervals,
                                 const SearchTerms& terms, PacingPlan& best)
    : curve_(curve),
      job_(job),
      state_(state),
      intervals_(intervals),
      dwell_(terms.dwell),
      spent_(terms.spent),
      best_(best),
      left_(std::clamp(terms.search / intervals.size(), kLeastSearch, kMostSearch)) {}

/// As the end moves, cost falls and then rises, or nearly so.
void StructureSearch::from(const std::vector<bool>& runs) {
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

double StructureSearch::cost_until(const std::vector<bool>& runs, std::size_t end) const {
  std::vector<bool> part(runs.begin(), runs.begin() + static_cast<std::ptrdiff_t>(end));
  trim(part);
  const auto paced = structure(part);
  if (!paced || part.empty()) return kNever;
  const auto plan = plan_of_structure(curve_, job_, intervals_, *paced, part.size() - 1);
  return plan ? plan->cost : kNever;
}

void StructureSearch::improve() {
  while (left_ > 0 && try_moves()) {
  }
}

/// None where a run or a pause is too short.
std::optional<std::vector<PacedInterval>> StructureSearch::structure(
    const std::vector<bool>& runs) const {
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

/// As it is, or with one interval that runs in part, at an end of what runs without a break; runs
/// that are no longer than they must be are left whole. Whether it is the best so far.
bool StructureSearch::consider(std::vector<bool> runs) {
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

bool StructureSearch::take(const std::vector<PacedInterval>& paced, std::size_t flexible) {
  if (left_ > 0) --left_;
  auto plan = plan_of_structure(curve_, job_, intervals_, paced, flexible);
  if (!plan || !(plan->cost < best_.cost)) return false;
  best_ = *std::move(plan);
  runs_ = runs_of(paced);
  return true;
}

/// Some intervals in a row pause instead of running, or the reverse; or a pause comes in between
/// and what follows is later, or the reverse. Whether something was found.
bool StructureSearch::try_moves() {
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

std::vector<bool> runs_of(const std::vector<PacedInterval>& paced) {
  std::vector<bool> runs;
  for (const PacedInterval& one : paced) runs.push_back(one.runs);
  trim(runs);
  return runs;
}

}  // namespace harpe
