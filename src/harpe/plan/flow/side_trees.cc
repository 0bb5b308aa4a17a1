#include "harpe/plan/flow/side_trees.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace harpe::plan::flow {
namespace {

Division with_cluster_size(Division division, std::int32_t nodes) {
  if (division.cluster_size == 0) {
    const auto root = static_cast<std::size_t>(std::sqrt(static_cast<double>(nodes)));
    division.cluster_size = std::clamp<std::size_t>(root, 128, 512);
  }
  return division;
}

}  // namespace

SideTrees::SideTrees(const Network& network, const Division& division)
    : network_(network),
      division_(with_cluster_size(division, network.nodes)),
      incidence_(network),
      up_(network.nodes),
      links_(network.nodes),
      cluster_(network.nodes, 0),
      place_(network.nodes, 0),
      leaving_place_(2 * network.arcs.size(), -1),
      piece_{List(network.nodes), std::vector<std::uint8_t>(network.nodes, 0)},
      moved_(network.nodes),
      others_(network.nodes),
      rest_(network.nodes),
      changed_(network.arcs.size()) {}

void SideTrees::clear() {
  std::fill(up_.begin(), up_.end(), Up{});
  std::fill(links_.begin(), links_.end(), Links{});
}

void SideTrees::hang(std::int32_t v, std::int32_t code, std::int32_t parent) {
  up_[v] = {code, parent};
  const std::int32_t next = links_[parent].first_child;
  links_[v].previous = -1;
  links_[v].next = next;
  if (next >= 0) links_[next].previous = v;
  links_[parent].first_child = v;
}

void SideTrees::unhang(std::int32_t v) {
  const auto [first_child, next, previous] = links_[v];
  (previous >= 0 ? links_[previous].next : links_[up_[v].parent].first_child) = next;
  if (next >= 0) links_[next].previous = previous;
}

void SideTrees::set_sides() {
  divided_ = false;
  window_ = {};
  clusters_.clear();
  side_ = {fixed_side_ ^ 1, fixed_side_};
  std::fill(cluster_.begin(), cluster_.end(), 0);
  piece_.nodes.clear();
  piece_.nodes.push_back(network_.source);
  for (std::size_t i = 0; i < piece_.nodes.size(); ++i) {
    cluster_[piece_.nodes[i]] = 1;
    add_children(piece_.nodes, i);
  }
}

void SideTrees::add_children(List& walk, std::size_t i) const {
  for (std::int32_t c = links_[walk[i]].first_child; c >= 0; c = links_[c].next) walk.push_back(c);
}

// Divides the trees into clusters.
void SideTrees::divide() {
  divided_ = true;
  List& order = others_;
  order.clear();
  order.push_back(network_.source);
  order.push_back(network_.sink);
  for (std::size_t i = 0; i < order.size(); ++i) add_children(order, i);
  // From the leaves up, a node absorbs its children's pieces while they fit.
  std::vector<std::uint32_t> size(up_.size(), 1);
  std::vector<std::uint8_t> top(up_.size(), 0);
  for (std::size_t i = order.size(); i-- > 2;) {
    const std::int32_t v = order[i];
    const std::int32_t parent = up_[v].parent;
    if (size[parent] + size[v] <= division_.cluster_size) {
      size[parent] += size[v];
    } else {
      top[v] = 1;
    }
  }
  clusters_.clear();
  cluster_links_.clear();
  side_.clear();
  unused_.clear();
  top[network_.source] = top[network_.sink] = 1;
  for (const std::int32_t v : order) {
    if (top[v]) {
      clusters_.emplace_back();
      cluster_links_.emplace_back();
      cluster_[v] = static_cast<std::int32_t>(clusters_.size()) - 1;
      clusters_.back().top = v;
      const bool is_root = v == network_.source || v == network_.sink;
      if (!is_root) link_cluster(cluster_[v], cluster_[up_[v].parent]);
      side_.push_back(is_root ? fixed_side_ ^ (v == network_.source ? 0U : 1U)
                              : side_[cluster_[up_[v].parent]]);
    } else {
      cluster_[v] = cluster_[up_[v].parent];
    }
    place_[v] = static_cast<std::int32_t>(clusters_[cluster_[v]].nodes.size());
    clusters_[cluster_[v]].nodes.push_back(v);
  }
  std::fill(leaving_place_.begin(), leaving_place_.end(), -1);
  for (const std::int32_t v : order) {
    for (const Incidence::Entry& entry : incidence_.of(v)) {
      if (cluster_[entry.node] != cluster_[v]) add_leaving(cluster_[v], entry);
    }
  }
  mark_of_.assign(clusters_.size(), 0);
  clusters_at_division_ = clusters_.size();
}

void SideTrees::link_cluster(std::int32_t cluster, std::int32_t parent) {
  Links& links = cluster_links_[cluster];
  links.previous = -1;
  links.next = cluster_links_[parent].first_child;
  if (links.next >= 0) cluster_links_[links.next].previous = cluster;
  cluster_links_[parent].first_child = cluster;
  clusters_[cluster].parent = parent;
}

void SideTrees::unlink_cluster(std::int32_t cluster) {
  std::int32_t& parent = clusters_[cluster].parent;
  if (parent < 0) return;
  const auto [first_child, next, previous] = cluster_links_[cluster];
  (previous >= 0 ? cluster_links_[previous].next : cluster_links_[parent].first_child) = next;
  if (next >= 0) cluster_links_[next].previous = previous;
  parent = -1;
}

// Moves from cluster `from` to cluster `to` the child clusters whose parent node is now in `to`.
void SideTrees::move_children(std::int32_t from, std::int32_t to) {
  for (std::int32_t c = cluster_links_[from].first_child; c >= 0;) {
    const std::int32_t next = cluster_links_[c].next;
    if (cluster_[up_[clusters_[c].top].parent] == to) {
      unlink_cluster(c);
      link_cluster(c, to);
    }
    c = next;
  }
}

void SideTrees::add_leaving(std::int32_t cluster, const Incidence::Entry& entry) {
  auto& leaving = clusters_[cluster].leaving;
  leaving_place_[entry.code] = static_cast<std::int32_t>(leaving.size());
  leaving.push_back(entry);
}

void SideTrees::remove_leaving(std::int32_t cluster, std::int32_t code) {
  auto& leaving = clusters_[cluster].leaving;
  const std::int32_t place = leaving_place_[code];
  leaving[place] = leaving.back();
  leaving_place_[leaving[place].code] = place;
  leaving.pop_back();
  leaving_place_[code] = -1;
}

std::int32_t SideTrees::new_cluster() {
  if (unused_.empty()) {
    clusters_.emplace_back();
    cluster_links_.emplace_back();
    side_.push_back(0);
    mark_of_.push_back(0);
    return static_cast<std::int32_t>(clusters_.size()) - 1;
  }
  const std::int32_t cluster = unused_.back();
  unused_.pop_back();
  mark_of_[cluster] = 0;
  return cluster;
}

// Moves nodes of one cluster to another.
void SideTrees::move_nodes(std::span<const std::int32_t> nodes, std::int32_t to) {
  const std::int32_t from = cluster_[nodes.front()];
  auto& left = clusters_[from].nodes;
  for (const std::int32_t v : nodes) {
    left[place_[v]] = left.back();
    place_[left.back()] = place_[v];
    left.pop_back();
    cluster_[v] = to;
    place_[v] = static_cast<std::int32_t>(clusters_[to].nodes.size());
    clusters_[to].nodes.push_back(v);
  }
  for (const std::int32_t v : nodes) {
    for (const Incidence::Entry& entry : incidence_.of(v)) {
      const std::int32_t other = cluster_[entry.node];
      if (other == from) {
        add_leaving(to, entry);
        add_leaving(from, {entry.code ^ 1, v});
      } else if (leaving_place_[entry.code] >= 0) {
        remove_leaving(from, entry.code);
        if (other == to) {
          remove_leaving(to, entry.code ^ 1);
        } else {
          add_leaving(to, entry);
        }
      }
    }
  }
  if (left.empty()) {
    unlink_cluster(from);
    unused_.push_back(from);
  }
}

// Collects into `piece_` the nodes of the subtree, which must be unhung, or all others if fewer.
void SideTrees::collect_smaller(std::int32_t subtree_root) {
  constexpr std::size_t kLead = 32;  // the subtree usually is the smaller one
  piece_.nodes.clear();
  piece_.nodes.push_back(subtree_root);
  others_.clear();
  others_.push_back(network_.source);
  others_.push_back(network_.sink);
  moves_others_ = false;
  for (std::size_t i = 0; i < piece_.nodes.size(); ++i) {
    add_children(piece_.nodes, i);
    if (i < kLead) continue;
    if (i - kLead == others_.size()) {
      std::swap(piece_.nodes, others_);
      moves_others_ = true;
      return;
    }
    add_children(others_, i - kLead);
  }
}

// Collects into `piece_` the nodes of the subtree in the cluster of its root. Returns true if these
// are the whole subtree.
bool SideTrees::collect_piece(std::int32_t subtree_root) {
  const std::int32_t cluster = cluster_[subtree_root];
  bool whole = true;
  piece_.nodes.clear();
  piece_.nodes.push_back(subtree_root);
  for (std::size_t i = 0; i < piece_.nodes.size(); ++i) {
    for (std::int32_t c = links_[piece_.nodes[i]].first_child; c >= 0; c = links_[c].next) {
      if (cluster_[c] == cluster) {
        piece_.nodes.push_back(c);
      } else {
        whole = false;
      }
    }
  }
  return whole;
}

// Makes the piece a cluster without a parent. Returns the cluster.
std::int32_t SideTrees::split(std::int32_t subtree_root) {
  const std::int32_t old = cluster_[subtree_root];
  if (piece_.nodes.size() == clusters_[old].nodes.size()) {
    unlink_cluster(old);
    return old;
  }
  const std::int32_t fresh = new_cluster();
  side_[fresh] = side_[old];
  if (2 * piece_.nodes.size() <= clusters_[old].nodes.size()) {
    move_nodes(piece_.nodes.span(), fresh);
    clusters_[fresh].top = subtree_root;
    move_children(old, fresh);
    return fresh;
  }
  for (const std::int32_t v : piece_.nodes) piece_.contains[v] = 1;
  rest_.clear();
  for (const std::int32_t v : clusters_[old].nodes) {
    if (!piece_.contains[v]) rest_.push_back(v);
  }
  for (const std::int32_t v : piece_.nodes) piece_.contains[v] = 0;
  move_nodes(rest_.span(), fresh);
  const std::int32_t parent = clusters_[old].parent;
  unlink_cluster(old);
  if (parent >= 0) link_cluster(fresh, parent);
  clusters_[fresh].top = std::exchange(clusters_[old].top, subtree_root);
  move_children(old, fresh);
  return old;
}

void SideTrees::start(List& walk, std::int32_t cluster, std::uint32_t mark) {
  mark_of_[cluster] = mark;
  walk.push_back(cluster);
}

// Appends the child clusters of a cluster.
void SideTrees::visit(List& walk, std::int32_t cluster, std::uint32_t mark) {
  for (std::int32_t c = cluster_links_[cluster].first_child; c >= 0; c = cluster_links_[c].next)
    start(walk, c, mark);
}

// Collects into `moved_`, all with one mark, the clusters of the subtree below `first`, which must
// have no parent, or all other clusters if they are fewer.
void SideTrees::collect_clusters(std::int32_t first) {
  constexpr std::size_t kLead = 8;  // the subtree usually is the smaller one
  mark_ += 2;
  moved_.clear();
  others_.clear();
  start(moved_, first, mark_);
  start(others_, cluster_[network_.source], mark_ + 1);
  start(others_, cluster_[network_.sink], mark_ + 1);
  moves_others_ = false;
  for (std::size_t i = 0; i < moved_.size(); ++i) {
    visit(moved_, moved_[i], mark_);
    if (i < kLead) continue;
    if (i - kLead == others_.size()) {
      std::swap(moved_, others_);
      moves_others_ = true;
      return;
    }
    visit(others_, others_[i - kLead], mark_ + 1);
  }
}

// Adds the arcs with one end in the piece to `changed_`.
void SideTrees::collect_changed() {
  for (const std::int32_t v : piece_.nodes) piece_.contains[v] = 1;
  for (const std::int32_t v : piece_.nodes) {
    for (const Incidence::Entry& entry : incidence_.of(v)) {
      if (!piece_.contains[entry.node]) changed_.push_back(entry.code >> 1);
    }
  }
  for (const std::int32_t v : piece_.nodes) piece_.contains[v] = 0;
}

std::span<const std::int32_t> SideTrees::detach(std::int32_t subtree_root, std::int32_t parent) {
  changed_.clear();
  unhang(subtree_root);
  if (!divided_) {
    collect_smaller(subtree_root);
    collect_changed();
    return changed_.span();
  }
  piece_.is_alone =
      collect_piece(subtree_root) &&
      piece_.nodes.size() + clusters_[cluster_[parent]].nodes.size() <= 2 * division_.cluster_size;
  if (piece_.is_alone) {
    collect_changed();
    return changed_.span();
  }
  collect_clusters(split(subtree_root));
  const std::uint32_t mark = mark_of_[moved_[0]];
  for (const std::int32_t cluster : moved_) {
    for (const Incidence::Entry& entry : clusters_[cluster].leaving) {
      if (mark_of_[cluster_[entry.node]] != mark) changed_.push_back(entry.code >> 1);
    }
  }
  return changed_.span();
}

void SideTrees::attach(std::int32_t subtree_root, std::int32_t new_root, std::int32_t code,
                       std::int32_t parent) {
  const std::int32_t below = parent;
  const bool moves_clusters = divided_ && !piece_.is_alone;
  for (std::int32_t v = new_root;;) {
    const auto [up_code, up_parent] = up_[v];
    if (v != subtree_root) unhang(v);
    hang(v, code, parent);
    if (moves_clusters && cluster_[v] != cluster_[parent]) {
      unlink_cluster(cluster_[v]);
      link_cluster(cluster_[v], cluster_[parent]);
      clusters_[cluster_[v]].top = v;
    }
    if (v == subtree_root) break;
    code = up_code ^ 1;
    parent = v;
    v = up_parent;
  }
  if (!divided_) {
    for (const std::int32_t v : piece_.nodes) cluster_[v] ^= 1;
    if (moves_others_) fixed_side_ ^= 1;
    window_.nodes += static_cast<std::int64_t>(piece_.nodes.size());
    if (++window_.changes == division_.window) {
      if (window_.nodes > division_.large * division_.window) divide();
      window_ = {};
    }
  } else if (piece_.is_alone) {
    move_nodes(piece_.nodes.span(), cluster_[below]);
  } else {
    for (const std::int32_t cluster : moved_) side_[cluster] ^= 1;
    if (moves_others_) fixed_side_ ^= 1;
    if (clusters_.size() > 8 * clusters_at_division_ + 16) divide();
  }
}

bool SideTrees::is_smaller(std::int32_t a, std::int32_t b) {
  constexpr std::size_t kLarge = 512;
  moved_.clear();
  others_.clear();
  moved_.push_back(a);
  others_.push_back(b);
  for (std::size_t i = 0; i < kLarge; ++i) {
    if (i == moved_.size()) return true;
    if (i == others_.size()) return false;
    add_children(moved_, i);
    add_children(others_, i);
  }
  return true;
}

}  // namespace harpe::plan::flow
