#pragma once
/// \file
/// The two spanning trees of a cut, rooted at source and sink, and which side each node is on.
///
/// A subtree changes sides node by node as long as subtrees are small on average. In large networks
/// they may have half of all nodes; then the trees are divided into clusters: connected pieces of
/// one tree with some hundred nodes, each with a list of the arcs that leave it. A subtree now
/// changes sides cluster by cluster, and only the arcs between clusters are looked at (trees are
/// divided in this way by Frederickson 1985). Clusters hang from each other as their topmost nodes
/// do, so that those of a subtree are found without a look at nodes or arcs. Where a subtree begins
/// inside a cluster, the cluster is split; a small subtree joins the cluster it is hung to; and
/// after many splits the division is made anew.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/plan/flow/network.h"

namespace harpe::plan::flow {

/// When to divide the trees, and how finely.
struct Division {
  /// Most nodes of a cluster, twice as many after joins; 0: the root of all, within limits.
  std::size_t cluster_size = 0;
  std::int64_t window = 1024;  ///< changes of sides after which to decide
  std::int64_t large = 80;     ///< average nodes that change sides at once
};

class SideTrees {
 public:
  static constexpr std::int32_t kRoot = -1;

  /// Both roots alone. The other nodes belong to no tree yet.
  explicit SideTrees(const Network& network, const Division& division = {});

  /// Back to both roots alone.
  void clear();
  /// Hangs a node that belongs to no tree below one that does.
  void hang(std::int32_t v, std::int32_t code, std::int32_t parent);
  /// Makes each tree a side. Expects every node to belong to one.
  void set_sides();

  std::span<const Incidence::Entry> incident(std::int32_t v) const { return incidence_.of(v); }
  bool is_root(std::int32_t v) const { return up_[v].code == kRoot; }
  /// Code of the arc to the parent.
  std::int32_t code(std::int32_t v) const { return up_[v].code; }
  std::int32_t parent(std::int32_t v) const { return up_[v].parent; }
  /// Whether a node is in the source's tree. Expects sides.
  bool fixed(std::int32_t v) const { return side_[cluster_[v]] == fixed_side_; }

  /// Whether the subtree of `a` has at most as many nodes as that of `b`, which it is not part of;
  /// a guess when both are large.
  bool is_smaller(std::int32_t a, std::int32_t b);

  /// Prepares to move the subtree of `subtree_root` to the other tree, below `parent`. Returns the
  /// arcs that enter or leave the cut. O(clusters moved and arcs between clusters), where the rest
  /// of the trees is moved instead if it has fewer.
  std::span<const std::int32_t> detach(std::int32_t subtree_root, std::int32_t parent);
  /// Moves the subtree: hung by arc `code` at `new_root`, one of its nodes.
  void attach(std::int32_t subtree_root, std::int32_t new_root, std::int32_t code,
              std::int32_t parent);

 private:
  struct Up {
    std::int32_t code = kRoot;
    std::int32_t parent = -1;
  };
  /// Children of one node form a doubly linked list.
  struct Links {
    std::int32_t first_child = -1;
    std::int32_t next = -1;
    std::int32_t previous = -1;
  };
  /// Undivided, the trees are clusters 0 and 1 without lists.
  struct Cluster {
    std::vector<std::int32_t> nodes;
    std::vector<Incidence::Entry> leaving;  ///< arcs to other clusters, from here
    std::int32_t top = -1;                  ///< the node whose parent is in another cluster
    std::int32_t parent = -1;               ///< that cluster; none for a root's or a detached one
  };

  /// Changes of sides since the last decision whether to divide, and the nodes they moved.
  struct Window {
    std::int64_t changes = 0, nodes = 0;
  };

  /// Room for all nodes or arcs, so that adding one is a store.
  class List {
   public:
    explicit List(std::size_t room) : items_(room) {}
    void clear() { size_ = 0; }
    void push_back(std::int32_t item) { items_[size_++] = item; }
    std::size_t size() const { return size_; }
    std::int32_t operator[](std::size_t i) const { return items_[i]; }
    const std::int32_t* begin() const { return items_.data(); }
    const std::int32_t* end() const { return items_.data() + size_; }
    std::span<const std::int32_t> span() const { return {items_.data(), size_}; }

   private:
    std::vector<std::int32_t> items_;
    std::size_t size_ = 0;
  };

  /// The nodes that `detach` leaves for `attach`.
  struct Piece {
    List nodes;                          ///< of the subtree, all or in its root's cluster
    std::vector<std::uint8_t> contains;  ///< of each node
    bool is_alone = false;               ///< whether it is all that moves
  };

  void unhang(std::int32_t v);
  void add_children(List& walk, std::size_t i) const;
  void collect_smaller(std::int32_t subtree_root);
  void collect_changed();
  void divide();
  std::int32_t new_cluster();
  void move_nodes(std::span<const std::int32_t> nodes, std::int32_t to);
  void add_leaving(std::int32_t cluster, const Incidence::Entry& entry);
  void remove_leaving(std::int32_t cluster, std::int32_t code);
  bool collect_piece(std::int32_t subtree_root);
  std::int32_t split(std::int32_t subtree_root);
  void link_cluster(std::int32_t cluster, std::int32_t parent);
  void unlink_cluster(std::int32_t cluster);
  void move_children(std::int32_t from, std::int32_t to);
  void start(List& walk, std::int32_t cluster, std::uint32_t mark);
  void visit(List& walk, std::int32_t cluster, std::uint32_t mark);
  void collect_clusters(std::int32_t first);

  const Network& network_;
  Division division_;
  Incidence incidence_;
  std::vector<Up> up_;
  std::vector<Links> links_;
  std::vector<std::int32_t> cluster_;        // of each node
  std::vector<std::int32_t> place_;          // of each node in its cluster
  std::vector<std::int32_t> leaving_place_;  // of each code in its cluster's list, or -1
  std::vector<Cluster> clusters_;
  std::vector<Links> cluster_links_;           // of each cluster: those that hang from it
  std::vector<std::uint32_t> side_, mark_of_;  // of each cluster
  std::vector<std::int32_t> unused_;           // clusters without nodes
  bool divided_ = false;
  std::size_t clusters_at_division_ = 0;
  Window window_;
  std::uint32_t fixed_side_ = 1;
  std::uint32_t mark_ = 0;
  Piece piece_;
  // Scratch.
  List moved_, others_;  // clusters, or nodes
  List rest_;            // nodes
  bool moves_others_ = false;
  List changed_;  // arcs
};

}  // namespace harpe::plan::flow
