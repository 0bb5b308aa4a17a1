#pragma once
/// \file
/// Dependencies of every instruction of a schedule, written from the table in docs/how-it-works.md.
/// An oracle for schedule/rules.h in tests, which shares no code with it.

#include <array>
#include <map>
#include <vector>

#include "harpe/plan/schedule/schedule.h"
#include "harpe/plan/schedule/transfers.h"

namespace harpe::plan {

/// Nodes are the instructions of a schedule, stage after stage in list order, then its blocking
/// transfers. Refers to the schedule and the transfers, which must be valid.
class WorkGraph {
 public:
  /// The node may start `lag` after `from` has ended.
  struct Edge {
    int from = 0;
    Seconds lag;
  };

  WorkGraph(const Schedule& schedule, const Transfers& transfers);

  int nodes() const { return static_cast<int>(into_.size()); }
  int instructions() const { return instructions_; }
  int node(int stage, int position) const { return first_[stage] + position; }
  /// Returns the time of each blocking transfer, in the order of their nodes.
  const std::vector<Seconds>& transfer_times() const { return transfer_times_; }
  const std::vector<Edge>& into(int node) const { return into_[node]; }
  /// Returns all nodes, each after the nodes that it waits for. Lacks nodes that wait in a circle.
  const std::vector<int>& order() const { return order_; }

 private:
  enum class Product : unsigned char { kActivation, kGradient, kRecomputed, kSent, kReceived };
  struct BlockingTransfer {
    int giver = 0;  ///< the send if there is one, else the computation
    int taker = 0;  ///< the recv if there is one, else the computation
    bool by_send = false;
  };

  void add_products(int node, const Instruction& i);
  void give(int node, Product product, int part, int micro_batch, bool gradient = false);
  void add_waits(int node, const Instruction& i);
  void add_forward_waits(int node, int part, int micro_batch);
  void add_backward_waits(int node, int part, int micro_batch);
  void add_message_waits(int node, const Instruction& i);
  void wait(int node, int from, Seconds lag = {}) { into_[node].push_back({from, lag}); }
  void wait_for(int node, Product product, int part, int micro_batch, bool gradient = false);
  void wait_for_data(int node, Product product, int from, int to, int micro_batch);
  void add_blocking_transfers();
  bool starts_a_list(int node) const;
  void sort();

  const Schedule& schedule_;
  const Transfers& transfers_;
  int instructions_ = 0;
  std::vector<int> first_;  // first node of each stage
  std::vector<std::vector<Edge>> into_;
  std::vector<Seconds> transfer_times_;
  std::vector<BlockingTransfer> blocking_;
  std::map<std::array<int, 4>, int> given_by_;  // by product, part, micro-batch and direction
  std::vector<int> order_;
};

}  // namespace harpe::plan
