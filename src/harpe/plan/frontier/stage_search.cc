#include "harpe/plan/frontier/stage_search.h"

#include <algorithm>
#include <cmath>

namespace harpe::plan {
namespace {

// Labels kept per setting of an instruction.
constexpr int kLabels = 6;
// Longer parts of a list take more time, and are rarely better than several shorter ones.
constexpr int kLongestPart = 48;
// Largest number of settings that a move may use.
constexpr std::size_t kAllowed = 12;

}  // namespace

StageSearch::StageSearch(const SearchOrder& layout, const LateCosts& costs,
                         const PointCosts& point_costs)
    : layout_(layout),
      costs_(costs),
      problem_(layout.problem()),
      point_costs_(point_costs),
      round_(costs, LateRound::Late::kFirst),
      before_(problem_.table.size()),
      after_(problem_.table.size()),
      setting_of_(problem_.tables.size()),
      number_of_(costs.stages().size()),
      setting_(problem_.table.size(), 0),
      time_(problem_.table.size(), 0),
      node_cost_(problem_.table.size(), 0),
      point_(problem_.table.size(), 0),
      changes_(problem_.table.size()),
      earliest_(problem_.network.nodes),
      latest_(problem_.network.nodes),
      delayed_(problem_.network.nodes) {
  std::vector<int> stage_of(problem_.table.size(), -1);
  for (std::size_t s = 0; s < costs.stages().size(); ++s) {
    number_of_[s].assign(costs.stages()[s].settings.size(), 0);
    for (const int node : costs.stages()[s].nodes) {
      stage_of[node] = static_cast<int>(s);
      auto& settings = setting_of_[problem_.table[node]];
      if (!settings.empty()) continue;
      const std::vector<int>& point = costs.table(node).point;
      settings.resize(point.size());
      for (std::size_t k = 0; k < point.size(); ++k) {
        if (point[k] < 0) continue;
        settings[point[k]] = static_cast<int>(k);
        number_of_[s][k] = point_costs_.choices_of(node)[point[k]].setting;
      }
    }
  }
  for (const Dependency& d : problem_.pipeline.dependencies()) {
    if (stage_of[d.from] >= 0 && stage_of[d.from] == stage_of[d.to]) continue;
    before_[d.to].push_back({d.from, d.lag.value});
    after_[d.from].push_back({d.to, d.lag.value});
  }
}

double StageSearch::fastest(int node) const {
  return problem_.tables[problem_.table[node]].options.front().point.time.value;
}

void StageSearch::load(const PointChoices& choices) {
  for (std::size_t i = 0; i < choices.size(); ++i) {
    const auto& all = point_costs_.choices_of(static_cast<int>(i));
    time_[i] = all[choices[i]].time;
    node_cost_[i] = all[choices[i]].cost;
  }
  for (std::size_t s = 0; s < costs_.stages().size(); ++s) {
    const std::vector<int>& nodes = costs_.stages()[s].nodes;
    for (const int node : nodes) setting_[node] = setting_of_[problem_.table[node]][choices[node]];
    if (point_costs_.outlasts()) {
      take_stage(static_cast<int>(s));
      continue;
    }
    for (std::size_t k = 0; k < nodes.size(); ++k) take(static_cast<int>(s), static_cast<int>(k));
  }
  cost_ = 0;
  for (const std::int64_t cost : node_cost_) cost_ += cost;
}

PointChoices StageSearch::choices() const {
  PointChoices choices(setting_.size(), 0);
  for (const LateCosts::Stage& stage : costs_.stages()) {
    for (const int node : stage.nodes) choices[node] = costs_.table(node).point[setting_[node]];
  }
  return choices;
}

/// Sets the time and cost of a computation, from its setting and the one before it.
void StageSearch::take(int stage, int position) {
  const std::vector<int>& nodes = costs_.stages()[stage].nodes;
  const int node = nodes[position];
  const int before = nodes[position == 0 ? nodes.size() - 1 : position - 1];
  const int point = costs_.table(node).point[setting_[node]];
  const PointCosts::Choice& choice = point_costs_.choices_of(node)[point];
  set_taken(node, choice, point_costs_.change(node, point, number_of_[stage][setting_[before]]));
}

/// Sets the time and cost of all computations of a stage.
void StageSearch::take_stage(int stage) {
  const std::vector<int>& nodes = costs_.stages()[stage].nodes;
  for (const int node : nodes) point_[node] = costs_.table(node).point[setting_[node]];
  point_costs_.set_changes(stage, point_, changes_);
  for (const int node : nodes)
    set_taken(node, point_costs_.choices_of(node)[point_[node]], changes_[node]);
}

void StageSearch::set_taken(int node, const PointCosts::Choice& choice, const LateChange& late) {
  time_[node] = choice.time + late.time;
  cost_ += choice.cost + late.cost - node_cost_[node];
  node_cost_[node] = choice.cost + late.cost;
}

/// Sets the earliest times of all events. Returns the last one.
std::int64_t StageSearch::end() {
  std::fill(earliest_.begin(), earliest_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    const std::int64_t now = earliest_[u];
    for (const auto& arc : layout_.out(u)) {
      const std::int64_t then = now + (arc.node >= 0 ? time_[arc.node] : arc.lag);
      if (then > earliest_[arc.event]) earliest_[arc.event] = then;
    }
  }
  return earliest_[problem_.network.sink];
}

void StageSearch::set_latest(std::int64_t deadline) {
  const auto order = layout_.order();
  std::fill(latest_.begin(), latest_.end(), deadline);
  for (std::size_t i = order.size(); i-- > 0;) {
    std::int64_t latest = deadline;
    for (const auto& arc : layout_.out(order[i]))
      latest = std::min(latest, latest_[arc.event] - (arc.node >= 0 ? time_[arc.node] : arc.lag));
    latest_[order[i]] = latest;
  }
}

TimedChoices StageSearch::timed(PointChoices choices) {
  load(choices);
  return {.choices = std::move(choices), .end = end(), .cost = cost_};
}

PointChoices StageSearch::at_prices(std::span<const double> price, double share,
                                    std::span<const double> longest) {
  std::vector<double> shared(price.begin(), price.end());
  for (double& p : shared) p *= share;
  for (std::size_t s = 0; s < costs_.stages().size(); ++s) {
    const double least = round_.cheapest(static_cast<int>(s), shared, longest, setting_);
    if (least >= LateCosts::kNever) return {};
  }
  return choices();
}

TimedChoices StageSearch::splice(const TimedChoices& fast, const TimedChoices& slow,
                                 std::int64_t deadline) {
  // Share of the slow plan that has passed when each computation begins.
  load(slow.choices);
  const auto whole = static_cast<double>(std::max<std::int64_t>(1, end()));
  std::vector<double> begins(slow.choices.size());
  for (std::size_t i = 0; i < begins.size(); ++i)
    begins[i] = static_cast<double>(earliest_[problem_.start_node[i]]) / whole;
  // Returns true if a computation uses the fast plan, which covers `share` of the iteration.
  const auto is_fast = [](int manner, double begin, double share) {
    switch (manner) {
      case 0:
        return begin < share;
      case 1:
        return begin >= 1 - share;
      case 2:
        return std::min(begin, 1 - begin) < share / 2;
      default:
        return std::abs(begin - 0.5) < share / 2;
    }
  };
  TimedChoices best = fast;
  for (int manner = 0; manner < 4; ++manner) {
    constexpr int kHalvings = 11;
    double in_time = 1, too_late = 0;
    for (int i = 0; i < kHalvings; ++i) {
      const double share = (in_time + too_late) / 2;
      PointChoices choices = slow.choices;
      for (std::size_t k = 0; k < choices.size(); ++k)
        if (is_fast(manner, begins[k], share)) choices[k] = fast.choices[k];
      TimedChoices trial = timed(std::move(choices));
      if (trial.end > deadline) {
        too_late = share;
        continue;
      }
      in_time = share;
      if (trial.cost < best.cost) best = std::move(trial);
    }
  }
  return best;
}

/// Fixes the times of all events: the earliest, the latest, between them, or with random delays.
void StageSearch::hold() {
  const std::size_t manner = random_.below(4);
  const double share = random_.fraction();
  is_delayed_ = manner == 3;
  late_ = manner == 1 ? 1 : manner == 2 ? share : 0;
  if (!is_delayed_) return;
  std::fill(delayed_.begin(), delayed_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    std::int64_t now = delayed_[u];
    if (u != problem_.network.source && random_.below(3) == 0)
      now += static_cast<std::int64_t>(
          share * static_cast<double>(std::max<std::int64_t>(0, latest_[u] - now)));
    delayed_[u] = now;
    for (const auto& arc : layout_.out(u)) {
      const std::int64_t then = now + (arc.node >= 0 ? time_[arc.node] : arc.lag);
      if (then > delayed_[arc.event]) delayed_[arc.event] = then;
    }
  }
}

/// Returns the fixed time of an event, in seconds.
double StageSearch::held(std::int32_t event) const {
  if (is_delayed_) return 1e-12 * static_cast<double>(delayed_[event]);
  const auto early = static_cast<double>(earliest_[event]);
  return 1e-12 * (early + late_ * (static_cast<double>(latest_[event]) - early));
}

StageSearch::Part StageSearch::choose_part() {
  Part part;
  part.stage = static_cast<int>(random_.below(costs_.stages().size()));
  const LateCosts::Stage& stage = costs_.stages()[part.stage];
  const int size = static_cast<int>(stage.nodes.size());
  if (size == 0) return part;
  const std::size_t manner = random_.below(3);
  const int end = size - 1;
  part.last = std::min(end, kLongestPart - 1);
  if (manner > 0 || part.last < end) {
    const int most = manner == 1 ? 6 : std::min(size, kLongestPart);
    part.first = static_cast<int>(random_.below(size));
    part.last = std::min(end, part.first + 1 + static_cast<int>(random_.below(most)));
  }
  part.share = random_.below(2) == 0 ? 0 : random_.fraction();
  part.setting_before = setting_[stage.nodes[part.first == 0 ? end : part.first - 1]];
  if (part.last < end) {
    ++part.last;  // for its late change: it keeps its setting
  } else if (part.first == 0 && random_.below(2) == 0) {
    const LateCosts::Table& table = costs_.table(stage.nodes[end]);
    const int other = static_cast<int>(random_.below(table.settings));
    if (table.point[other] >= 0) part.setting_before = other;
    part.setting_last = part.setting_before;
    return part;
  }
  part.setting_last = setting_[stage.nodes[part.last]];
  return part;
}

/// Chooses the settings that a move may use: those of the part and of its neighbours, settings near
/// them, and a random one.
void StageSearch::allow(const Part& part) {
  const std::vector<int>& nodes = nodes_of(part);
  const auto settings = static_cast<int>(costs_.stages()[part.stage].settings.size());
  allowed_.clear();
  const auto add = [&](int setting) {
    if (setting < 0 || setting >= settings || allowed_.size() >= kAllowed) return;
    if (std::ranges::find(allowed_, setting) == allowed_.end()) allowed_.push_back(setting);
  };
  add(part.setting_before);
  if (part.setting_last >= 0) add(part.setting_last);
  const auto step = static_cast<int>(1 + random_.below(3));
  for (int k = part.first; k <= part.last; ++k) add(setting_[nodes[k]]);
  const std::size_t own = allowed_.size();
  for (const int reach : {1, -1, step, -step})
    for (std::size_t i = 0; i < own; ++i) add(allowed_[i] + reach);
  add(static_cast<int>(random_.below(static_cast<std::size_t>(settings))));
  std::ranges::sort(allowed_);
}

// Returns the time windows left by the rest of the pipeline at its fixed times, with the later
// instructions of the part at their fastest.
std::vector<StageSearch::Window> StageSearch::windows_of(const Part& part,
                                                         std::int64_t deadline) const {
  const std::vector<int>& nodes = nodes_of(part);
  const double end = 1e-12 * static_cast<double>(deadline);
  std::vector<Window> windows;
  for (int k = part.first; k <= part.last; ++k) {
    Window window{.from = 0, .to = end};
    for (const Neighbour& n : before_[nodes[k]])
      window.from = std::max(window.from, held(problem_.end_node[n.node]) + n.lag);
    for (const Neighbour& n : after_[nodes[k]])
      window.to = std::min(window.to, held(problem_.start_node[n.node]) - n.lag);
    windows.push_back(window);
  }
  if (part.last + 1 < static_cast<int>(nodes.size()))
    windows.back().to = std::min(windows.back().to, held(problem_.end_node[nodes[part.last]]));
  for (std::size_t i = windows.size() - 1; i-- > 0;) {
    const int next = nodes[part.first + static_cast<int>(i) + 1];
    windows[i].to = std::min(windows[i].to, windows[i + 1].to - fastest(next));
  }
  return windows;
}

// Sets the labels of an instruction from the labels of the previous one. Returns false if none fit.
bool StageSearch::extend(const Part& part, int position, const Window& window, double room,
                         double price) {
  const int node = nodes_of(part)[position];
  const LateCosts::Table& table = costs_.table(node);
  const std::vector<Label>& in = labels_[position - part.first];
  std::vector<Label>& out = labels_[position - part.first + 1];
  const Label none{.cost = LateCosts::kNever};
  out.assign(allowed_.size() * kLabels, none);
  const double bins = room > 0 ? kLabels * (1 - 1e-9) / room : 0;
  const bool is_set = position == part.last && part.setting_last >= 0;
  bool any = false;
  for (std::size_t from = 0; from < in.size(); ++from) {
    if (in[from].cost >= LateCosts::kNever) continue;
    const double start = std::max(in[from].time, window.from);
    const double base = in[from].cost;
    const auto before = static_cast<std::size_t>(allowed_[from / kLabels]);
    const auto times = table.times_after(before);
    const auto costs = table.costs_after(before);
    for (std::size_t i = 0; i < allowed_.size(); ++i) {
      const int now = allowed_[i];
      if (is_set && now != part.setting_last) continue;
      const double time = start + times[now];
      const double cost = base + (costs[now] + price * times[now]);
      if (time > window.to || cost >= LateCosts::kNever) continue;
      const int bin = std::clamp(static_cast<int>((window.to - time) * bins), 0, kLabels - 1);
      Label& label = out[i * kLabels + static_cast<std::size_t>(bin)];
      if (cost > label.cost || (cost == label.cost && time >= label.time)) continue;
      label = {.time = time, .cost = cost, .from = static_cast<int>(from)};
      any = true;
    }
  }
  // Removes labels that have less time left and cost no less.
  for (std::size_t i = 0; i < allowed_.size(); ++i) {
    double least = LateCosts::kNever;
    for (std::size_t bin = kLabels; bin-- > 0;) {
      Label& label = out[i * kLabels + bin];
      if (label.cost >= least) label = none;
      least = std::min(least, label.cost);
    }
  }
  return any;
}

/// Finds settings of the part. Returns false if none fit, or if they are the present ones.
bool StageSearch::solve(const Part& part, std::int64_t deadline, std::span<const double> price) {
  const std::vector<int>& nodes = nodes_of(part);
  const std::vector<Window> windows = windows_of(part, deadline);
  if (labels_.size() < windows.size() + 1) labels_.resize(windows.size() + 1);
  double time = part.first == 0 ? 0 : held(problem_.end_node[nodes[part.first - 1]]);
  labels_[0].assign(allowed_.size() * kLabels, {.cost = LateCosts::kNever});
  const auto before = std::ranges::find(allowed_, part.setting_before) - allowed_.begin();
  labels_[0][static_cast<std::size_t>(before) * kLabels] = {.time = time};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const int position = part.first + static_cast<int>(i);
    time = std::max(time, windows[i].from) + fastest(nodes[position]);
    const double worth = part.share > 0 ? part.share * price[nodes[position]] : 0;
    if (!extend(part, position, windows[i], windows[i].to - time, worth)) return false;
  }
  const std::vector<Label>& last = labels_[windows.size()];
  auto at = static_cast<int>(std::ranges::min_element(last, {}, &Label::cost) - last.begin());
  found_.resize(windows.size());
  bool is_new = false;
  for (std::size_t i = windows.size(); i-- > 0;) {
    found_[i] = allowed_[at / kLabels];
    is_new |= found_[i] != setting_[nodes[part.first + static_cast<int>(i)]];
    at = labels_[i + 1][at].from;
  }
  return is_new;
}

/// Sets the settings of the part to those found. Returns the cost of the plan.
std::int64_t StageSearch::apply(const Part& part) {
  const std::vector<int>& nodes = nodes_of(part);
  const auto size = static_cast<int>(nodes.size());
  undo_.clear();
  const int next = part.last + 1 < size ? part.last + 1 : 0;
  const auto remember = [&](int position) {
    const int node = nodes[position];
    undo_.push_back({node, setting_[node], time_[node], node_cost_[node]});
  };
  if (point_costs_.outlasts()) {
    for (int k = 0; k < size; ++k) remember(k);
    for (int k = part.first; k <= part.last; ++k) setting_[nodes[k]] = found_[k - part.first];
    take_stage(part.stage);
    return cost_;
  }
  for (int k = part.first; k <= part.last; ++k) remember(k);
  if (next < part.first || next > part.last) remember(next);
  for (int k = part.first; k <= part.last; ++k) setting_[nodes[k]] = found_[k - part.first];
  for (int k = part.first; k <= part.last; ++k) take(part.stage, k);
  take(part.stage, next);
  return cost_;
}

void StageSearch::undo() {
  for (const Taken& one : undo_) {
    cost_ += one.cost - node_cost_[one.node];
    setting_[one.node] = one.setting;
    time_[one.node] = one.time;
    node_cost_[one.node] = one.cost;
  }
}

void StageSearch::improve(TimedChoices& plan, std::int64_t deadline, std::span<const double> price,
                          int moves, double tolerance, const GoOn& go_on) {
  load(plan.choices);
  std::int64_t ends = end();
  set_latest(deadline);
  std::vector<int> best;
  for (int move = 0; move < moves; ++move) {
    if (go_on && !go_on(plan)) break;
    const Part part = choose_part();
    if (nodes_of(part).empty()) continue;
    hold();
    allow(part);
    if (!solve(part, deadline, price)) continue;
    const double allowed = tolerance * std::max(0.0, 1 - (move + 1.0) / (0.8 * moves));
    const std::int64_t current = cost_;
    if (apply(part) >= current + static_cast<std::int64_t>(allowed)) {
      undo();
      continue;
    }
    ends = end();
    if (ends > deadline) {
      undo();
      end();
      continue;
    }
    set_latest(deadline);
    if (cost_ >= plan.cost) continue;
    plan.cost = cost_;
    plan.end = ends;
    best = setting_;
  }
  if (best.empty()) return;
  setting_ = std::move(best);
  plan.choices = choices();
}

}  // namespace harpe::plan
