#include "harpe/carbon/pacing/structure_search.h"

#include <algorithm>
#include <utility>

#include "harpe/carbon/pacing/structure_paces.h"

namespace harpe {
namespace {

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
