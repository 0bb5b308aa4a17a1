#pragma once
/// \file
/// The two spanning trees of a cut, rooted at source and sink, and the side of each node.
///
/// A subtree changes sides node by node if subtrees are small on average. In large networks a
/// subtree may contain half of all nodes. The trees are then divided into clusters: connected
/// pieces of one tree with a few hundred nodes, each with a list of the arcs that leave it. A
/// subtree then changes sides cluster by cluster, and only the arcs between clusters are visited
/// (the division follows Frederickson 1985). The parent of a cluster is the cluster of its topmost
/// node's parent, so that the clusters of a subtree are found without visiting nodes or arcs. If a
/// subtree begins inside a cluster, the cluster is split. A small subtree joins the cluster of its
/// new parent. After many splits the trees are divided again.

#include <cstdint>
#include <span>
#include <vector>

#include "harpe/plan/flow/network.h"

namespace harpe::plan::flow {

/// Parameters of the division of the trees into clusters.
struct Division {
  /// Maximum number of nodes in a cluster, twice that after joins; 0 for the square root of the
  /// number of all nodes, from 128 to 512.
  std::size_t cluster_size = 0;
  std::int64_t window = 1024;  ///< number of changes of sides between decisions to divide
  std::int64_t large = 80;     ///< average number of moved nodes above which the trees are divided
};

class SideTrees {
 public:
  static constexpr std::int32_t kRoot = -1;

  /// Starts with the two roots. The other nodes belong to no tree yet.
  explicit SideTrees(const Network& network, const Division& division = {});

  /// Removes all nodes but the two roots from the trees.
  void clear();
  /// Adds a node that belongs to no tree as a child of `parent`, by arc `code`.
  void hang(std::int32_t v, std::int32_t code, std::int32_t parent);
  /// Makes each tree a side. Requires that every node belongs to a tree.
  void set_sides();

  std::span<const Incidence::Entry> incident(std::int32_t v) const { return incidence_.of(v); }
  bool is_root(std::int32_t v) const { return up_[v].code == kRoot; }
  /// Returns the code of the arc to the parent.
  std::int32_t code(std::int32_t v) const { return up_[v].code; }
  std::int32_t parent(std::int32_t v) const { return up_[v].parent; }
  /// Returns true if a node is in the source's tree. Requires `set_sides`.
  bool fixed(std::int32_t v) const { return side_[cluster_[v]] == fixed_side_; }

  /// Returns true if the subtree of `a` has at most as many nodes as the subtree of `b`. Neither
  /// may contain the other. Always true if both have more than about 512 nodes.
  bool is_smaller(std::int32_t a, std::int32_t b);

  /// Prepares to move the subtree of `subtree_root` to the other tree, below `parent`. Returns the
  /// arcs that enter or leave the cut. O(moved clusters + arcs between clusters). If the rest of
  /// the trees has fewer clusters than the subtree, the rest changes sides instead.
  std::span<const std::int32_t> detach(std::int32_t subtree_root, std::int32_t parent);
  /// Moves the subtree: makes its node `new_root` a child of `parent` by arc `code`.
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
  /// A cluster of nodes. Before the division, the two trees are clusters 0 and 1 without lists.
  struct Cluster {
    std::vector<std::int32_t> nodes;
    std::vector<Incidence::Entry> leaving;  ///< arcs from this cluster to others
    std::int32_t top = -1;                  ///< the node whose parent is in another cluster
    std::int32_t parent = -1;               ///< cluster of that parent; -1 for a root or detached
  };

  /// Number of changes of sides, and of nodes moved by them, since the last decision to divide.
  struct Window {
    std::int64_t changes = 0, nodes = 0;
  };

  /// A list with memory for all nodes or arcs, so that `push_back` is a single store.
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

  /// The nodes that `detach` collects for `attach`.
  struct Piece {
    /// The nodes of the subtree, or all others if they are fewer; with clusters, the nodes of the
    /// subtree in the cluster of its root.
    List nodes;
    std::vector<std::uint8_t> contains;  ///< per node, scratch: 1 if in `nodes`
    bool is_alone = false;               ///< true if no other nodes move
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
  std::vector<std::int32_t> cluster_;        // cluster of each node
  std::vector<std::int32_t> place_;          // index of each node in its cluster
  std::vector<std::int32_t> leaving_place_;  // index of each code in `Cluster::leaving`, or -1
  std::vector<Cluster> clusters_;
  std::vector<Links> cluster_links_;           // child clusters of each cluster
  std::vector<std::uint32_t> side_, mark_of_;  // per cluster
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
