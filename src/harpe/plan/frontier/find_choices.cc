#include <algorithm>
#include <limits>
#include <utility>

#include "harpe/plan/frontier/switching.h"

namespace harpe::plan {
namespace {

// The cheapest choices so far that end by a limit.
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
      // The price is above that of the frontier, so that choices that end late become shorter.
      PointChoices bought = start;
      const double price = 3 * task_.price(limit_);
      search_.improve(bought, limit_, price, task_.moves);
      search_.improve(bought, limit_, 100 * price, task_.moves);
      finish(std::move(bought));
    }
  }
  void offer(PointChoices choices) {
    if (!ends_in_time(choices)) return;
    const std::int64_t cost = search_.costs().cost(choices);
    if (cost >= least_) return;
    least_ = cost;
    best_ = std::move(choices);
  }
  bool ends_in_time(const PointChoices& choices) {
    const std::int64_t end = search_.makespan(choices);
    return end >= 0 && end <= limit_;
  }
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

}  // namespace

SwitchingAnswer find_choices(SwitchingSearch& search, const SwitchingTask& task) {
  SwitchingAnswer answer;
  PointChoices fastest;
  for (const PointChoices& choices : search.costs().simple()) {
    const std::int64_t end = search.makespan(choices);
    if (end < 0 || (answer.fastest >= 0 && end >= answer.fastest)) continue;
    answer.fastest = end;
    fastest = choices;
  }
  if (!fastest.empty() && answer.fastest > task.deadline.value_or(0)) {
    search.shorten(fastest, task.moves);
    answer.fastest = search.makespan(fastest);
  }
  const std::int64_t limit = task.deadline.value_or(answer.fastest);
  if (limit < 0) return answer;
  CheapestChoices cheapest(search, task, limit);
  if (!fastest.empty()) cheapest.offer(fastest);
  // Plans for free switching, also for earlier deadlines: with late settings they may end in time.
  const auto consider_free_plan = [&](double share) {
    const auto sooner =
        static_cast<std::int64_t>(static_cast<double>(limit - task.min_time) * share);
    cheapest.consider(search.costs().from(task.free_plan(std::max(limit - sooner, task.min_time))));
  };
  if (!fastest.empty()) cheapest.consider(fastest);
  for (PointChoices& choices : search.costs().at_one_setting()) cheapest.offer(std::move(choices));
  for (const double share : {0.0, 0.15, 0.4, 1.0}) consider_free_plan(share);
  answer.choices = cheapest.take();
  return answer;
}

}  // namespace harpe::plan
