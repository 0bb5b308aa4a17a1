#include "harpe/plan/frontier/late_round.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <tuple>

namespace harpe::plan {

/// Returns the number of computations from `k` on in which a change can be late.
std::size_t LateRound::reach(const LateCosts::Stage& stage, std::size_t k) const {
  if (!carries(stage)) return 1;
  const double longest = *std::ranges::max_element(stage.latency);
  double passed = 0;
  std::size_t count = 0;
  while (count < stage.nodes.size() && (count == 0 || passed < longest)) {
    const LateCosts::Table& table = costs_.table(stage.nodes[(k + count) % stage.nodes.size()]);
    passed += std::ranges::min(table.points, {}, &LateCosts::Taken::time).time;
    ++count;
  }
  return count;
}

/// Returns true if the best setting of a computation fits after every other one, and all settings
/// that fit the next computations fit after it.
bool LateRound::fits_around(const LateCosts::Stage& stage, std::size_t k, std::size_t best,
                            std::span<const double> longest) const {
  const std::size_t count = reach(stage, k), size = stage.nodes.size();
  for (std::size_t i = 0; i < count; ++i) {
    const int node = stage.nodes[(k + i) % size];
    const LateCosts::Table& table = costs_.table(node);
    if (table.point[best] >= 0 && table.own_time(best) + table.time_into[best] > longest[node])
      return false;
  }
  for (std::size_t i = 1; i <= reach(stage, k + 1); ++i) {
    const int node = stage.nodes[(k + i) % size];
    const LateCosts::Table& table = costs_.table(node);
    if (table.longest <= longest[node]) continue;
    const auto times = table.times_after(best);
    for (std::size_t now = 0; now < times.size(); ++now)
      if (table.own_time(now) <= longest[node] && times[now] > longest[node]) return false;
  }
  return true;
}

// Returns the settings of a computation that can be in the best round. Leaves out settings whose
// loss against the best one exceeds the cost of two late changes, to the best setting and away from
// it: the best one is then better between any settings. Example: two changes of 10 ms cost at most
// 1 J, so about 8 of 38 clocks remain. If the best setting does not fit after every other one, or
// the next computation does not fit after it, no setting that fits is left out.
LateRound::Range LateRound::range_of(const LateCosts::Stage& stage, std::size_t k,
                                     std::span<const double> price,
                                     std::span<const double> longest) const {
  const std::size_t size = stage.nodes.size();
  const int node = stage.nodes[k];
  const LateCosts::Table& table = costs_.table(node);
  const auto loss = [&](std::size_t setting) {
    return table.own_time(setting) <= longest[node]
               ? table.own_cost(setting) + price[node] * table.own_time(setting)
               : LateCosts::kNever;
  };
  std::size_t best = 0;
  for (std::size_t setting = 1; setting < table.settings; ++setting)
    if (loss(setting) < loss(best)) best = setting;
  double most = LateCosts::kNever / 2;
  if (loss(best) < most && fits_around(stage, k, best, longest)) {
    most = loss(best);
    for (std::size_t i = 0; i < reach(stage, k); ++i) {
      const int late = stage.nodes[(k + i) % size];
      most += costs_.table(late).cost_into[best] + price[late] * costs_.table(late).time_into[best];
    }
    for (std::size_t i = 1; i <= reach(stage, k + 1); ++i) {
      const int late = stage.nodes[(k + i) % size];
      most +=
          costs_.table(late).cost_after[best] + price[late] * costs_.table(late).time_after[best];
    }
    most += 1e-9 * std::abs(most);  // sums are rounded
  }
  Range range;
  while (range.first < table.settings && !(loss(range.first) <= most)) ++range.first;
  range.end = table.settings;
  while (range.end > range.first && !(loss(range.end - 1) <= most)) --range.end;
  return range;
}

void LateRound::set_ranges(const LateCosts::Stage& stage, std::span<const double> price,
                           std::span<const double> longest) {
  ranges_.clear();
  for (std::size_t k = 0; k < stage.nodes.size(); ++k)
    ranges_.push_back(range_of(stage, k, price, longest));
}

void LateRound::run(const LateCosts::Stage& stage, std::span<const double> price,
                    std::span<const double> longest) {
  if (carries(stage)) return run_outlasting(stage, price, longest);
  const std::size_t settings = stage.settings.size();
  for (std::size_t k = 0; k < stage.nodes.size(); ++k) {
    const int node = stage.nodes[k];
    const LateCosts::Table& table = costs_.table(node);
    const double* const before = least_.data() + k * settings;
    double* const after = least_.data() + (k + 1) * settings;
    std::fill(after, after + settings, LateCosts::kNever);
    const double p = price[node];
    const double limit = longest[node];
    const bool all_fit = table.longest <= limit;
    const Range range = ranges_[k], range_before = ranges_[k == 0 ? ranges_.size() - 1 : k - 1];
    for (std::size_t old = range_before.first; old < range_before.end; ++old) {
      const double base = before[old];
      if (base >= LateCosts::kNever) continue;
      const double* const time = table.time.data() + old * settings;
      const double* const cost = table.cost.data() + old * settings;
      if (all_fit) {
        for (std::size_t now = range.first; now < range.end; ++now) {
          const double sum = base + (cost[now] + p * time[now]);
          after[now] = sum < after[now] ? sum : after[now];
        }
      } else {
        for (std::size_t now = range.first; now < range.end; ++now) {
          const double sum = base + (cost[now] + p * time[now]);
          const double fitting = time[now] <= limit ? sum : LateCosts::kNever;
          after[now] = fitting < after[now] ? fitting : after[now];
        }
      }
    }
  }
}

// After each computation, `settled_` has the least sum with no late setting, `least_` the least sum
// with or without. A setting continues at its own cost only from `settled_`. A change may follow
// either, and spans computations until no setting is late.
void LateRound::run_outlasting(const LateCosts::Stage& stage, std::span<const double> price,
                               std::span<const double> longest) {
  const std::size_t settings = stage.settings.size(), size = stage.nodes.size();
  std::fill(least_.begin() + static_cast<std::ptrdiff_t>(settings), least_.end(),
            LateCosts::kNever);
  settled_ = least_;
  least_from_.assign(least_.size(), {});
  settled_from_.assign(least_.size(), {});
  for (std::size_t k = 0; k < size; ++k) {
    const int node = stage.nodes[k];
    const LateCosts::Table& table = costs_.table(node);
    const Range range = ranges_[k], range_before = ranges_[k == 0 ? size - 1 : k - 1];
    for (std::size_t now = range.first; now < range.end; ++now) {
      const double before = settled_[k * settings + now];
      if (before >= LateCosts::kNever || table.own_time(now) > longest[node]) continue;
      const double sum = before + (table.own_cost(now) + price[node] * table.own_time(now));
      const std::size_t at = (k + 1) * settings + now;
      offer_settled(at, sum, {});
      offer_any(at, sum, {});
    }
    for (std::size_t old = range_before.first; old < range_before.end; ++old) {
      if (least_[k * settings + old] >= LateCosts::kNever) continue;
      for (std::size_t now = range.first; now < range.end; ++now) {
        if (now != old) run_change(stage, k, {old, now, stage.latency[now]}, price, longest);
      }
    }
  }
}

void LateRound::run_change(const LateCosts::Stage& stage, std::size_t k, LateCosts::Carried change,
                           std::span<const double> price, std::span<const double> longest) {
  const std::size_t settings = stage.settings.size();
  const Origin origin{static_cast<int>(k), static_cast<int>(change.before)};
  double sum = least_[k * settings + change.before];
  for (std::size_t j = k; j < stage.nodes.size(); ++j) {
    const int node = stage.nodes[j];
    const bool is_tried = ranges_[j].first <= change.now && change.now < ranges_[j].end;
    if (!is_tried || costs_.table(node).point[change.now] < 0) return;
    const LateCosts::Taken taken = costs_.carried(node, change);
    sum += taken.cost + price[node] * taken.time;
    const std::size_t at = (j + 1) * settings + change.now;
    // From a state without a late setting at the same sum, no continuation costs more.
    if (taken.time > longest[node] || sum >= settled_[at]) return;
    offer_any(at, sum, origin);
    if (change.left > 0) continue;
    offer_settled(at, sum, origin);
    return;
  }
}

int LateRound::trace_outlasting(const LateCosts::Stage& stage, int last,
                                std::vector<int>& setting) const {
  const std::size_t settings = stage.settings.size();
  bool is_settled = false;
  for (std::size_t k = stage.nodes.size(); k > 0;) {
    const std::size_t at = k * settings + static_cast<std::size_t>(last);
    const Origin origin = is_settled ? settled_from_[at] : least_from_[at];
    is_settled = origin.change < 0;
    const std::size_t first = is_settled ? k - 1 : static_cast<std::size_t>(origin.change);
    while (k > first) setting[stage.nodes[--k]] = last;
    if (!is_settled) last = origin.before;
  }
  return last;
}

int LateRound::trace(const LateCosts::Stage& stage, std::span<const double> price,
                     std::span<const double> longest, int last, std::vector<int>& setting) const {
  if (carries(stage)) return trace_outlasting(stage, last, setting);
  const std::size_t settings = stage.settings.size();
  for (std::size_t k = stage.nodes.size(); k-- > 0;) {
    const int node = stage.nodes[k];
    const LateCosts::Table& table = costs_.table(node);
    setting[node] = last;
    double least = LateCosts::kNever;
    int best = 0;
    const Range range = ranges_[k == 0 ? ranges_.size() - 1 : k - 1];
    for (std::size_t old = range.first; old < range.end; ++old) {
      const std::size_t at = old * settings + static_cast<std::size_t>(last);
      if (table.time[at] > longest[node]) continue;
      const double sum =
          least_[k * settings + old] + (table.cost[at] + price[node] * table.time[at]);
      if (sum >= least) continue;
      least = sum;
      best = static_cast<int>(old);
    }
    last = best;
  }
  return last;
}

std::size_t LateRound::run_open(const LateCosts::Stage& stage, std::span<const double> price,
                                std::span<const double> longest) {
  least_.assign((stage.nodes.size() + 1) * stage.settings.size(), 0);
  set_ranges(stage, price, longest);
  run(stage, price, longest);
  return static_cast<std::size_t>(std::ranges::min_element(ends(stage)) - ends(stage).begin());
}

double LateRound::cheapest_open(int stage_index, std::span<const double> price,
                                std::span<const double> longest, std::vector<int>& setting) {
  const LateCosts::Stage& stage = costs_.stages()[stage_index];
  if (stage.nodes.empty()) return 0;
  const std::size_t last = run_open(stage, price, longest);
  const double least = ends(stage)[last];
  if (least >= LateCosts::kNever) return LateCosts::kNever;
  trace(stage, price, longest, static_cast<int>(last), setting);
  return least;
}

double LateRound::cheapest(int stage_index, std::span<const double> price,
                           std::span<const double> longest, std::vector<int>& setting) {
  const LateCosts::Stage& stage = costs_.stages()[stage_index];
  if (stage.nodes.empty()) return 0;
  const std::size_t settings = stage.settings.size();
  // The best list after any setting. If it ends with the setting before its first computation, it
  // is the best round.
  const auto last = static_cast<int>(run_open(stage, price, longest));
  const std::vector<double> bound(ends(stage).begin(), ends(stage).end());
  if (bound[last] >= LateCosts::kNever) return LateCosts::kNever;
  if (trace(stage, price, longest, last, setting) == last) return bound[last];
  std::vector<int> order(settings);
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order,
                    [&](int a, int b) { return std::tie(bound[a], a) < std::tie(bound[b], b); });
  double best = LateCosts::kNever;
  for (const int end : order) {
    if (bound[end] >= best) break;
    std::fill(least_.begin(), least_.begin() + static_cast<std::ptrdiff_t>(settings),
              LateCosts::kNever);
    least_[end] = 0;
    run(stage, price, longest);
    const double found = ends(stage)[end];
    if (found >= best) continue;
    best = found;
    trace(stage, price, longest, end, setting);
  }
  return best;
}

}  // namespace harpe::plan
