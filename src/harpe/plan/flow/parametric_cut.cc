#include "harpe/plan/flow/parametric_cut.h"

#include <algorithm>
#include <utility>

#include "harpe/base/check.h"

namespace harpe::plan::flow {

ParametricCut::ParametricCut(const Network& network, const State& state, const Division& division)
    : network_(network),
      trees_(network, division),
      residual_(2 * network.arcs.size()),
      length_(network.arcs.size()),
      path_(static_cast<std::size_t>(network.nodes)),
      start_(state.horizon(network)),
      value_(state.value) {
  for (std::size_t i = 0; i < length_.size(); ++i) {
    const Arc& arc = network.arcs[i];
    const Curve& curve = network.curves[arc.curve];
    const std::int64_t x = state.potential[arc.head] - state.potential[arc.tail] + arc.shift;
    const int step = step_at(curve, x, 0);
    const FlowRange range = flow_range(curve, step, x);
    residual_[2 * i] = range.high - state.flow[i];
    residual_[2 * i + 1] = state.flow[i] - range.low;
    length_[i] = {x, 0, step, -1, arc.tail, arc.head};
  }
  std::vector<std::int32_t> queue{network.sink};
  span(queue, true);
  span(queue, false);
  trees_.set_sides();
  for (const auto& entry : trees_.incident(network.source)) enter_cut(entry.code >> 1);
  plant();
}

std::int64_t ParametricCut::present_length(std::int32_t index) const {
  const ArcLength& arc = length_[index];
  if (arc.place < 0) return arc.length;
  const std::int64_t change = offset_ - arc.since;
  return fixed(arc.tail) ? arc.length - change : arc.length + change;
}

void ParametricCut::enter_cut(std::int32_t index) {
  length_[index].since = offset_;
  length_[index].place = static_cast<std::int32_t>(crossing_.size());
  crossing_.push_back({kUnbounded, index});
  fresh_.push_back(index);
  if (residual_[outward(index)] > 0) pending_.push_back(index);
}

void ParametricCut::leave_cut(std::int32_t index) {
  length_[index].length = present_length(index);
  const std::int32_t place = std::exchange(length_[index].place, -1);
  const Crossing last = crossing_.back();
  crossing_.pop_back();
  if (last.arc == index) return;
  crossing_[place] = last;
  length_[last.arc].place = place;
}

// Watches an arc across the closed cut for the next length of its curve. As soon as the horizon
// shrinks, its length is strictly between two lengths, where only its present flow is allowed.
void ParametricCut::watch(std::int32_t index) {
  ArcLength& arc = length_[index];
  const Curve& curve = network_.curves[network_.arcs[index].curve];
  arc.length = present_length(index);
  arc.since = offset_;
  residual_[2 * index] = residual_[2 * index + 1] = 0;
  std::int64_t distance = kUnbounded;  // lengthening beyond the longest length changes nothing
  if (fixed(arc.tail)) {
    if (arc.length == curve.length[arc.step]) ++arc.step;
    distance = arc.length - curve.length[arc.step];
  } else if (arc.step > 0) {
    distance = curve.length[arc.step - 1] - arc.length;
  }
  crossing_[arc.place].distance = distance;
}

// Opens an arc across the cut outwards when it has reached a length of its curve.
void ParametricCut::reach(std::int32_t index) {
  ArcLength& arc = length_[index];
  const Curve& curve = network_.curves[network_.arcs[index].curve];
  const std::int32_t code = outward(index);
  if (code & 1) --arc.step;
  residual_[code] = curve.rate[arc.step + 1] - curve.rate[arc.step];
  fresh_.push_back(index);
  pending_.push_back(index);
}

// Grows the tree in `queue` over all nodes without a tree, along arcs that are open towards the
// tree or, if `open_only` is false, along all arcs.
void ParametricCut::span(std::vector<std::int32_t>& queue, bool open_only) {
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const auto& entry : trees_.incident(queue[i])) {
      const std::int32_t v = entry.node;
      if (!trees_.is_root(v) || v == network_.source || v == network_.sink) continue;
      if (open_only && residual_[entry.code ^ 1] == 0) continue;
      trees_.hang(v, entry.code ^ 1, queue[i]);
      queue.push_back(v);
    }
  }
}

// Moves the subtree of `subtree_root` to the other side, hung below `parent` by arc `code` at
// `new_root`, one of its nodes.
void ParametricCut::change_sides(std::int32_t subtree_root, std::int32_t new_root,
                                 std::int32_t code, std::int32_t parent) {
  entering_.clear();
  for (const std::int32_t arc : trees_.detach(subtree_root, parent)) {
    if (length_[arc].place >= 0) {
      leave_cut(arc);
    } else {
      entering_.push_back(arc);
    }
  }
  trees_.attach(subtree_root, new_root, code, parent);
  for (const std::int32_t arc : entering_) enter_cut(arc);
  ++stalled_;
}

void ParametricCut::send(std::int32_t code, std::int64_t amount) {
  residual_[code] -= amount;
  residual_[code ^ 1] += amount;
}

void ParametricCut::raise_value(std::int64_t amount) {
  HARPE_CHECK(amount > 0, "the flow only rises");
  HARPE_CHECK(amount < kUnbounded - value_, "a flow that is bounded stays below what is not");
  value_ += amount;
}

// Raises the flow along the tree path of the last `look`, through an arc across the cut.
void ParametricCut::augment(std::int32_t code, std::int64_t amount) {
  send(code, amount);
  for (std::size_t i = 0; i < path_size_; ++i) send(path_[i], amount);
  raise_value(amount);
  stalled_ = 0;
}

// Follows one half of the tree path for `steps` steps, or to a blocked arc.
void ParametricCut::follow(Half& half, std::size_t steps) {
  std::int32_t v = half.at;
  std::size_t size = path_size_;
  for (const std::size_t end = size + steps; size < end; ++size) {
    if (trees_.is_root(v)) {
      half.ended = true;
      break;
    }
    const std::int32_t code = trees_.code(v) ^ half.reverse;
    path_[size] = code;
    if (residual_[code] < half.least) {
      half.least = residual_[code];
      half.narrowest = v;
      if (half.least == 0) {
        half.ended = true;
        break;
      }
    }
    v = trees_.parent(v);
  }
  half.at = v;
  path_size_ = size;
}

// Follows both halves of the tree path in turn, each to its end or to a blocked arc. If one half is
// blocked, stops soon after in the other half.
ParametricCut::Path ParametricCut::look(std::int32_t code) {
  Half to_source{.at = from(code), .reverse = 1};
  Half to_sink{.at = to(code), .reverse = 0};
  path_size_ = 0;
  for (std::size_t steps = 16; !to_source.ended || !to_sink.ended; steps *= 2) {
    const bool one_ended = to_source.ended || to_sink.ended;
    if (!to_source.ended) follow(to_source, steps);
    if (!to_sink.ended) follow(to_sink, steps);
    if (one_ended && (to_source.least == 0 || to_sink.least == 0)) break;
  }
  return {.to_source = to_source.least,
          .to_sink = to_sink.least,
          .at_source = to_source.narrowest,
          .at_sink = to_sink.narrowest};
}

// Moves the cut from an open arc to an arc of its tree path with a residual of at most `blocked`.
// If both halves of the path have such an arc, the smaller subtree moves.
void ParametricCut::move_cut(std::int32_t code, const Path& path, std::int64_t blocked) {
  bool towards_sink = path.to_sink <= blocked;
  if (towards_sink && path.to_source <= blocked)
    towards_sink = trees_.is_smaller(path.at_sink, path.at_source);
  if (towards_sink) {
    change_sides(path.at_sink, to(code), code ^ 1, from(code));
  } else {
    change_sides(path.at_source, from(code), code, to(code));
  }
}

// Closes the cut. Returns false if the flow is unbounded: the horizon cannot shrink further.
bool ParametricCut::settle() {
  for (std::size_t next = 0; next < pending_.size();) {  // `pending_` grows in the loop
    const std::int32_t arc = pending_[next++];
    if (length_[arc].place < 0) continue;
    const std::int32_t code = outward(arc);
    if (residual_[code] == 0) continue;
    const Path path = look(code);
    const std::int64_t least = std::min(path.to_source, path.to_sink);
    if (least > 0) {
      const std::int64_t amount = std::min(least, residual_[code]);
      if (amount >= kUnbounded / 4) return false;
      augment(code, amount);
    }
    if (residual_[code] > 0) move_cut(code, path, least);
    if (stalled_ > 1000 + static_cast<std::int64_t>(static_cast<std::size_t>(network_.nodes))) {
      if (!rebuild()) return false;
      break;
    }
  }
  pending_.clear();
  return true;
}

// Maximises the flow by breadth-first search from the source and rebuilds both trees: the fixed
// side becomes the set of nodes that the source reaches. Returns false if the flow is unbounded.
bool ParametricCut::rebuild() {
  while (!crossing_.empty()) leave_cut(crossing_.back().arc);
  pending_.clear();
  std::vector<std::int32_t> queue;
  while (true) {
    trees_.clear();
    queue.assign(1, network_.source);
    for (std::size_t i = 0; i < queue.size() && trees_.is_root(network_.sink); ++i) {
      for (const auto& entry : trees_.incident(queue[i])) {
        const std::int32_t v = entry.node;
        if (!trees_.is_root(v) || v == network_.source || residual_[entry.code] == 0) continue;
        trees_.hang(v, entry.code ^ 1, queue[i]);
        queue.push_back(v);
      }
    }
    if (trees_.is_root(network_.sink)) break;
    std::int64_t amount = kUnbounded;
    for (std::int32_t v = network_.sink; !trees_.is_root(v); v = trees_.parent(v))
      amount = std::min(amount, residual_[trees_.code(v) ^ 1]);
    if (amount >= kUnbounded / 4) return false;
    for (std::int32_t v = network_.sink; !trees_.is_root(v); v = trees_.parent(v))
      send(trees_.code(v) ^ 1, amount);
    raise_value(amount);
  }
  queue.assign(1, network_.sink);
  span(queue, true);
  span(queue, false);
  trees_.set_sides();
  for (std::size_t i = 0; i < length_.size(); ++i) {
    const Arc& arc = network_.arcs[i];
    if (fixed(arc.tail) != fixed(arc.head)) enter_cut(static_cast<std::int32_t>(i));
  }
  stalled_ = 0;
  return true;
}

// Shrinks the horizon until an arc across the cut reaches a length of its curve, or by `limit` in
// total. Returns false if it reached `limit`. Visits every arc across the cut.
bool ParametricCut::advance(std::int64_t limit) {
  for (const std::int32_t arc : fresh_) {
    if (length_[arc].place >= 0) watch(arc);
  }
  fresh_.clear();
  std::int64_t distance = limit - offset_;
  for (const Crossing& c : crossing_) distance = std::min(distance, c.distance);
  HARPE_CHECK(distance >= 0, "the horizon only shrinks");
  offset_ += distance;
  if (offset_ >= limit) {
    for (Crossing& c : crossing_) c.distance -= distance;
    for (const Crossing& c : crossing_) {
      if (c.distance == 0) reach(c.arc);
    }
    return false;
  }
  for (Crossing& c : crossing_) {
    c.distance -= distance;
    if (c.distance == 0) reach(c.arc);
  }
  stalled_ = 0;
  return true;
}

Stop ParametricCut::run(const Limits& limits, std::vector<Breakpoint>& breakpoints) {
  const std::int64_t offset_limit =
      limits.horizon <= start_ - kUnbounded / 2 ? kUnbounded / 2 : start_ - limits.horizon;
  for (std::int64_t left = limits.steps;; --left) {
    if (offset_ >= offset_limit) return Stop::kLimit;
    const std::int64_t value = value_;
    const bool bounded = settle();
    if (!bounded) return Stop::kFastest;
    if (value_ > value) {
      HARPE_CHECK(breakpoints.empty() || (horizon() <= breakpoints.back().horizon &&
                                          value_ > breakpoints.back().value),
                  "a cost curve is convex: its slope rises as the horizon shrinks");
      if (!breakpoints.empty() && breakpoints.back().horizon == horizon()) breakpoints.pop_back();
      breakpoints.push_back({horizon(), value_});
    }
    if (left <= 0) return Stop::kLimit;
    if (!advance(offset_limit)) return Stop::kLimit;
    ++steps_;
  }
}

// Finds a spanning tree of the network from the source. Lengths add up to potentials along it.
void ParametricCut::plant() {
  std::vector<std::uint8_t> seen(static_cast<std::size_t>(network_.nodes), 0);
  std::vector<std::int32_t> queue{network_.source};
  seen[network_.source] = 1;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const auto& entry : trees_.incident(queue[i])) {
      if (seen[entry.node]) continue;
      seen[entry.node] = 1;
      queue.push_back(entry.node);
      spanning_codes_.push_back(entry.code);
    }
  }
}

State ParametricCut::state() const {
  State state;
  state.value = value_;
  state.flow.resize(length_.size());
  for (std::size_t i = 0; i < length_.size(); ++i) {
    const Curve& curve = network_.curves[network_.arcs[i].curve];
    state.flow[i] = curve.rate[length_[i].step] + residual_[2 * i + 1];
  }
  state.potential.assign(static_cast<std::size_t>(network_.nodes), 0);
  for (const std::int32_t code : spanning_codes_) {
    const std::int32_t index = code >> 1;
    const std::int64_t difference = present_length(index) - network_.arcs[index].shift;
    state.potential[to(code)] =
        state.potential[from(code)] + ((code & 1) ? -difference : difference);
  }
  return state;
}

}  // namespace harpe::plan::flow
