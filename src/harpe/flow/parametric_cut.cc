#include "harpe/flow/parametric_cut.h"

#include <algorithm>

namespace harpe::flow {

ParametricCut::ParametricCut(const Network& network, const State& state)
    : network_(network),
      incidence_(network),
      tree_(network.nodes),
      side_(network.nodes, 0),
      marked_(network.nodes, 0),
      open_(2 * network.arcs.size()),
      flow_(network.arcs.size()),
      length_(network.arcs.size()),
      place_(network.arcs.size(), -1),
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
  TreeNode& node = tree_[v];
  node.code = code;
  node.parent = parent;
  node.previous = -1;
  node.next = tree_[parent].first_child;
  if (node.next >= 0) tree_[node.next].previous = v;
  tree_[parent].first_child = v;
}

void ParametricCut::unhang(std::int32_t v) {
  const TreeNode& node = tree_[v];
  if (node.previous >= 0) {
    tree_[node.previous].next = node.next;
  } else {
    tree_[node.parent].first_child = node.next;
  }
  if (node.next >= 0) tree_[node.next].previous = node.previous;
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

// Collects the nodes of the subtree of `subtree_root` into `moved_`, or all other nodes if they are
// fewer; returns whether it is the subtree. The subtree must be unhung. Stamps the nodes collected
// with `mark_`.
bool ParametricCut::collect_smaller(std::int32_t subtree_root) {
  mark_ = (mark_ | 1) + 1;
  moved_.clear();
  others_.clear();
  const auto add = [&](std::int32_t v, std::vector<std::int32_t>& nodes, std::uint32_t mark) {
    marked_[v] = mark;
    nodes.push_back(v);
  };
  const auto add_children = [&](std::int32_t v, std::vector<std::int32_t>& nodes,
                                std::uint32_t mark) {
    for (std::int32_t c = tree_[v].first_child; c >= 0; c = tree_[c].next) add(c, nodes, mark);
  };
  add(subtree_root, moved_, mark_);
  add(network_.source, others_, mark_ + 1);
  add(network_.sink, others_, mark_ + 1);
  for (std::size_t i = 0;; ++i) {
    if (i == moved_.size()) return true;
    add_children(moved_[i], moved_, mark_);
    if (i == others_.size()) break;
    add_children(others_[i], others_, mark_ + 1);
  }
  moved_.swap(others_);
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
  for (const std::int32_t v : moved_) {
    for (const auto& entry : incidence_.of(v)) {
      if (marked_[entry.node] == mark_) continue;
      if (place_[entry.code >> 1] >= 0) {
        leave_cut(entry.code >> 1);
      } else {
        entering_.push_back(entry.code >> 1);
      }
    }
  }
  for (const std::int32_t v : moved_) side_[v] ^= 1;
  if (!subtree) fixed_side_ ^= 1;
  for (const std::int32_t arc : entering_) enter_cut(arc);
  moves_ += static_cast<std::int64_t>(moved_.size());
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

// Moves the cut from an open arc to the nearest blocked arc on its tree path; returns whether there
// is one.
bool ParametricCut::move_cut(std::int32_t code) {
  const std::int32_t inner = from(code);
  const std::int32_t outer = to(code);
  std::int32_t u = inner;
  std::int32_t v = outer;
  while (true) {
    const TreeNode& towards_sink = tree_[v];
    const TreeNode& towards_source = tree_[u];
    if (towards_sink.code != kRoot) {
      if (!open_[towards_sink.code]) {
        change_sides(v, outer, code ^ 1, inner);
        return true;
      }
      v = towards_sink.parent;
    } else if (towards_source.code == kRoot) {
      return false;
    }
    if (towards_source.code != kRoot) {
      if (!open_[towards_source.code ^ 1]) {
        change_sides(u, inner, code, outer);
        return true;
      }
      u = towards_source.parent;
    }
  }
}

// Closes the cut. Returns false when the flow has no bound, that is, when the horizon cannot shrink
// any more.
bool ParametricCut::settle() {
  for (std::size_t i = 0; i < pending_.size(); ++i) {
    if (place_[pending_[i]] < 0) continue;
    const std::int32_t code = outward(pending_[i]);
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

State ParametricCut::state() const {
  State state;
  state.value = value_;
  state.flow.reserve(flow_.size());
  for (const ArcFlow& arc : flow_) state.flow.push_back(arc.flow);
  state.potential.assign(tree_.size(), 0);
  std::vector<std::uint8_t> seen(tree_.size(), 0);
  std::vector<std::int32_t> queue{network_.source};
  seen[network_.source] = 1;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    for (const auto& entry : incidence_.of(queue[i])) {
      if (seen[entry.node]) continue;
      seen[entry.node] = 1;
      queue.push_back(entry.node);
      const std::int32_t index = entry.code >> 1;
      const std::int64_t difference = present_length(index) - network_.arcs[index].shift;
      state.potential[entry.node] =
          state.potential[queue[i]] + ((entry.code & 1) ? -difference : difference);
    }
  }
  return state;
}

}  // namespace harpe::flow
