#include "harpe/plan/frontier/window_search.h"

#include <algorithm>
#include <numeric>
#include <utility>

namespace harpe::plan {
namespace {

// Tuned on profiles of the models h100-sxm and a40 and of GPT-3 on an A100. Half or twice each
// value works as well.
constexpr std::size_t kBeam = 30;  // partial answers kept
constexpr std::size_t kLargestWindow = 40;
constexpr int kMostStages = 4;                // most stages of a band
constexpr std::int64_t kWindowsAtTimes = 50;  // windows between two calls of `scatter`
// First and last tolerance, in average steps from one option to the next.
constexpr double kFirstTolerance = 0.1;
constexpr double kLastTolerance = 0.005;

}  // namespace

WindowSearch::WindowSearch(const ArcPrices& prices, std::int64_t deadline, Assignment start)
    : layout_(prices.layout()),
      problem_(layout_.problem()),
      deadline_(deadline),
      beam_(prices),
      stage_(problem_.network.nodes, 0),
      choice_(start),
      best_(std::move(start)),
      time_(problem_.network.nodes),
      latest_(problem_.network.nodes),
      by_time_(problem_.network.nodes),
      rank_(problem_.network.nodes),
      is_inside_(problem_.network.nodes, 0) {
  const auto nodes = problem_.pipeline.nodes();
  for (std::size_t i = 0; i < choice_.size(); ++i)
    stage_[problem_.start_node[i]] = stage_[problem_.end_node[i]] = nodes[i].stage;
  average_step_ = layout_.average_step();
  cost_ = best_cost_ = cost_of(best_);
}

std::int64_t WindowSearch::cost_of(const Assignment& choice) const {
  std::int64_t cost = 0;
  for (std::size_t i = 0; i < choice.size(); ++i)
    cost += layout_.costs(problem_.table[i])[choice[i]];
  return cost;
}

void WindowSearch::offer(const Assignment& other) {
  const std::int64_t cost = cost_of(other);
  if (cost >= best_cost_) return;
  best_cost_ = cost;
  best_ = other;
}

bool WindowSearch::is_fixed(std::int32_t event) const {
  return event == problem_.network.source || event == problem_.network.sink;
}

void WindowSearch::begin(std::int64_t windows) {
  windows_ = windows;
  tried_ = 0;
  choice_ = best_;
  cost_ = best_cost_;
}

// Moves all events within their slack, because the fixed events around a window limit its answers.
void WindowSearch::scatter() {
  layout_.set_latest(choice_, deadline_, latest_);
  layout_.scatter(choice_, latest_, random_, time_);
  cost_ = layout_.fit(time_, choice_);
  std::iota(by_time_.begin(), by_time_.end(), 0);
  std::ranges::sort(by_time_, [&](std::int32_t a, std::int32_t b) {
    return std::pair(time_[a], layout_.place(a)) < std::pair(time_[b], layout_.place(b));
  });
  for (std::size_t i = 0; i < by_time_.size(); ++i)
    rank_[by_time_[i]] = static_cast<std::int32_t>(i);
}

void WindowSearch::step() {
  if (tried_ % kWindowsAtTimes == 0) scatter();
  const double left =
      std::max(0.0, 1 - static_cast<double>(tried_++) / static_cast<double>(windows_));
  tolerance_ = average_step_ * (kFirstTolerance * left * left + kLastTolerance);
  choose_window();
  if (!window_.empty()) retime();
  for (const std::int32_t event : window_) is_inside_[event] = 0;
  if (cost_ >= best_cost_) return;
  best_cost_ = cost_;
  best_ = choice_;
}

void WindowSearch::add(std::int32_t event) {
  if (is_fixed(event) || is_inside_[event] != 0) return;
  is_inside_[event] = 1;
  window_.push_back(event);
}

void WindowSearch::choose_window() {
  window_.clear();
  const std::size_t size = 1 + random_.below(kLargestWindow);
  add(static_cast<std::int32_t>(random_.below(time_.size())));
  if (window_.empty()) return;
  const int stages = problem_.pipeline.schedule().stages;
  switch (random_.below(4)) {
    case 0:
      add_ball(size);
      break;
    case 1:
      add_path(size);
      break;
    case 2: {
      const auto wide = random_.below(std::min(stages, kMostStages));
      const int first = stage_[window_.front()] - static_cast<int>(random_.below(wide + 1));
      add_band(size, first, first + static_cast<int>(wide));
      break;
    }
    default:
      add_band(size, 0, stages);
  }
  std::ranges::sort(window_, [&](std::int32_t a, std::int32_t b) {
    return std::pair(time_[a], layout_.place(a)) < std::pair(time_[b], layout_.place(b));
  });
}

void WindowSearch::add_ball(std::size_t size) {
  for (std::size_t i = 0; i < window_.size() && window_.size() < size; ++i) {
    for (const auto& arcs : {layout_.in(window_[i]), layout_.out(window_[i])}) {
      for (const Arc& arc : arcs) {
        if (window_.size() < size) add(arc.event);
      }
    }
  }
}

void WindowSearch::add_path(std::size_t size) {
  while (window_.size() < size) {
    const auto out = layout_.out(window_.back());
    const std::int32_t next = out[random_.below(out.size())].event;
    if (is_fixed(next)) return;
    add(next);
  }
}

// Adds the events of some stages that are nearest in time to the first event.
void WindowSearch::add_band(std::size_t size, int first_stage, int last_stage) {
  const auto add_at = [&](std::size_t i) {
    const int stage = stage_[by_time_[i]];
    if (stage >= first_stage && stage <= last_stage) add(by_time_[i]);
  };
  std::size_t before = static_cast<std::size_t>(rank_[window_.front()]);
  std::size_t after = before + 1;
  while (window_.size() < size && (before > 0 || after < by_time_.size())) {
    if (before > 0) add_at(--before);
    if (after < by_time_.size() && window_.size() < size) add_at(after++);
  }
}

void WindowSearch::retime() {
  const double most = beam_.loss(window_, time_) + 2 * tolerance_ * random_.fraction();
  if (!beam_.retime(window_, time_, {.width = kBeam, .most = most, .blur = 4 * tolerance_},
                    random_))
    return;
  for (const std::int32_t event : window_) {
    for (const Arc& arc : layout_.in(event)) settle(arc, time_[event] - time_[arc.event]);
    for (const Arc& arc : layout_.out(event)) {
      if (is_inside_[arc.event] == 0) settle(arc, time_[arc.event] - time_[event]);
    }
  }
}

// Chooses the cheapest option within the time between the ends of an arc.
void WindowSearch::settle(const Arc& arc, std::int64_t duration) {
  if (arc.node < 0) return;
  const auto costs = layout_.costs(arc.table);
  const int option = layout_.cheapest_within(arc.table, duration);
  cost_ += costs[option] - costs[choice_[arc.node]];
  choice_[arc.node] = option;
}

}  // namespace harpe::plan
