#include "harpe/frontier/stage_search.h"

#include <algorithm>
#include <cmath>

namespace harpe {
namespace {

// Labels kept for a setting of an instruction.
constexpr int kLabels = 6;
// Longer parts of a list take long, and are rarely better than several shorter ones.
constexpr int kLongestPart = 48;

}  // namespace

StageSearch::StageSearch(const SearchOrder& layout, const LateCosts& costs,
                         SwitchingSearch& switching, std::span<const double> price,
                         std::int64_t deadline)
    : layout_(layout),
      costs_(costs),
      problem_(layout.problem()),
      switching_(switching),
      price_(price),
      deadline_(deadline),
      round_(costs),
      before_(problem_.table.size()),
      after_(problem_.table.size()),
      setting_of_(problem_.tables.size()),
      earliest_(problem_.network.nodes),
      latest_(problem_.network.nodes),
      event_(problem_.network.nodes) {
  std::vector<int> stage_of(problem_.table.size(), -1);
  for (std::size_t s = 0; s < costs.stages().size(); ++s) {
    for (const int node : costs.stages()[s].nodes) {
      stage_of[node] = static_cast<int>(s);
      auto& settings = setting_of_[problem_.table[node]];
      if (!settings.empty()) continue;
      const std::vector<int>& point = costs.table(node).point;
      settings.resize(point.size());
      for (std::size_t k = 0; k < point.size(); ++k) {
        if (point[k] >= 0) settings[point[k]] = static_cast<int>(k);
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

std::vector<int> StageSearch::settings_of(const PointChoices& choices) const {
  std::vector<int> settings(choices.size(), 0);
  for (const LateCosts::Stage& stage : costs_.stages()) {
    for (const int node : stage.nodes)
      settings[node] = setting_of_[problem_.table[node]][choices[node]];
  }
  return settings;
}

PointChoices StageSearch::choices_of(const std::vector<int>& settings) const {
  PointChoices choices(settings.size(), 0);
  for (const LateCosts::Stage& stage : costs_.stages()) {
    for (const int node : stage.nodes) choices[node] = costs_.table(node).point[settings[node]];
  }
  return choices;
}

PointChoices StageSearch::at_prices(double share, std::span<const double> longest) {
  std::vector<double> price(price_.begin(), price_.end());
  for (double& p : price) p *= share;
  std::vector<int> settings(price.size(), 0);
  for (std::size_t s = 0; s < costs_.stages().size(); ++s) {
    const double least = round_.cheapest(static_cast<int>(s), price, longest, settings);
    if (least >= LateCosts::kNever) return {};
  }
  return choices_of(settings);
}

void StageSearch::scatter(const PointChoices& choices) {
  const std::vector<std::int64_t> duration = switching_.durations(choices);
  const auto order = layout_.order();
  const auto length = [&](const SearchOrder::Arc& arc) {
    return arc.node >= 0 ? duration[arc.node] : arc.lag;
  };
  std::fill(latest_.begin(), latest_.end(), deadline_);
  for (std::size_t i = order.size(); i-- > 0;) {
    for (const auto& arc : layout_.out(order[i]))
      latest_[order[i]] = std::min(latest_[order[i]], latest_[arc.event] - length(arc));
  }
  // At the earliest, at the latest, somewhere between, or now and then later than need be.
  const std::size_t manner = random_.below(4);
  const double share = random_.fraction();
  std::fill(earliest_.begin(), earliest_.end(), 0);
  for (const std::int32_t u : order) {
    if (manner == 3 && u != problem_.network.source && random_.below(3) == 0)
      earliest_[u] += static_cast<std::int64_t>(
          share * static_cast<double>(std::max<std::int64_t>(0, latest_[u] - earliest_[u])));
    for (const auto& arc : layout_.out(u))
      earliest_[arc.event] = std::max(earliest_[arc.event], earliest_[u] + length(arc));
  }
  const double part = manner == 1 ? 1 : manner == 2 ? share : 0;
  for (std::size_t v = 0; v < event_.size(); ++v) {
    const auto early = static_cast<double>(earliest_[v]), late = static_cast<double>(latest_[v]);
    event_[v] = 1e-12 * (early + part * (late - early));
  }
}

StageSearch::Part StageSearch::choose_part(const std::vector<int>& settings) {
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
  part.setting_before = settings[stage.nodes[part.first == 0 ? end : part.first - 1]];
  if (part.last < end) {
    ++part.last;  // its change may come and go
  } else if (part.first == 0 && random_.below(2) == 0) {
    const LateCosts::Table& table = costs_.table(stage.nodes[end]);
    const int other = static_cast<int>(random_.below(table.settings));
    if (table.point[other] >= 0) part.setting_before = other;
    part.setting_last = part.setting_before;
    return part;
  }
  part.setting_last = settings[stage.nodes[part.last]];
  return part;
}

// What the rest of the pipeline, at its times, and the fastest rest of the part leave.
std::vector<StageSearch::Window> StageSearch::windows_of(const Part& part) const {
  const std::vector<int>& nodes = costs_.stages()[part.stage].nodes;
  const double end = 1e-12 * static_cast<double>(deadline_);
  std::vector<Window> windows;
  for (int k = part.first; k <= part.last; ++k) {
    Window window{.from = 0, .to = end};
    for (const Neighbour& n : before_[nodes[k]])
      window.from = std::max(window.from, event_[problem_.end_node[n.node]] + n.lag);
    for (const Neighbour& n : after_[nodes[k]])
      window.to = std::min(window.to, event_[problem_.start_node[n.node]] - n.lag);
    windows.push_back(window);
  }
  if (part.last + 1 < static_cast<int>(nodes.size()))
    windows.back().to = std::min(windows.back().to, event_[problem_.end_node[nodes[part.last]]]);
  for (std::size_t i = windows.size() - 1; i-- > 0;) {
    const int next = nodes[part.first + static_cast<int>(i) + 1];
    windows[i].to = std::min(windows[i].to, windows[i + 1].to - fastest(next));
  }
  return windows;
}

// The labels of an instruction from those of the one before; whether there are any.
bool StageSearch::extend(const Part& part, int position, const Window& window, double room) {
  const LateCosts::Stage& stage = costs_.stages()[part.stage];
  const int node = stage.nodes[position];
  const LateCosts::Table& table = costs_.table(node);
  const std::vector<Label>& in = labels_[position - part.first];
  std::vector<Label>& out = labels_[position - part.first + 1];
  const Label none{.cost = LateCosts::kNever};
  out.assign(table.settings * kLabels, none);
  const double price = part.share * price_[node];
  const double bins = room > 0 ? kLabels * (1 - 1e-9) / room : 0;
  const bool is_set = position == part.last && part.setting_last >= 0;
  const std::size_t first = is_set ? part.setting_last : 0;
  const std::size_t end = is_set ? first + 1 : table.settings;
  bool any = false;
  for (std::size_t from = 0; from < in.size(); ++from) {
    if (in[from].cost >= LateCosts::kNever) continue;
    const double start = std::max(in[from].time, window.from);
    const double base = in[from].cost;
    const auto times = table.times_after(from / kLabels);
    const auto costs = table.costs_after(from / kLabels);
    for (std::size_t now = first; now < end; ++now) {
      const double time = start + times[now];
      const double cost = base + (costs[now] + price * times[now]);
      if (time > window.to || cost >= LateCosts::kNever) continue;
      const int bin = std::clamp(static_cast<int>((window.to - time) * bins), 0, kLabels - 1);
      Label& label = out[now * kLabels + static_cast<std::size_t>(bin)];
      if (cost > label.cost || (cost == label.cost && time >= label.time)) continue;
      label = {.time = time, .cost = cost, .from = static_cast<int>(from)};
      any = true;
    }
  }
  // Those with less time left that cost no less.
  for (std::size_t now = first; now < end; ++now) {
    double least = LateCosts::kNever;
    for (std::size_t bin = kLabels; bin-- > 0;) {
      Label& label = out[now * kLabels + bin];
      if (label.cost >= least) label = none;
      least = std::min(least, label.cost);
    }
  }
  return any;
}

bool StageSearch::solve(const Part& part, std::vector<int>& settings) {
  const std::vector<int>& nodes = costs_.stages()[part.stage].nodes;
  const std::vector<Window> windows = windows_of(part);
  if (labels_.size() < windows.size() + 1) labels_.resize(windows.size() + 1);
  double time = part.first == 0 ? 0 : event_[problem_.end_node[nodes[part.first - 1]]];
  const std::size_t all = costs_.table(nodes[part.first]).settings * kLabels;
  labels_[0].assign(all, {.cost = LateCosts::kNever});
  labels_[0][static_cast<std::size_t>(part.setting_before) * kLabels] = {.time = time};
  for (std::size_t i = 0; i < windows.size(); ++i) {
    const int position = part.first + static_cast<int>(i);
    time = std::max(time, windows[i].from) + fastest(nodes[position]);
    if (!extend(part, position, windows[i], windows[i].to - time)) return false;
  }
  const std::vector<Label>& last = labels_[windows.size()];
  auto at = static_cast<int>(std::ranges::min_element(last, {}, &Label::cost) - last.begin());
  for (std::size_t i = windows.size(); i-- > 0;) {
    settings[nodes[part.first + static_cast<int>(i)]] = at / kLabels;
    at = labels_[i + 1][at].from;
  }
  return true;
}

void StageSearch::improve(PointChoices& choices, int moves, double tolerance) {
  PointChoices best = choices;
  std::vector<int> settings = settings_of(choices);
  std::int64_t current = switching_.cost(choices);
  std::int64_t least = current;
  for (int move = 0; move < moves; ++move) {
    scatter(choices);
    const Part part = choose_part(settings);
    if (costs_.stages()[part.stage].nodes.empty()) continue;
    std::vector<int> trial = settings;
    if (!solve(part, trial) || trial == settings) continue;
    const PointChoices found = choices_of(trial);
    const double allowed = tolerance * std::max(0.0, 1 - (move + 1.0) / (0.8 * moves));
    const std::int64_t cost = switching_.cost(found);
    if (cost >= current + static_cast<std::int64_t>(allowed)) continue;
    if (const std::int64_t end = switching_.makespan(found); end < 0 || end > deadline_) continue;
    settings = std::move(trial);
    choices = found;
    current = cost;
    if (cost >= least) continue;
    least = cost;
    best = found;
  }
  choices = std::move(best);
}

}  // namespace harpe
