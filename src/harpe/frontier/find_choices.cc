#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "harpe/frontier/stage_search.h"
#include "harpe/frontier/switching.h"

namespace harpe {
namespace {

// Keeps the cheapest choices that end by a limit.
class CheapestChoices {
 public:
  CheapestChoices(SwitchingSearch& search, const SwitchingTask& task, std::int64_t limit)
      : search_(search), task_(task), limit_(limit) {}

  void consider(const PointChoices& start) {
    const std::int64_t end = search_.makespan(start);
    if (end < 0) return;
    if (end <= limit_) {
      finish(start);
      if (!task_.thorough) return;
      PointChoices settled = start;
      search_.settle(settled, limit_);
      finish(std::move(settled));
    } else {
      PointChoices repaired = start;
      search_.repair(repaired, limit_);
      finish(std::move(repaired));
      // A little dearer than time is on the frontier, so that what starts late comes in time.
      PointChoices bought = start;
      const double price = 3 * task_.price(limit_);
      search_.improve(bought, limit_, price, task_.moves);
      search_.improve(bought, limit_, 100 * price, task_.moves);
      finish(std::move(bought));
    }
  }
  void offer(PointChoices choices) {
    if (!ends_in_time(choices)) return;
    const std::int64_t cost = search_.cost(choices);
    if (cost >= least_) return;
    least_ = cost;
    best_ = std::move(choices);
  }
  bool ends_in_time(const PointChoices& choices) {
    const std::int64_t end = search_.makespan(choices);
    return end >= 0 && end <= limit_;
  }
  const PointChoices& best() const { return best_; }
  PointChoices take() { return std::move(best_); }

 private:
  void finish(PointChoices choices) {
    if (!ends_in_time(choices)) return;
    search_.improve(choices, limit_, std::numeric_limits<double>::infinity(), task_.moves);
    offer(std::move(choices));
  }

  SwitchingSearch& search_;
  const SwitchingTask& task_;
  std::int64_t limit_;
  PointChoices best_;
  std::int64_t least_ = std::numeric_limits<std::int64_t>::max();
};

// Goes on from a few choices that are cheapest at shares of the prices of the bound, in the end
// from the best of them. Whether any of them can be made to end in time.
bool search_by_stages(SwitchingSearch& search, const LateCosts& costs, const SwitchingTask& task,
                      std::int64_t limit, CheapestChoices& cheapest) {
  // What is dearer is shorter: from some share on choices fit by themselves.
  constexpr double kShares[] = {1, 1.03, 1.06, 1.1, 1.15, 1.2, 1.3, 1.5, 2, 4, 10};
  const std::size_t most = task.thorough ? 5 : 2;
  const LateBound bound = task.bound(limit);
  StageSearch stages(search.layout(), costs, search, bound.prices(), limit);
  std::vector<std::pair<std::int64_t, PointChoices>> starts;
  const auto add = [&](PointChoices choices) {
    stages.improve(choices, task.stage_moves / 8, 0);
    const std::int64_t cost = search.cost(choices);
    starts.emplace_back(cost, std::move(choices));
  };
  for (const double share : kShares) {
    PointChoices choices = stages.at_prices(share, bound.longest());
    if (choices.empty()) break;  // nothing ends by the limit, at any price
    const bool fits = cheapest.ends_in_time(choices);
    if (!fits) search.repair(choices, limit);
    if (!cheapest.ends_in_time(choices)) continue;
    add(std::move(choices));
    if (fits && starts.size() >= most) break;
  }
  const bool found = !starts.empty();
  if (!cheapest.best().empty()) add(cheapest.best());
  std::ranges::sort(starts);
  starts.resize(std::min<std::size_t>(starts.size(), task.thorough ? 2 : 1));
  for (auto& [cost, choices] : starts) {
    stages.improve(choices, task.stage_moves, 0.7 * search.average_step());
    cheapest.offer(std::move(choices));
  }
  return found;
}

}  // namespace

SwitchingAnswer find_choices(SwitchingSearch& search, const LateCosts& costs,
                             const SwitchingTask& task) {
  SwitchingAnswer response;
  PointChoices fastest;
  for (const PointChoices& choices : search.simple()) {
    const std::int64_t end = search.makespan(choices);
    if (end < 0 || (response.fastest >= 0 && end >= response.fastest)) continue;
    response.fastest = end;
    fastest = choices;
  }
  if (!fastest.empty() && response.fastest > task.deadline.value_or(0)) {
    search.shorten(fastest, task.moves);
    response.fastest = search.makespan(fastest);
  }
  const std::int64_t limit = task.deadline.value_or(response.fastest);
  if (limit < 0) return response;
  CheapestChoices cheapest(search, task, limit);
  if (!fastest.empty()) cheapest.offer(fastest);
  // From plans for free switching, to earlier deadlines too: what is late in them may still be in
  // time.
  const auto consider_free_plan = [&](double share) {
    const auto sooner =
        static_cast<std::int64_t>(static_cast<double>(limit - task.min_time) * share);
    cheapest.consider(search.from(task.free_plan(std::max(limit - sooner, task.min_time))));
  };
  if (!search.has_dwell() && task.thorough) {
    for (const double share : {0.0, 0.4}) consider_free_plan(share);
  }
  if (search.has_dwell() || !search_by_stages(search, costs, task, limit, cheapest)) {
    if (!fastest.empty()) cheapest.consider(fastest);
    for (const double share : {0.0, 0.15, 0.4, 1.0}) consider_free_plan(share);
  }
  response.choices = cheapest.take();
  return response;
}

}  // namespace harpe
