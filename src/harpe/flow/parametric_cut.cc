#include "harpe/flow/parametric_cut.h"

#include <algorithm>

namespace harpe::flow {

ParametricCut::ParametricCut(const Network& network, const State& state)
    : network_(network),
      incidence_(network),
      tree_(network.nodes),
      links_(network.nodes),
      previous_(network.nodes, -1),
      side_(network.nodes, 0),
      marked_(network.nodes, 0),
      open_(2 * network.arcs.size()),
      flow_(network.arcs.size()),
      length_(network.arcs.size()),
      place_(network.arcs.size(), -1),
      moved_(network.nodes + 2),
      others_(network.nodes + 2),
      start_(state.horizon(network)),
      value_(state.value) {
  for (std::size_t i = 0; i < flow_.size(); ++i) {
    const Arc& arc = network.arcs[i];
    const Curve& curve = network.curves[arc.curve];
    const std::int64_t x = state.potential[arc.head] - state.potential[arc.tail] + arc.shift;
    const int step = step_at(curve, x, 0);
    const FlowRange range = flow_range(curve, step, x);
    flow_[i] = {range.low, range.high, state.flow[i]};
    length_[i] = {x, 0, step};
    update_open(static_cast<std::int32_t>(i));
  }
  side_[network.source] = 1;
  std::vector<std::int32_t> queue{network.sink};
  span(queue, true);
  span(queue, false);
  for (const auto& entry : incidence_.of(network.source)) enter_cut(entry.code >> 1);
  plant();
}

void ParametricCut::update_open(std::int32_t index) {
  const ArcFlow& arc = flow_[index];
  open_[2 * index] = arc.flow < arc.high;
  open_[2 * index + 1] = arc.flow > arc.low;
}

std::int64_t ParametricCut::present_length(std::int32_t index) const {
  const ArcLength& arc = length_[index];
  if (place_[index] < 0) return arc.length;
  const std::int64_t change = offset_ - arc.since;
  return fixed(network_.arcs[index].tail) ? arc.length - change : arc.length + change;
}

void ParametricCut::enter_cut(std::int32_t index) {
  length_[index].since = offset_;
  place_[index] = static_cast<std::int32_t>(crossing_.size());
  crossing_.push_back({kUnbounded, index});
  fresh_.push_back(index);
  if (open_[outward(index)]) pending_.push_back(index);
}

void ParametricCut::leave_cut(std::int32_t index) {
  length_[index].length = present_length(index);
  const std::int32_t place = place_[index];
  crossing_[place] = crossing_.back();
  place_[crossing_[place].arc] = place;
  crossing_.pop_back();
  place_[index] = -1;
}

// Puts an arc across the closed cut on watch. As soon as the horizon shrinks it lies strictly
// between two lengths, where its present flow is the only one allowed.
void ParametricCut::watch(std::int32_t index) {
  ArcLength& arc = length_[index];
  const Curve& curve = network_.curves[network_.arcs[index].curve];
  arc.length = present_length(index);
  arc.since = offset_;
  flow_[index].low = flow_[index].high = flow_[index].flow;
  open_[2 * index] = open_[2 * index + 1] = 0;
  std::int64_t distance = kUnbounded;  // lengthening beyond the longest length changes nothing
  if (fixed(network_.arcs[index].tail)) {
    if (arc.length == curve.length[arc.step]) ++arc.step;
    distance = arc.length - curve.length[arc.step];
  } else if (arc.step > 0) {
    distance = curve.length[arc.step - 1] - arc.length;
  }
  crossing_[place_[index]].distance = distance;
}

// An arc across the cut has reached a length of its curve, which opens it.
void ParametricCut::reach(std::int32_t index) {
  ArcLength& arc = length_[index];
  const Curve& curve = network_.curves[network_.arcs[index].curve];
  if (!fixed(network_.arcs[index].tail)) --arc.step;
  flow_[index].low = curve.rate[arc.step];
  flow_[index].high = curve.rate[arc.step + 1];
  update_open(index);
  fresh_.push_back(index);
  pending_.push_back(index);
}

void ParametricCut::hang(std::int32_t v, std::int32_t code, std::int32_t parent) {
  tree_[v] = {code, parent};
  previous_[v] = -1;
  links_[v].next = links_[parent].first_child;
  if (links_[v].next >= 0) previous_[links_[v].next] = v;
  links_[parent].first_child = v;
}

void ParametricCut::unhang(std::int32_t v) {
  const std::int32_t next = links_[v].next;
  if (previous_[v] >= 0) {
    links_[previous_[v]].next = next;
  } else {
    links_[tree_[v].parent].first_child = next;
  }
  if (next >= 0) previous_[next] = previous_[v];
}

// Grows the tree in `queue` over all moving nodes without a parent, along arcs that are open
// towards it or along all.
void ParametricCut::span(std::vector<std::int32_t>& queue, bool open_only) {
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const auto& entry : incidence_.of(queue[i])) {
      const std::int32_t v = entry.node;
      if (tree_[v].code != kRoot || fixed(v) || v == network_.sink) continue;
      if (open_only && !open_[entry.code ^ 1]) continue;
      hang(v, entry.code ^ 1, queue[i]);
      queue.push_back(v);
    }
  }
}

// Appends the children of a node to a list of `count` nodes, marking them.
void ParametricCut::add_children(std::int32_t v, std::int32_t* nodes, std::size_t& count,
                                 std::uint32_t mark) {
  for (std::int32_t c = links_[v].first_child; c >= 0; c = links_[c].next) {
    marked_[c] = mark;
    nodes[count++] = c;
  }
}

// Collects the nodes of the subtree of `subtree_root` into `moved_`, or all other nodes if they are
// fewer; returns whether it is the subtree. The subtree must be unhung. Marks the nodes collected
// with `mark_`.
bool ParametricCut::collect_smaller(std::int32_t subtree_root) {
  constexpr std::size_t kLead = 32;  // the subtree usually is the smaller one
  mark_ = (mark_ | 1) + 1;
  std::size_t inside = 1;
  std::size_t outside = 2;
  moved_[0] = subtree_root;
  others_[0] = network_.source;
  others_[1] = network_.sink;
  marked_[subtree_root] = mark_;
  marked_[network_.source] = marked_[network_.sink] = mark_ + 1;
  for (std::size_t i = 0;; ++i) {
    if (i == inside) {
      moved_count_ = inside;
      return true;
    }
    add_children(moved_[i], moved_.data(), inside, mark_);
    if (i < kLead) continue;
    if (i - kLead == outside) break;
    add_children(others_[i - kLead], others_.data(), outside, mark_ + 1);
  }
  moved_.swap(others_);
  moved_count_ = outside;
  ++mark_;
  return false;
}

// Moves the subtree of `subtree_root` to the other side, hung below `parent` by arc `code` at
// `new_root`, one of its nodes. Where all other nodes are fewer, they are moved instead and the
// sides change their names.
void ParametricCut::change_sides(std::int32_t subtree_root, std::int32_t new_root,
                                 std::int32_t code, std::int32_t parent) {
  unhang(subtree_root);
  const bool subtree = collect_smaller(subtree_root);
  for (std::int32_t v = new_root;;) {
    const std::int32_t up_code = tree_[v].code;
    const std::int32_t up = tree_[v].parent;
    if (v != subtree_root) unhang(v);
    hang(v, code, parent);
    if (v == subtree_root) break;
    code = up_code ^ 1;
    parent = v;
    v = up;
  }
  entering_.clear();
  for (const std::int32_t v : std::span(moved_).first(moved_count_)) {
    for (const auto& entry : incidence_.of(v)) {
      if (marked_[entry.node] == mark_) continue;
      if (place_[entry.code >> 1] >= 0) {
        leave_cut(entry.code >> 1);
      } else {
        entering_.push_back(entry.code >> 1);
      }
    }
  }
  for (const std::int32_t v : std::span(moved_).first(moved_count_)) side_[v] ^= 1;
  if (!subtree) fixed_side_ ^= 1;
  for (const std::int32_t arc : entering_) enter_cut(arc);
  moves_ += static_cast<std::int64_t>(moved_count_);
  ++stalled_;
}

void ParametricCut::augment(std::int32_t code, std::int64_t amount) {
  const auto send = [&](std::int32_t c) {
    flow_[c >> 1].flow += (c & 1) ? -amount : amount;
    update_open(c >> 1);
  };
  send(code);
  for (std::int32_t v = from(code); tree_[v].code != kRoot; v = tree_[v].parent)
    send(tree_[v].code ^ 1);
  for (std::int32_t v = to(code); tree_[v].code != kRoot; v = tree_[v].parent) send(tree_[v].code);
  value_ += amount;
  stalled_ = 0;
}

// Most flow that the tree path through an arc across the cut can take.
std::int64_t ParametricCut::bottleneck(std::int32_t code) const {
  std::int64_t least = residual(code);
  for (std::int32_t v = from(code); tree_[v].code != kRoot; v = tree_[v].parent) {
    least = std::min(least, residual(tree_[v].code ^ 1));
  }
  for (std::int32_t v = to(code); tree_[v].code != kRoot; v = tree_[v].parent) {
    least = std::min(least, residual(tree_[v].code));
  }
  return least;
}

// Moves the cut from an open arc to a blocked arc on its tree path: the nearest towards the sink or
// towards the source, whichever has the smaller subtree behind it. Returns whether there is one.
bool ParametricCut::move_cut(std::int32_t code) {
  constexpr int kPatience = 4;  // how much further to look on one side once the other is blocked
  const std::int32_t inner = from(code);
  const std::int32_t outer = to(code);
  std::int32_t u = inner;
  std::int32_t v = outer;
  const auto blocked_to_sink = [&] { return tree_[v].code != kRoot && !open_[tree_[v].code]; };
  const auto blocked_to_source = [&] {
    return tree_[u].code != kRoot && !open_[tree_[u].code ^ 1];
  };
  const auto at_roots = [&] { return tree_[v].code == kRoot && tree_[u].code == kRoot; };
  int steps = 0;
  for (; !blocked_to_sink() && !blocked_to_source() && !at_roots(); ++steps) {
    if (tree_[v].code != kRoot) v = tree_[v].parent;
    if (tree_[u].code != kRoot) u = tree_[u].parent;
  }
  if (at_roots()) return false;
  for (int more = kPatience * (steps + 4); more > 0 && !blocked_to_sink() && tree_[v].code != kRoot;
       --more)
    v = tree_[v].parent;
  for (int more = kPatience * (steps + 4);
       more > 0 && !blocked_to_source() && tree_[u].code != kRoot; --more)
    u = tree_[u].parent;
  bool towards_sink = blocked_to_sink();
  if (towards_sink && blocked_to_source()) towards_sink = is_smaller(v, u);
  if (towards_sink) {
    change_sides(v, outer, code ^ 1, inner);
  } else {
    change_sides(u, inner, code, outer);
  }
  return true;
}

// Whether the subtree of `a` has at most as many nodes as that of `b`, which it is not part of:
// both are walked at once.
bool ParametricCut::is_smaller(std::int32_t a, std::int32_t b) {
  std::size_t in_a = 1;
  std::size_t in_b = 1;
  moved_[0] = a;
  others_[0] = b;
  for (std::size_t i = 0;; ++i) {
    if (i == in_a) return true;
    if (i == in_b) return false;
    add_children(moved_[i], moved_.data(), in_a, 0);
    add_children(others_[i], others_.data(), in_b, 0);
  }
}

// Closes the cut. Returns false when the flow has no bound, that is, when the horizon cannot shrink
// any more.
bool ParametricCut::settle() {
  for (std::size_t next = 0; next < pending_.size();) {  // grows on the way
    const std::int32_t arc = pending_[next++];
    if (place_[arc] < 0) continue;
    const std::int32_t code = outward(arc);
    while (open_[code] && !move_cut(code)) {
      const std::int64_t amount = bottleneck(code);
      if (amount >= kUnbounded / 4) return false;
      augment(code, amount);
    }
    if (stalled_ > 1000 + static_cast<std::int64_t>(tree_.size())) {
      if (!rebuild()) return false;
      break;
    }
  }
  pending_.clear();
  return true;
}

// Maximises the flow by breadth-first search from the source and rebuilds both trees: the fixed
// side becomes what the source reaches. Returns false when the flow has no bound.
bool ParametricCut::rebuild() {
  ++rebuilds_;
  while (!crossing_.empty()) leave_cut(crossing_.back().arc);
  pending_.clear();
  fixed_side_ = 1;
  std::vector<std::int32_t> queue;
  while (true) {
    std::fill(tree_.begin(), tree_.end(), TreeNode{});
    std::fill(links_.begin(), links_.end(), Links{});
    std::fill(previous_.begin(), previous_.end(), -1);
    std::fill(side_.begin(), side_.end(), 0);
    side_[network_.source] = 1;
    queue.assign(1, network_.source);
    for (std::size_t i = 0; i < queue.size(); ++i) {
      for (const auto& entry : incidence_.of(queue[i])) {
        if (side_[entry.node] || !open_[entry.code]) continue;
        side_[entry.node] = 1;
        hang(entry.node, entry.code ^ 1, queue[i]);
        queue.push_back(entry.node);
      }
    }
    if (!side_[network_.sink]) break;
    const std::int32_t last = tree_[network_.sink].code ^ 1;
    tree_[network_.sink].code = kRoot;
    const std::int64_t amount = bottleneck(last);
    if (amount >= kUnbounded / 4) return false;
    augment(last, amount);
  }
  queue.assign(1, network_.sink);
  span(queue, true);
  span(queue, false);
  for (std::size_t i = 0; i < flow_.size(); ++i) {
    const Arc& arc = network_.arcs[i];
    if (fixed(arc.tail) != fixed(arc.head)) enter_cut(static_cast<std::int32_t>(i));
  }
  stalled_ = 0;
  return true;
}

// Shrinks the horizon until an arc across the cut reaches a length of its curve, or by `limit` in
// all. Returns whether one did.
bool ParametricCut::advance(std::int64_t limit) {
  for (const std::int32_t arc : fresh_) {
    if (place_[arc] >= 0) watch(arc);
  }
  fresh_.clear();
  std::int64_t distance = limit - offset_;
  for (const Crossing& c : crossing_) distance = std::min(distance, c.distance);
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
    if (value_ > value) breakpoints.push_back({horizon(), value_});
    if (left <= 0) return Stop::kLimit;
    if (!advance(offset_limit)) return Stop::kLimit;
    ++steps_;
  }
}

// A spanning tree of the network from the source, along which potentials add up from lengths.
void ParametricCut::plant() {
  std::vector<std::uint8_t> seen(tree_.size(), 0);
  std::vector<std::int32_t> queue{network_.source};
  seen[network_.source] = 1;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const auto& entry : incidence_.of(queue[i])) {
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
  state.flow.reserve(flow_.size());
  for (const ArcFlow& arc : flow_) state.flow.push_back(arc.flow);
  state.potential.assign(tree_.size(), 0);
  for (const std::int32_t code : spanning_codes_) {
    const std::int32_t index = code >> 1;
    const std::int64_t difference = present_length(index) - network_.arcs[index].shift;
    state.potential[to(code)] =
        state.potential[from(code)] + ((code & 1) ? -difference : difference);
  }
  return state;
}

}  // namespace harpe::flow
