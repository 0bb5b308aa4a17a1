#include "harpe/plan/frontier/event_beam.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

namespace harpe::plan {
namespace {

// Candidate options per instruction. Fewer take less time, but answers for large pipelines get
// worse. Most of the other options lose more than a plan loses at any arc.
constexpr std::size_t kOptions = 12;

/// Returns the hash of a slot. A future is the sum of its hashes, so that it changes in O(1) when
/// an event is added. Two different futures have the same sum in about one of 2^64 cases. Then one
/// of the partial answers is dropped.
std::uint64_t hash_of(std::int32_t slot, std::int64_t time) {
  constexpr std::uint64_t kOdd = 0x9E3779B97F4A7C15U, kOther = 0xBF58476D1CE4E5B9U;
  std::uint64_t x = static_cast<std::uint64_t>(time) + kOdd * static_cast<std::uint64_t>(slot + 1);
  x = (x ^ (x >> 30)) * kOther;
  x = (x ^ (x >> 27)) * kOdd;
  return x ^ (x >> 31);
}

}  // namespace

ArcPrices::ArcPrices(const SearchOrder& layout, std::span<const flow::State> relaxed)
    : layout_(layout), price_(layout.problem().network.arcs.size()) {
  const Problem& problem = layout.problem();
  const double unit = problem.flow_unit * Seconds{1e-12} / problem.cost_unit;
  for (const flow::State& state : relaxed) {
    for (std::size_t a = 0; a < price_.size(); ++a) {
      price_[a].flow +=
          unit * static_cast<double>(state.flow[a]) / static_cast<double>(relaxed.size());
    }
  }
  for (std::size_t i = 0; i < problem.table.size(); ++i)
    set_candidates(price_[problem.node_arc[i]], problem.table[i]);
}

void ArcPrices::set_candidates(Price& price, std::int32_t table) {
  const auto times = layout_.times(table);
  const auto costs = layout_.costs(table);
  std::vector<std::pair<double, std::int64_t>> options;
  for (std::size_t k = 0; k < times.size(); ++k) {
    options.emplace_back(static_cast<double>(costs[k]) + price.flow * static_cast<double>(times[k]),
                         times[k]);
  }
  std::ranges::sort(options);
  price.least = options.front().first;
  if (options.size() > kOptions) options.resize(kOptions);
  price.first = candidates_.size();
  for (const auto& [value, time] : options) candidates_.push_back({time, value - price.least});
  price.last = candidates_.size();
  std::sort(candidates_.begin() + static_cast<std::ptrdiff_t>(price.first), candidates_.end(),
            [](const Candidate& a, const Candidate& b) { return a.time < b.time; });
}

double ArcPrices::loss(const Arc& arc, std::int64_t duration) const {
  const Price& price = price_[arc.network_arc];
  if (arc.node < 0) return price.flow * static_cast<double>(duration - arc.lag);
  const int option = layout_.cheapest_within(arc.table, duration);
  return static_cast<double>(layout_.costs(arc.table)[option]) +
         price.flow * static_cast<double>(duration) - price.least;
}

EventBeam::EventBeam(const ArcPrices& prices)
    : prices_(prices), layout_(prices.layout()), place_(layout_.order().size(), -1) {}

void EventBeam::enter(std::span<const std::int32_t> events) {
  events_ = events;
  flow_.assign(events.size(), 0.0);
  for (std::size_t i = 0; i < events.size(); ++i) {
    place_[events[i]] = static_cast<std::int32_t>(i);
    for (const Arc& arc : layout_.in(events[i])) flow_[i] += prices_.flow(arc);
  }
}

void EventBeam::leave() {
  for (const std::int32_t event : events_) place_[event] = -1;
}

double EventBeam::loss(std::span<const std::int32_t> events, const EventTimes& time) {
  enter(events);
  double sum = 0;
  for (const std::int32_t event : events) {
    for (const Arc& arc : layout_.in(event))
      sum += prices_.loss(arc, time[event] - time[arc.event]);
    for (const Arc& arc : layout_.out(event)) {
      if (!is_inside(arc.event)) sum += prices_.loss(arc, time[arc.event] - time[event]);
    }
  }
  leave();
  return sum;
}

bool EventBeam::retime(std::span<const std::int32_t> events, EventTimes& time,
                       const Options& options, SearchRandom& random) {
  enter(events);
  limit(time, options);
  assign_slots();
  rows_.resize(options.width * slots_);
  next_rows_.resize(rows_.size());
  if (steps_.size() < events.size()) steps_.resize(events.size());
  losses_.assign(1, 0.0);
  futures_.assign(1, 0);
  bool found = true;
  for (std::size_t i = 0; i < events.size() && found; ++i) {
    found = extend(i, time, options, random);
    if (found) keep_least(i, options.width);
  }
  if (found) {
    std::size_t winner = 0;
    double least = 0;
    for (std::size_t k = 0; k < losses_.size(); ++k) {
      const double rank = losses_[k] + options.blur * random.fraction();
      if (k > 0 && rank >= least) continue;
      least = rank;
      winner = k;
    }
    settle(winner, time);
  }
  leave();
  return found;
}

// Sets the latest time of each event that leaves the later events enough time.
void EventBeam::limit(const EventTimes& time, const Options& options) {
  limit_.resize(events_.size());
  for (std::size_t i = events_.size(); i-- > 0;) {
    std::int64_t latest = std::numeric_limits<std::int64_t>::max();
    if (options.latest != nullptr) latest = (*options.latest)[events_[i]];
    for (const Arc& arc : layout_.out(events_[i])) {
      const std::int64_t length = arc.node < 0 ? arc.lag : layout_.times(arc.table)[0];
      const std::int64_t next = is_inside(arc.event) ? limit_[place_[arc.event]] : time[arc.event];
      latest = std::min(latest, next - length);
    }
    limit_[i] = latest;
  }
}

void EventBeam::assign_slots() {
  const auto n = static_cast<std::int32_t>(events_.size());
  last_use_.assign(events_.size(), 0);
  for (std::int32_t i = 0; i < n; ++i) {
    last_use_[i] = std::max(last_use_[i], i);
    for (const Arc& arc : layout_.in(events_[i])) {
      if (is_inside(arc.event)) last_use_[place_[arc.event]] = i;
    }
  }
  slot_.resize(events_.size());
  free_slots_.clear();
  slots_ = 0;
  freed_.resize(events_.size());
  for (std::int32_t i = 0; i < n; ++i) {
    freed_[i].clear();
    if (free_slots_.empty()) free_slots_.push_back(static_cast<std::int32_t>(slots_++));
    slot_[i] = free_slots_.back();
    free_slots_.pop_back();
    // A slot is free again after the last event that needs it.
    if (last_use_[i] == i) freed_[i].push_back(slot_[i]);
    for (const Arc& arc : layout_.in(events_[i])) {
      if (!is_inside(arc.event)) continue;
      std::int32_t& last = last_use_[place_[arc.event]];
      if (last != i) continue;
      freed_[i].push_back(slot_[place_[arc.event]]);
      last = -1;  // two arcs may start at one event
    }
    free_slots_.insert(free_slots_.end(), freed_[i].begin(), freed_[i].end());
  }
}

// Finds the partial answers up to event i. Returns false if there are none.
bool EventBeam::extend(std::size_t i, const EventTimes& time, const Options& options,
                       SearchRandom& random) {
  const std::int32_t event = events_[i];
  const auto in = layout_.in(event);
  const auto out = layout_.out(event);
  const bool is_followed_inside =
      std::ranges::all_of(out, [&](const Arc& arc) { return is_inside(arc.event); });
  const bool ends_one = in.size() == 1 && in.front().node >= 0 && is_followed_inside;
  branches_.clear();
  for (std::size_t k = 0; k < losses_.size(); ++k) {
    const std::int64_t* row = rows_.data() + k * slots_;
    const auto parent = static_cast<std::int32_t>(k);
    std::int64_t earliest = 0;
    for (const Arc& arc : in) {
      const std::int64_t length = arc.node < 0 ? arc.lag : layout_.times(arc.table)[0];
      earliest = std::max(earliest, at(arc.event, row, time) + length);
    }
    if (earliest > limit_[i]) continue;
    const auto try_at = [&](std::int64_t then) {
      add_branch(i, parent, then, losses_[k] + loss_of(i, then, row, time), options, random);
    };
    try_at(earliest);
    const auto try_options = [&](const Arc& arc, std::int64_t from, int sign) {
      for (const ArcPrices::Candidate& candidate : prices_.least_losing(arc)) {
        const std::int64_t then = from + sign * candidate.time;
        if (then <= earliest || then > limit_[i]) continue;
        if (ends_one) {
          add_branch(i, parent, then, losses_[k] + candidate.loss, options, random);
        } else {
          try_at(then);
        }
      }
    };
    for (const Arc& arc : in) {
      if (arc.node >= 0) try_options(arc, at(arc.event, row, time), 1);
    }
    if (is_followed_inside) continue;
    for (const Arc& arc : out) {
      if (arc.node >= 0 && !is_inside(arc.event)) try_options(arc, time[arc.event], -1);
    }
  }
  return !branches_.empty();
}

// Returns the loss of the arcs at event i, without the arcs to later events of the search.
double EventBeam::loss_of(std::size_t i, std::int64_t then, const std::int64_t* row,
                          const EventTimes& time) const {
  double sum = 0;
  for (const Arc& arc : layout_.in(events_[i]))
    sum += prices_.loss(arc, then - at(arc.event, row, time));
  for (const Arc& arc : layout_.out(events_[i])) {
    if (!is_inside(arc.event)) sum += prices_.loss(arc, time[arc.event] - then);
  }
  return sum;
}

void EventBeam::add_branch(std::size_t i, std::int32_t parent, std::int64_t then, double loss,
                           const Options& options, SearchRandom& random) {
  if (loss > options.most) return;
  double rank = loss;
  if (options.blur > 0) rank += options.blur * random.fraction();
  if (options.drift > 0) {
    const auto way = static_cast<double>(then - (*options.expected)[events_[i]]);
    rank += options.drift * flow_[i] * way * way;
  }
  branches_.push_back({rank, loss, then, parent});
}

// Makes the branches with the lowest ranks the partial answers, in the order in which they were
// found, so that the result does not depend on the library's order.
void EventBeam::keep_least(std::size_t i, std::size_t width) {
  double last = std::numeric_limits<double>::infinity();
  std::size_t of_last = branches_.size();  // number of branches of this rank to keep
  if (branches_.size() > width) {
    ranks_.clear();
    for (const Branch& branch : branches_) ranks_.push_back(branch.rank);
    const auto end = ranks_.begin() + static_cast<std::ptrdiff_t>(width);
    std::nth_element(ranks_.begin(), end - 1, ranks_.end());
    last = *(end - 1);
    of_last = static_cast<std::size_t>(std::count(ranks_.begin(), end, last));
  }
  next_losses_.clear();
  next_futures_.clear();
  next_ranks_.clear();
  steps_[i].clear();
  seen_.assign(std::bit_ceil(2 * width), -1);
  std::int32_t parent = -1;
  std::uint64_t future = 0;
  for (const Branch& branch : branches_) {
    if (branch.rank > last) continue;
    if (branch.rank == last) {
      if (of_last == 0) continue;
      --of_last;
    }
    if (branch.parent != parent) {
      parent = branch.parent;
      future = future_without(i, parent);
    }
    keep(i, branch, future);
  }
  std::swap(rows_, next_rows_);
  std::swap(losses_, next_losses_);
  std::swap(futures_, next_futures_);
}

// Returns the future of a partial answer without event i and the slots that no later event needs.
std::uint64_t EventBeam::future_without(std::size_t i, std::int32_t parent) const {
  const std::int64_t* row = rows_.data() + static_cast<std::size_t>(parent) * slots_;
  std::uint64_t future = futures_[parent];
  for (const std::int32_t slot : freed_[i]) {
    if (slot != slot_[i]) future -= hash_of(slot, row[slot]);
  }
  return future;
}

// Keeps a branch. Of two branches with the same future, only the one with the lower rank is kept.
void EventBeam::keep(std::size_t i, const Branch& branch, std::uint64_t future) {
  const bool is_asked_for = last_use_[i] != static_cast<std::int32_t>(i);
  if (is_asked_for) future += hash_of(slot_[i], branch.time);
  const std::size_t mask = seen_.size() - 1;
  std::size_t at = future & mask;
  while (seen_[at] >= 0 && next_futures_[seen_[at]] != future) at = (at + 1) & mask;
  if (const std::int32_t other = seen_[at]; other >= 0) {
    if (branch.rank >= next_ranks_[other]) return;
    next_ranks_[other] = branch.rank;
    next_losses_[other] = branch.loss;
    steps_[i][other] = {branch.time, branch.parent};
    return;
  }
  seen_[at] = static_cast<std::int32_t>(next_losses_.size());
  const std::int64_t* from = rows_.data() + static_cast<std::size_t>(branch.parent) * slots_;
  std::int64_t* to = next_rows_.data() + next_losses_.size() * slots_;
  std::copy(from, from + slots_, to);
  to[slot_[i]] = branch.time;
  next_ranks_.push_back(branch.rank);
  next_losses_.push_back(branch.loss);
  next_futures_.push_back(future);
  steps_[i].push_back({branch.time, branch.parent});
}

void EventBeam::settle(std::size_t winner, EventTimes& time) const {
  for (std::size_t i = events_.size(); i-- > 0;) {
    const Step& step = steps_[i][winner];
    time[events_[i]] = step.time;
    winner = static_cast<std::size_t>(step.parent);
  }
}

}  // namespace harpe::plan
