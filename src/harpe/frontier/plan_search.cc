#include "harpe/frontier/plan_search.h"

#include <algorithm>
#include <array>
#include <cmath>

namespace harpe {
namespace {

// Index of the last of some rising times that is within `room`, or of the first.
int last_within(std::span<const std::int64_t> times, std::int64_t room) {
  return static_cast<int>(std::upper_bound(times.begin() + 1, times.end(), room) - times.begin()) -
         1;
}

}  // namespace

PlanSearch::PlanSearch(const SearchOrder& layout, std::int64_t deadline)
    : layout_(layout),
      problem_(layout.problem()),
      deadline_(deadline / 4 * 4),  // all times are multiples of 4, so that halves are whole
      time_(problem_.network.nodes),
      latest_(problem_.network.nodes),
      other_time_(problem_.network.nodes),
      choice_(problem_.table.size(), 0),
      price_(problem_.table.size(), 0.0) {}

// xorshift64: Marsaglia 2003.
std::uint64_t PlanSearch::random() {
  random_state_ ^= random_state_ << 13;
  random_state_ ^= random_state_ >> 7;
  random_state_ ^= random_state_ << 17;
  return random_state_ >> 11;
}

int PlanSearch::cheapest_within(std::int32_t table, std::int64_t time) const {
  return last_within(layout_.times(table), time);
}

void PlanSearch::keep_if_better() {
  if (cost_ >= best_cost_) return;
  best_cost_ = cost_;
  best_ = choice_;
}

// The best option up to `last` when a picosecond is worth `price`.
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

// One pass along the pipeline, in the whole nanoseconds of the network: nothing ends after its
// relaxed end.
void PlanSearch::round(const flow::State& relaxed) {
  const auto& arcs = problem_.network.arcs;
  std::fill(time_.begin(), time_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      std::int64_t length = -arcs[arc.network_arc].shift;
      if (arc.node >= 0) {
        const auto nanoseconds = layout_.nanoseconds(arc.table);
        const int last = last_within(nanoseconds, relaxed.potential[arc.event] - time_[u]);
        choice_[arc.node] = best_up_to(arc.table, last, price_[arc.node]);
        length = nanoseconds[choice_[arc.node]];
      }
      time_[arc.event] = std::max(time_[arc.event], time_[u] + length);
    }
  }
}

// Every instruction takes the best option at its price between its earliest start and its latest
// end, along the pipeline.
void PlanSearch::use_slack_at_prices() {
  set_latest();
  std::fill(time_.begin(), time_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      std::int64_t length = arc.lag;
      if (arc.node >= 0) {
        const int last = cheapest_within(arc.table, latest_[arc.event] - time_[u]);
        choice_[arc.node] = best_up_to(arc.table, last, price_[arc.node]);
        length = layout_.times(arc.table)[choice_[arc.node]];
      }
      time_[arc.event] = std::max(time_[arc.event], time_[u] + length);
    }
  }
}

// Every instruction takes the cheapest option between its earliest start and its latest end, from
// the first to the last. Expects choices, leaves earliest times.
void PlanSearch::use_slack_forwards() {
  set_latest();
  cost_ = 0;
  std::fill(time_.begin(), time_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      std::int64_t length = arc.lag;
      if (arc.node >= 0) {
        const int choice = cheapest_within(arc.table, latest_[arc.event] - time_[u]);
        choice_[arc.node] = choice;
        cost_ += layout_.costs(arc.table)[choice];
        length = layout_.times(arc.table)[choice];
      }
      time_[arc.event] = std::max(time_[arc.event], time_[u] + length);
    }
  }
}

// The same from the last to the first. Expects choices and their earliest times.
void PlanSearch::use_slack_backwards() {
  cost_ = 0;
  std::fill(latest_.begin(), latest_.end(), deadline_);
  const auto order = layout_.order();
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int32_t v = order[i];
    for (const auto& arc : layout_.in(v)) {
      std::int64_t length = arc.lag;
      if (arc.node >= 0) {
        const int choice = cheapest_within(arc.table, latest_[v] - time_[arc.event]);
        choice_[arc.node] = choice;
        cost_ += layout_.costs(arc.table)[choice];
        length = layout_.times(arc.table)[choice];
      }
      latest_[arc.event] = std::min(latest_[arc.event], latest_[v] - length);
    }
  }
}

// Both ways, so that what the first leaves the second takes. Makes any choices end by the deadline.
void PlanSearch::hand_out_slack(bool backwards_first) {
  if (backwards_first) {
    set_earliest();
    use_slack_backwards();
    use_slack_forwards();
  } else {
    use_slack_forwards();
    use_slack_backwards();
  }
}

void PlanSearch::set_earliest() {
  set_earliest(choice_, time_);
}

void PlanSearch::set_earliest(const Assignment& choice, std::vector<std::int64_t>& time) const {
  std::fill(time.begin(), time.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    for (const auto& arc : layout_.out(u)) {
      const std::int64_t length =
          arc.node < 0 ? arc.lag : layout_.times(arc.table)[choice[arc.node]];
      time[arc.event] = std::max(time[arc.event], time[u] + length);
    }
  }
}

std::int64_t PlanSearch::makespan(const Assignment& choice) {
  set_earliest(choice, other_time_);
  return other_time_[problem_.network.sink];
}

void PlanSearch::set_latest() {
  std::fill(latest_.begin(), latest_.end(), deadline_);
  const auto order = layout_.order();
  for (std::size_t i = order.size(); i-- > 0;) {
    const std::int32_t v = order[i];
    for (const auto& arc : layout_.in(v)) {
      const std::int64_t length =
          arc.node < 0 ? arc.lag : layout_.times(arc.table)[choice_[arc.node]];
      latest_[arc.event] = std::min(latest_[arc.event], latest_[v] - length);
    }
  }
}

std::vector<double> PlanSearch::decode(std::span<const flow::State> relaxed, int trials,
                                       std::span<const double> known) {
  constexpr int kUniform[] = {17, 19, 15, 13, 20, 7, 0, 18, 16, 10, 14, 5};  // of 20
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
      if (random_below(4) == 0) state = random_below(relaxed.size());
      const std::size_t changes = random_below(5) == 0 ? shares.size() : 1 + random_below(3);
      for (std::size_t i = 0; i < changes; ++i) {
        shares[random_below(shares.size())] = static_cast<double>(random_below(1100)) / 1000.0;
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
  set_earliest();
  deadline_ = time_[problem_.network.sink];
  hand_out_slack(true);
  return {deadline_, cost_, choice_};
}

// The earlier, or the later, of two feasible times for every event is feasible again, and leaves
// every instruction at least the time that it has in one of the two.
void PlanSearch::splice(const Milestone& fast, const Milestone& slow) {
  for (const bool slow_first : {true, false}) {
    set_earliest(fast.choice, time_);
    set_earliest(slow.choice, other_time_);
    for (std::size_t v = 0; v < time_.size(); ++v) {
      time_[v] = slow_first ? std::min(other_time_[v], time_[v] + deadline_ - fast.time)
                            : std::max(time_[v], other_time_[v] + deadline_ - slow.time);
    }
    time_[problem_.network.source] = 0;
    fit();
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
  const std::size_t changes = 1 + random_below(3);
  for (std::size_t c = 0; c < changes; ++c) {
    const int step = 1 + static_cast<int>(random_below(3));
    const bool slower = random_below(2) == 0;
    shift_choice(random_below(choice_.size()), slower ? step : -step);
  }
}

// Makes some kinds of instructions slower and others faster, on one stage or on all, for
// micro-batches that follow each other.
void PlanSearch::kick_band() {
  std::array<int, 16> step{};  // of each kind
  for (int& s : step) s = static_cast<int>(random_below(5)) - 2;
  const Schedule& schedule = problem_.pipeline.schedule();
  const auto stages = static_cast<std::size_t>(schedule.stages);
  const auto micro_batches = static_cast<std::size_t>(schedule.micro_batches);
  const bool everywhere = random_below(2) == 0;
  const auto stage = static_cast<int>(random_below(stages));
  auto first = static_cast<int>(random_below(micro_batches));
  auto last = static_cast<int>(random_below(micro_batches));
  if (first > last) std::swap(first, last);
  const auto nodes = problem_.pipeline.nodes();
  for (std::size_t i = 0; i < choice_.size(); ++i) {
    const Instruction& instruction = nodes[i].instruction;
    if (nodes[i].stage < 0 || (!everywhere && nodes[i].stage != stage)) continue;
    if (instruction.micro_batch < first || instruction.micro_batch > last) continue;
    shift_choice(i, step[static_cast<std::size_t>(instruction.kind) % step.size()]);
  }
}

// Accepts what is a little worse, less and less so (threshold accepting: Dueck and Scheuer 1990).
void PlanSearch::kick(int kicks) {
  const double tolerance = 0.3 * average_step();
  Assignment current = best_;
  std::int64_t current_cost = best_cost_;
  for (int k = 0; k < kicks; ++k) {
    choice_ = current;
    if (random_below(2) == 0) {
      kick_few();
    } else {
      kick_band();
    }
    hand_out_slack(random_below(2) == 0);
    const double allowed = tolerance * (1 - (k + 1.0) / kicks);
    if (cost_ > current_cost + static_cast<std::int64_t>(allowed)) continue;
    current_cost = cost_;
    current = choice_;
    keep_if_better();
  }
}

// What an instruction saves on average by its next slower option.
double PlanSearch::average_step() const {
  double sum = 0;
  double steps = 0;
  for (std::size_t t = 0; t < problem_.tables.size(); ++t) {
    const auto costs = layout_.costs(static_cast<std::int32_t>(t));
    sum += static_cast<double>(costs.front() - costs.back());
    steps += static_cast<double>(costs.size() - 1);
  }
  return steps > 0 ? sum / steps : 0;
}

// Puts every event somewhere between its earliest and its latest time, in one of four manners.
void PlanSearch::scatter() {
  set_latest();
  const std::size_t manner = random_below(4);
  std::fill(time_.begin(), time_.end(), 0);
  for (const std::int32_t u : layout_.order()) {
    const std::int64_t slack = latest_[u] - time_[u];
    if (slack > 0 && u != problem_.network.source) {
      if (manner == 1) {
        time_[u] += slack;
      } else if (manner >= 2 && random_below(manner == 2 ? 2 : 8) == 0) {
        time_[u] += static_cast<std::int64_t>(random_below(static_cast<std::size_t>(slack)));
      }
    }
    for (const auto& arc : layout_.out(u)) {
      const std::int64_t length =
          arc.node < 0 ? arc.lag : layout_.times(arc.table)[choice_[arc.node]];
      time_[arc.event] = std::max(time_[arc.event], time_[u] + length);
    }
  }
  time_[problem_.network.sink] = deadline_;
}

// Gives every instruction the cheapest option that fits between its events.
void PlanSearch::fit() {
  cost_ = 0;
  for (std::size_t i = 0; i < choice_.size(); ++i) {
    const std::int32_t table = problem_.table[i];
    choice_[i] =
        cheapest_within(table, time_[problem_.end_node[i]] - time_[problem_.start_node[i]]);
    cost_ += layout_.costs(table)[choice_[i]];
  }
}

// How much longer one of a few instructions would have to get for a cheaper option: the least of
// them.
std::int64_t PlanSearch::random_shift() {
  constexpr int kSamples = 4;
  std::int64_t shift = 0;
  int samples = 0;
  for (int tries = 0; tries < 20 && samples < kSamples; ++tries) {
    const std::size_t i = random_below(choice_.size());
    const auto times = layout_.times(problem_.table[i]);
    std::size_t further = 1;
    while (further < 8 && random_below(2) == 0) ++further;
    const std::size_t target = static_cast<std::size_t>(choice_[i]) + further;
    if (target >= times.size()) continue;
    const std::int64_t need =
        times[target] - (time_[problem_.end_node[i]] - time_[problem_.start_node[i]]);
    if (samples++ == 0 || need < shift) shift = need;
  }
  return shift;
}

void PlanSearch::jump(int jumps) {
  choice_ = best_;
  flow::BinaryCut cut(problem_.network);
  for (int k = 0; k < jumps; ++k) {
    scatter();
    fit();
    keep_if_better();
    Jump jump;
    jump.size = random_shift();
    if (jump.size <= 0) continue;
    jump.later = random_below(2) == 0;
    jump.optimistic = random_below(2) == 0;
    const auto events = static_cast<std::size_t>(problem_.network.nodes);
    if (random_below(4) != 0) {  // most look at a part of the pipeline, which takes less time
      jump.first = static_cast<std::int32_t>(random_below(events - events / 6));
      jump.last = jump.first + static_cast<std::int32_t>(events / 6);
    } else {
      jump.last = problem_.network.nodes - 1;
    }
    set_costs(jump, cut);
    if (cut.solve() >= 0) continue;
    for (std::int32_t v = 0; v < problem_.network.nodes; ++v) {
      if (cut.chosen(v)) time_[v] += jump.later ? jump.size : -jump.size;
    }
    fit();
    keep_if_better();
  }
}

// The cost of every subset of events that could jump, as that of a cut.
void PlanSearch::set_costs(const Jump& jump, flow::BinaryCut& cut) const {
  cut.clear();
  const auto may_jump = [&](std::int32_t v) {
    return layout_.place(v) >= jump.first && layout_.place(v) <= jump.last;
  };
  for (std::int32_t u = 0; u < problem_.network.nodes; ++u) {
    if (!may_jump(u)) cut.hold(u);
    for (const auto& arc : layout_.out(u)) {
      if (!may_jump(u) && !may_jump(arc.event)) continue;
      const std::int64_t x = time_[arc.event] - time_[u];
      std::int64_t gain = 0;  // where the arc gets longer
      std::int64_t loss = 0;  // where it gets shorter
      if (arc.node < 0) {
        if (x - jump.size < arc.lag) loss = flow::kUnbounded;
      } else {
        const auto costs = layout_.costs(arc.table);
        const std::int64_t now = costs[choice_[arc.node]];
        gain = now - costs[cheapest_within(arc.table, x + jump.size)];
        loss = x - jump.size < layout_.times(arc.table)[0]
                   ? flow::kUnbounded
                   : costs[cheapest_within(arc.table, x - jump.size)] - now;
      }
      // Minimum cuts cannot have both: the gain is cut, or the loss overstated, so that the cost
      // found is never too low.
      if (gain > loss) (jump.optimistic ? loss : gain) = jump.optimistic ? gain : loss;
      cut.add_unary(jump.later ? arc.event : u, -gain);
      cut.add_unary(jump.later ? u : arc.event, gain);
      cut.set_arc(arc.network_arc, jump.later ? loss - gain : 0, jump.later ? 0 : loss - gain);
    }
  }
}

}  // namespace harpe
