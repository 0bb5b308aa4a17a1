#include "harpe/plan/frontier/plan_search.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace harpe::plan {
PlanSearch::PlanSearch(const SearchOrder& layout, std::int64_t deadline)
    : layout_(layout),
      problem_(layout.problem()),
      deadline_(deadline / 4 * 4),  // all times are multiples of 4, so that halves are whole
      time_(problem_.network.nodes),
      latest_(problem_.network.nodes),
      other_time_(problem_.network.nodes),
      choice_(problem_.table.size(), 0),
      price_(problem_.table.size(), 0.0) {}

void PlanSearch::keep_if_better() {
  if (cost_ >= best_cost_) return;
  best_cost_ = cost_;
  best_ = choice_;
}

// Returns the best option up to `last` at `price` per picosecond.
int PlanSearch::best_up_to(std::int32_t table, int last, double price) const {
  if (price == 0) return last;
  const auto times = layout_.times(table);
  const auto costs = layout_.costs(table);
  int choice = last;
  double best = static_cast<double>(costs[last]) + price * static_cast<double>(times[last]);
  for (int k = last; k-- > 0;) {
    const double value = static_cast<double>(costs[k]) + price * static_cast<double>(times[k]);
    if (value < best) {
      best = value;
      choice = k;
    }
  }
  return choice;
}

void PlanSearch::set_prices(const flow::State& relaxed, std::span<const double> shares) {
  const double unit = problem_.flow_unit * Seconds{1e-12} / problem_.cost_unit;
  for (std::size_t i = 0; i < choice_.size(); ++i) {
    price_[i] =
        shares[problem_.table[i]] * unit * static_cast<double>(relaxed.flow[problem_.node_arc[i]]);
  }
}

// One pass along the pipeline, in the whole nanoseconds of the network: no instruction ends after
// its relaxed end.
void PlanSearch::round(const flow::State& relaxed) {
  const auto& arcs = problem_.network.arcs;
  std::fill(time_.begin(), time_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      std::int64_t length = -arcs[arc.network_arc].shift;
      if (arc.node >= 0) {
        const auto nanoseconds = layout_.nanoseconds(arc.table);
        const int last =
            SearchOrder::last_within(nanoseconds, relaxed.potential[arc.event] - time_[u]);
        choice_[arc.node] = best_up_to(arc.table, last, price_[arc.node]);
        length = nanoseconds[choice_[arc.node]];
      }
      time_[arc.event] = std::max(time_[arc.event], time_[u] + length);
    }
  }
}

// Gives every instruction the best option at its price between its earliest start and its latest
// end, along the pipeline.
void PlanSearch::use_slack_at_prices() {
  layout_.set_latest(choice_, deadline_, latest_);
  std::fill(time_.begin(), time_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      std::int64_t length = arc.lag;
      if (arc.node >= 0) {
        const int last = layout_.cheapest_within(arc.table, latest_[arc.event] - time_[u]);
        choice_[arc.node] = best_up_to(arc.table, last, price_[arc.node]);
        length = layout_.times(arc.table)[choice_[arc.node]];
      }
      time_[arc.event] = std::max(time_[arc.event], time_[u] + length);
    }
  }
}

// Gives every instruction the cheapest option between its earliest start and its latest end, from
// the first to the last. Requires choices. Sets earliest times.
void PlanSearch::use_slack_forwards() {
  layout_.set_latest(choice_, deadline_, latest_);
  cost_ = 0;
  std::fill(time_.begin(), time_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      std::int64_t length = arc.lag;
      if (arc.node >= 0) {
        const int choice = layout_.cheapest_within(arc.table, latest_[arc.event] - time_[u]);
        choice_[arc.node] = choice;
        cost_ += layout_.costs(arc.table)[choice];
        length = layout_.times(arc.table)[choice];
      }
      time_[arc.event] = std::max(time_[arc.event], time_[u] + length);
    }
  }
}

// Does the same from the last to the first. Requires choices and their earliest times.
void PlanSearch::use_slack_backwards() {
  cost_ = 0;
  std::fill(latest_.begin(), latest_.end(), deadline_);
  const auto order = layout_.order();
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int32_t v = order[i];
    for (const auto& arc : layout_.in(v)) {
      std::int64_t length = arc.lag;
      if (arc.node >= 0) {
        const int choice = layout_.cheapest_within(arc.table, latest_[v] - time_[arc.event]);
        choice_[arc.node] = choice;
        cost_ += layout_.costs(arc.table)[choice];
        length = layout_.times(arc.table)[choice];
      }
      latest_[arc.event] = std::min(latest_[arc.event], latest_[v] - length);
    }
  }
}

// Uses slack in both directions: the second pass uses what is left after the first. Makes any
// choices end by the deadline.
void PlanSearch::hand_out_slack(bool backwards_first) {
  if (backwards_first) {
    layout_.set_earliest(choice_, time_);
    use_slack_backwards();
    use_slack_forwards();
  } else {
    use_slack_forwards();
    use_slack_backwards();
  }
}

std::int64_t PlanSearch::makespan(const Assignment& choice) {
  layout_.set_earliest(choice, other_time_);
  return other_time_[problem_.network.sink];
}

std::vector<double> PlanSearch::decode(std::span<const flow::State> relaxed, int trials,
                                       std::span<const double> known) {
  constexpr int kUniform[] = {17, 19, 15, 13, 20, 7, 0, 18, 16, 10, 14, 5};  // twentieths
  std::vector<double> best_shares(problem_.tables.size(), 0.0);
  std::vector<double> shares = best_shares;
  std::size_t best_state = 0;
  std::int64_t least = std::numeric_limits<std::int64_t>::max();
  const int uniform = known.empty() ? static_cast<int>(std::size(kUniform)) : 3;
  for (int trial = 0; trial < trials; ++trial) {
    std::size_t state = best_state;
    if (trial < uniform) {
      std::fill(shares.begin(), shares.end(), kUniform[trial] / 20.0);
    } else if (trial < uniform + 2 && !known.empty()) {
      shares.assign(known.begin(), known.end());
    } else {
      shares = best_shares;
      if (random_.below(4) == 0) state = random_.below(relaxed.size());
      const std::size_t changes = random_.below(5) == 0 ? shares.size() : 1 + random_.below(3);
      for (std::size_t i = 0; i < changes; ++i) {
        shares[random_.below(shares.size())] = static_cast<double>(random_.below(1100)) / 1000.0;
      }
    }
    set_prices(relaxed[state], shares);
    round(relaxed[state]);
    if (trial % 4 >= 2) use_slack_at_prices();
    hand_out_slack(trial % 2 == 0);
    if (cost_ <= least) {
      least = cost_;
      best_shares = shares;
      best_state = state;
    }
    keep_if_better();
  }
  return best_shares;
}

void PlanSearch::offer(const Assignment& choice) {
  for (const bool backwards_first : {true, false}) {
    choice_ = choice;
    hand_out_slack(backwards_first);
    keep_if_better();
  }
}

Milestone PlanSearch::decode_freely(const flow::State& relaxed, double share) {
  set_prices(relaxed, std::vector<double>(problem_.tables.size(), share));
  round(relaxed);
  layout_.set_earliest(choice_, time_);
  deadline_ = time_[problem_.network.sink];
  hand_out_slack(true);
  return {deadline_, cost_, choice_};
}

// For every event, the earlier (or the later) of two feasible times is feasible again, and leaves
// every instruction at least the shorter of its two times.
void PlanSearch::splice(const Milestone& fast, const Milestone& slow) {
  for (const bool slow_first : {true, false}) {
    layout_.set_earliest(fast.choice, time_);
    layout_.set_earliest(slow.choice, other_time_);
    for (std::size_t v = 0; v < time_.size(); ++v) {
      time_[v] = slow_first ? std::min(other_time_[v], time_[v] + deadline_ - fast.time)
                            : std::max(time_[v], other_time_[v] + deadline_ - slow.time);
    }
    time_[problem_.network.source] = 0;
    cost_ = layout_.fit(time_, choice_);
    hand_out_slack(slow_first);
    keep_if_better();
  }
}

void PlanSearch::shift_choice(std::size_t node, int step) {
  const int last = static_cast<int>(layout_.times(problem_.table[node]).size()) - 1;
  choice_[node] = std::clamp(choice_[node] + step, 0, last);
}

// Changes the options of one to three instructions.
void PlanSearch::kick_few() {
  const std::size_t changes = 1 + random_.below(3);
  for (std::size_t c = 0; c < changes; ++c) {
    const int step = 1 + static_cast<int>(random_.below(3));
    const bool slower = random_.below(2) == 0;
    shift_choice(random_.below(choice_.size()), slower ? step : -step);
  }
}

// Makes some kinds of instructions slower and others faster, on one stage or on all stages, for a
// range of micro-batches.
void PlanSearch::kick_band() {
  std::array<int, 16> step{};  // per kind
  for (int& s : step) s = static_cast<int>(random_.below(5)) - 2;
  const Schedule& schedule = problem_.pipeline.schedule();
  const auto stages = static_cast<std::size_t>(schedule.stages);
  const auto micro_batches = static_cast<std::size_t>(schedule.micro_batches);
  const bool everywhere = random_.below(2) == 0;
  const auto stage = static_cast<int>(random_.below(stages));
  auto first = static_cast<int>(random_.below(micro_batches));
  auto last = static_cast<int>(random_.below(micro_batches));
  if (first > last) std::swap(first, last);
  const auto nodes = problem_.pipeline.nodes();
  for (std::size_t i = 0; i < choice_.size(); ++i) {
    const Instruction& instruction = nodes[i].instruction;
    if (nodes[i].stage < 0 || (!everywhere && nodes[i].stage != stage)) continue;
    if (instruction.micro_batch < first || instruction.micro_batch > last) continue;
    shift_choice(i, step[static_cast<std::size_t>(instruction.kind) % step.size()]);
  }
}

// Accepts higher costs, up to a falling threshold above the present cost (threshold accepting:
// Dueck and Scheuer 1990).
void PlanSearch::kick(int kicks) {
  const double tolerance = 0.3 * layout_.average_step();
  Assignment current = best_;
  std::int64_t current_cost = best_cost_;
  for (int k = 0; k < kicks; ++k) {
    choice_ = current;
    if (random_.below(2) == 0) {
      kick_few();
    } else {
      kick_band();
    }
    hand_out_slack(random_.below(2) == 0);
    const double allowed = tolerance * (1 - (k + 1.0) / kicks);
    if (cost_ > current_cost + static_cast<std::int64_t>(allowed)) continue;
    current_cost = cost_;
    current = choice_;
    keep_if_better();
  }
}

}  // namespace harpe::plan
