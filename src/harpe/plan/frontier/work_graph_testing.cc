#include "harpe/plan/frontier/work_graph_testing.h"

#include <algorithm>

namespace harpe::plan {

WorkGraph::WorkGraph(const Schedule& schedule, const Transfers& transfers)
    : schedule_(schedule), transfers_(transfers) {
  for (const auto& list : schedule.lists) {
    first_.push_back(instructions_);
    instructions_ += static_cast<int>(list.size());
  }
  into_.resize(instructions_);
  const auto each = [&](const auto& visit) {
    int node = 0;
    for (const auto& list : schedule.lists) {
      for (const Instruction& i : list) visit(node++, i);
    }
  };
  each([&](int node, const Instruction& i) { add_products(node, i); });
  each([&](int node, const Instruction& i) {
    if (!starts_a_list(node)) wait(node, node - 1);
    add_waits(node, i);
  });
  add_blocking_transfers();
  sort();
}

bool WorkGraph::starts_a_list(int node) const {
  return std::ranges::find(first_, node) != first_.end();
}

void WorkGraph::give(int node, Product product, int part, int micro_batch, bool gradient) {
  given_by_[{static_cast<int>(product), part, micro_batch, gradient ? 1 : 0}] = node;
}

void WorkGraph::add_products(int node, const Instruction& i) {
  switch (i.kind) {
    case InstructionKind::kForward:
      return give(node, Product::kActivation, i.part, i.micro_batch);
    case InstructionKind::kForwardBackward:
      give(node, Product::kActivation, i.part, i.micro_batch);
      return give(node, Product::kGradient, i.backward_part, i.backward_micro_batch);
    case InstructionKind::kBackward:
    case InstructionKind::kRecomputeBackward:
      return give(node, Product::kGradient, i.part, i.micro_batch);
    case InstructionKind::kRecompute:
      return give(node, Product::kRecomputed, i.part, i.micro_batch);
    case InstructionKind::kSend:
      return give(node, Product::kSent, i.part, i.micro_batch, i.gradient);
    case InstructionKind::kRecv:
      return give(node, Product::kReceived, i.part, i.micro_batch, i.gradient);
    default:
      return;
  }
}

void WorkGraph::add_waits(int node, const Instruction& i) {
  switch (i.kind) {
    case InstructionKind::kForward:
      return add_forward_waits(node, i.part, i.micro_batch);
    case InstructionKind::kForwardBackward:
      add_forward_waits(node, i.part, i.micro_batch);
      return add_backward_waits(node, i.backward_part, i.backward_micro_batch);
    case InstructionKind::kBackward:
    case InstructionKind::kRecomputeBackward:
      return add_backward_waits(node, i.part, i.micro_batch);
    case InstructionKind::kRecompute:
      return wait_for(node, Product::kActivation, i.part, i.micro_batch);
    case InstructionKind::kWeight:
      return wait_for(node, Product::kGradient, i.part, i.micro_batch);
    default:
      return add_message_waits(node, i);
  }
}

void WorkGraph::add_message_waits(int node, const Instruction& i) {
  if (i.kind == InstructionKind::kSend) {
    wait_for(node, i.gradient ? Product::kGradient : Product::kActivation, i.part, i.micro_batch);
  } else if (i.kind == InstructionKind::kRecv) {
    wait_for(node, Product::kSent, i.part + (i.gradient ? 1 : -1), i.micro_batch, i.gradient);
  }
}

void WorkGraph::add_forward_waits(int node, int part, int micro_batch) {
  const bool is_first = part % (schedule_.parts() / schedule_.copies) == 0;
  if (!is_first) wait_for_data(node, Product::kActivation, part - 1, part, micro_batch);
  wait_for(node, Product::kReceived, part, micro_batch);
}

void WorkGraph::add_backward_waits(int node, int part, int micro_batch) {
  const bool is_last = (part + 1) % (schedule_.parts() / schedule_.copies) == 0;
  if (!is_last) wait_for_data(node, Product::kGradient, part + 1, part, micro_batch);
  wait_for(node, Product::kActivation, part, micro_batch);
  wait_for(node, Product::kRecomputed, part, micro_batch);
  wait_for(node, Product::kReceived, part, micro_batch, true);
}

void WorkGraph::wait_for(int node, Product product, int part, int micro_batch, bool gradient) {
  const auto given =
      given_by_.find({static_cast<int>(product), part, micro_batch, gradient ? 1 : 0});
  if (given != given_by_.end()) wait(node, given->second);
}

void WorkGraph::wait_for_data(int node, Product product, int from, int to, int micro_batch) {
  const int giver = given_by_.at({static_cast<int>(product), from, micro_batch, 0});
  const auto& times = product == Product::kGradient ? transfers_.backward : transfers_.forward;
  const bool crosses = schedule_.placement[from] != schedule_.placement[to];
  if (!crosses || times.empty()) return wait(node, giver);
  const Seconds time = times[std::min(from, to)];
  if (transfers_.mode == Transfers::Mode::kOverlapped) return wait(node, giver, time);
  wait(node, giver);
  const int direction = product == Product::kGradient ? 1 : 0;
  const auto cell = [&](Product kind, int part) {
    const auto given = given_by_.find({static_cast<int>(kind), part, micro_batch, direction});
    return given == given_by_.end() ? -1 : given->second;
  };
  const int send = cell(Product::kSent, from);
  const int recv = cell(Product::kReceived, to);
  blocking_.push_back({send < 0 ? giver : send, recv < 0 ? node : recv, send >= 0});
  transfer_times_.push_back(time);
}

// A blocking transfer begins when the sender has computed its data and the receiver has ended the
// instruction before. It ends before the sender's next instruction and the receiver's instruction
// begin. A blocking send ends with its transfer.
void WorkGraph::add_blocking_transfers() {
  std::map<int, int> transfer_of_send;
  for (const auto& [giver, taker, by_send] : blocking_) {
    if (by_send) transfer_of_send[giver] = nodes();
    into_.emplace_back();
  }
  int transfer = instructions_ - 1;
  for (const auto& [giver, taker, by_send] : blocking_) {
    ++transfer;
    wait(transfer, giver);
    if (!starts_a_list(taker)) {
      wait(transfer, taker - 1);
      const auto before = transfer_of_send.find(taker - 1);
      if (before != transfer_of_send.end()) wait(transfer, before->second);
    }
    wait(taker, transfer);
    const int next = giver + 1;
    if (next < instructions_ && !starts_a_list(next)) wait(next, transfer);
  }
}

void WorkGraph::sort() {
  std::vector<bool> is_placed(into_.size());
  for (bool found = true; found;) {
    found = false;
    for (int node = 0; node < nodes(); ++node) {
      const auto placed = [&](const Edge& edge) { return is_placed[edge.from]; };
      if (is_placed[node] || !std::ranges::all_of(into_[node], placed)) continue;
      is_placed[node] = true;
      order_.push_back(node);
      found = true;
    }
  }
}

}  // namespace harpe::plan
