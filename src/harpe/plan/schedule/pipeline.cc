#include "harpe/plan/schedule/pipeline.h"

#include <algorithm>
#include <queue>
#include <tuple>

#include "harpe/plan/schedule/circle_text.h"

namespace harpe {
namespace {

// Nodes of every (part, micro-batch) in one role; -1 if there is none.
class RoleTable {
 public:
  RoleTable(int parts, int micro_batches)
      : micro_batches_(micro_batches),
        nodes_(static_cast<std::size_t>(parts) * static_cast<std::size_t>(micro_batches), -1) {}
  int& at(int part, int micro_batch) {
    return nodes_[static_cast<std::size_t>(part) * static_cast<std::size_t>(micro_batches_) +
                  static_cast<std::size_t>(micro_batch)];
  }

 private:
  int micro_batches_;
  std::vector<int> nodes_;
};

bool is_backward(InstructionKind kind) {
  return kind == InstructionKind::kBackward || kind == InstructionKind::kRecomputeBackward;
}

std::string describe(const PipelineNode& node) {
  const std::string stage =
      node.stage < 0 ? "the transfer of" : "stage " + std::to_string(node.stage);
  return stage + " " + plan::instruction_text(node.instruction);
}

// Builds the dependencies of a schedule.
class Builder {
 public:
  Builder(const Schedule& schedule, const Transfers& transfers, const Split& split,
          std::vector<PipelineNode>& nodes, std::vector<Dependency>& dependencies)
      : schedule_(schedule),
        transfers_(transfers),
        split_(split),
        nodes_(nodes),
        dependencies_(dependencies),
        forward_(schedule.parts(), schedule.micro_batches),
        backward_(schedule.parts(), schedule.micro_batches),
        weight_(schedule.parts(), schedule.micro_batches),
        recompute_(schedule.parts(), schedule.micro_batches),
        send_(schedule.parts(), 2 * schedule.micro_batches),
        recv_(schedule.parts(), 2 * schedule.micro_batches) {}

  void build() {
    add_nodes();
    sent_by_.assign(nodes_.size(), -1);
    const int instructions = static_cast<int>(nodes_.size());
    for (int i = 0; i + 1 < instructions; ++i) {
      if (nodes_[i].stage == nodes_[i + 1].stage) dependencies_.push_back({i, i + 1, {}});
    }
    const int model_parts = schedule_.parts() / schedule_.copies;
    for (int part = 0; part < schedule_.parts(); ++part) {
      const bool first = part % model_parts == 0;
      const bool last = part % model_parts == model_parts - 1;
      for (int m = 0; m < schedule_.micro_batches; ++m) {
        if (forward_.at(part, m) < 0) continue;
        connect(part, m, first, last);
      }
    }
    for (const auto& [transfer, before] : after_sends_) {
      if (sent_by_[before] >= 0) dependencies_.push_back({sent_by_[before], transfer, {}});
    }
  }

 private:
  void add_nodes() {
    std::vector<int> chunk(schedule_.parts());
    for (int part = 0; part < schedule_.parts(); ++part) chunk[part] = schedule_.chunk(part);
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const auto& list = schedule_.lists[stage];
      for (int position = 0; position < static_cast<int>(list.size()); ++position) {
        const Instruction& instruction = list[position];
        note(instruction, static_cast<int>(nodes_.size()));
        const std::vector<Instruction> parts =
            split_ ? split_(stage, instruction) : std::vector{instruction};
        const int last = static_cast<int>(nodes_.size() + parts.size()) - 1;
        for (const Instruction& part : parts) {
          const bool is_last = static_cast<int>(nodes_.size()) == last;
          nodes_.push_back({.stage = stage,
                            .position = position,
                            .chunk = part.part >= 0 ? chunk[part.part] : 0,
                            .instruction = part,
                            .fused_with_next = !is_last,
                            .transfer_time = {}});
          last_.push_back(last);
        }
      }
    }
  }

  // Role tables hold the first node of an instruction, which `split_` can divide into several.
  void note(const Instruction& instruction, int node) {
    const int part = instruction.part;
    const int m = instruction.micro_batch;
    if (part < 0 || m < 0) return;
    switch (instruction.kind) {
      case InstructionKind::kForwardBackward:
        backward_.at(instruction.backward_part, instruction.backward_micro_batch) = node;
        [[fallthrough]];
      case InstructionKind::kForward:
        forward_.at(part, m) = node;
        break;
      case InstructionKind::kBackward:
      case InstructionKind::kRecomputeBackward:
        backward_.at(part, m) = node;
        break;
      case InstructionKind::kWeight:
        weight_.at(part, m) = node;
        break;
      case InstructionKind::kRecompute:
        recompute_.at(part, m) = node;
        break;
      case InstructionKind::kSend:
        send_.at(part, 2 * m + instruction.gradient) = node;
        break;
      case InstructionKind::kRecv:
        recv_.at(part, 2 * m + instruction.gradient) = node;
        break;
      default:
        break;
    }
  }

  void connect(int part, int m, bool first, bool last) {
    const int forward = forward_.at(part, m);
    const int backward = backward_.at(part, m);
    if (!first) travel(part - 1, part, m);
    if (!last) travel(part + 1, part, m);
    depend(forward, backward);
    depend(forward, recompute_.at(part, m));
    depend(recompute_.at(part, m), backward);
    depend(backward, weight_.at(part, m));
    const int activation = 2 * m;
    const int gradient = 2 * m + 1;
    depend(forward, send_.at(part, activation));
    depend(backward, send_.at(part, gradient));
    depend(recv_.at(part, activation), forward);
    depend(recv_.at(part, gradient), backward);
    if (!first) depend(send_.at(part - 1, activation), recv_.at(part, activation));
    if (!last) depend(send_.at(part + 1, gradient), recv_.at(part, gradient));
  }

  // Adds a dependency between two instructions, each given by its first node.
  void depend(int from, int to, Seconds lag = {}) {
    if (from >= 0 && to >= 0) dependencies_.push_back({last_[from], to, lag});
  }

  // Adds the dependency between two neighbouring parts: an activation for the next part, or a
  // gradient for the previous one.
  void travel(int from_part, int to_part, int m) {
    const bool gradient = to_part < from_part;
    RoleTable& computations = gradient ? backward_ : forward_;
    const int from = computations.at(from_part, m);
    const int to = computations.at(to_part, m);
    if (from < 0 || to < 0) return;
    const auto& times = gradient ? transfers_.backward : transfers_.forward;
    const bool moves = nodes_[from].stage != nodes_[to].stage && !times.empty();
    const Seconds time = moves ? times[std::min(from_part, to_part)] : Seconds{};
    if (!moves || transfers_.mode == Transfers::Mode::kOverlapped) {
      depend(from, to, time);
      return;
    }
    depend(from, to);
    const int send = send_.at(from_part, 2 * m + gradient);
    const int recv = recv_.at(to_part, 2 * m + gradient);
    const Instruction given{
        .kind = gradient ? InstructionKind::kBackward : InstructionKind::kForward,
        .part = from_part,
        .micro_batch = m};
    const int transfer = static_cast<int>(nodes_.size());
    nodes_.push_back({.stage = -1,
                      .position = 0,
                      .chunk = 0,
                      .instruction = send < 0 ? given : nodes_[send].instruction,
                      .transfer_time = time});
    last_.push_back(transfer);
    if (send >= 0) sent_by_[last_[send]] = transfer;
    block(send < 0 ? from : send, transfer, recv < 0 ? to : recv);
  }

  // Adds a rendezvous transfer between two instructions. It blocks both their stages until it ends.
  void block(int from, int transfer, int to) {
    depend(from, to);
    depend(from, transfer);
    depend(transfer, to);
    const auto on_stage_of = [&](int node, int other) {
      return node >= 0 && nodes_[node].stage == nodes_[other].stage;
    };
    if (on_stage_of(to - 1, to)) {
      dependencies_.push_back({to - 1, transfer, {}});
      after_sends_.emplace_back(transfer, to - 1);
    }
    const int after_sender = last_[from] + 1;
    if (on_stage_of(after_sender, from)) dependencies_.push_back({transfer, after_sender, {}});
  }

  const Schedule& schedule_;
  const Transfers& transfers_;
  const Split& split_;
  std::vector<PipelineNode>& nodes_;
  std::vector<Dependency>& dependencies_;
  std::vector<int> last_;     // of each node, the last node of its instruction
  std::vector<int> sent_by_;  // the transfer of each `send`, by its last node; -1 if there is none
  // Transfers, each with the node before its receiver: if that is a blocking `send`, the receiver's
  // stage is held until the transfer of the `send` has ended.
  std::vector<std::pair<int, int>> after_sends_;
  RoleTable forward_, backward_, weight_, recompute_, send_, recv_;
};

// Keeps one dependency for each pair, with the longest lag, ordered by `to`, then `from`.
void merge_duplicates(std::vector<Dependency>& dependencies) {
  std::sort(dependencies.begin(), dependencies.end(), [](const Dependency& a, const Dependency& b) {
    return std::tie(a.to, a.from, b.lag) < std::tie(b.to, b.from, a.lag);
  });
  dependencies.erase(std::unique(dependencies.begin(), dependencies.end(),
                                 [](const Dependency& a, const Dependency& b) {
                                   return a.to == b.to && a.from == b.from;
                                 }),
                     dependencies.end());
}

}  // namespace

Result<Pipeline> Pipeline::build(Schedule schedule, Transfers transfers, const Split& split) {
  HARPE_TRY(validate(schedule));
  HARPE_TRY(validate(transfers, schedule.parts()));
  Pipeline pipeline;
  pipeline.schedule_ = std::move(schedule);
  pipeline.transfers_ = std::move(transfers);
  Builder(pipeline.schedule_, pipeline.transfers_, split, pipeline.nodes_, pipeline.dependencies_)
      .build();
  for (const PipelineNode& node : pipeline.nodes_) pipeline.instructions_ += node.stage >= 0;
  merge_duplicates(pipeline.dependencies_);
  HARPE_TRY(pipeline.sort());
  return pipeline;
}

Status Pipeline::sort() {
  const int count = static_cast<int>(nodes_.size());
  first_dependency_.assign(count + 1, 0);
  std::vector<int> missing(count, 0);
  std::vector<std::vector<int>> after(count);
  for (const Dependency& d : dependencies_) {
    ++first_dependency_[d.to + 1];
    ++missing[d.to];
    after[d.from].push_back(d.to);
  }
  for (int i = 0; i < count; ++i) first_dependency_[i + 1] += first_dependency_[i];
  std::priority_queue<int, std::vector<int>, std::greater<>> ready;
  for (int i = 0; i < count; ++i) {
    if (missing[i] == 0) ready.push(i);
  }
  order_.reserve(count);
  while (!ready.empty()) {
    const int i = ready.top();
    ready.pop();
    order_.push_back(i);
    for (const int j : after[i]) {
      if (--missing[j] == 0) ready.push(j);
    }
  }
  if (static_cast<int>(order_.size()) == count) return ok_status();

  return Error::invalid(circle(missing));
}

std::string Pipeline::circle(std::span<const int> missing) const {
  // Every remaining node waits for another one, so walking back must close a circle.
  int node = 0;
  while (missing[node] == 0) ++node;
  std::vector<int> seen(nodes_.size(), -1);
  std::vector<int> walk;
  while (seen[node] < 0) {
    seen[node] = static_cast<int>(walk.size());
    walk.push_back(node);
    int before = node;
    for (int d = first_dependency_[node]; d < first_dependency_[node + 1]; ++d) {
      if (missing[dependencies_[d].from] > 0) before = dependencies_[d].from;
    }
    node = before;
  }
  walk.erase(walk.begin(), walk.begin() + seen[node]);
  std::string text = "the order of instructions and their dependencies form a cycle: ";
  constexpr int kShown = 6;
  const int length = static_cast<int>(walk.size());
  for (int i = 0; i < std::min(length, kShown); ++i) {
    text += describe(nodes_[walk[i]]) + " waits for ";
  }
  if (length > kShown) text += "... (" + std::to_string(length - kShown) + " more) ... ";
  text += describe(nodes_[node]);
  if (transfers_.mode != Transfers::Mode::kRendezvous || transfers_.none()) return text;
  std::vector<Instruction> sends;
  for (const int i : walk) {
    const bool is_send = nodes_[i].instruction.kind == InstructionKind::kSend;
    if (nodes_[i].stage < 0 && is_send) sends.push_back(nodes_[i].instruction);
  }
  const std::string waiting = plan::waiting_sends_text(sends);
  return text + "; " +
         (waiting.empty()
              ? "with blocking (rendezvous) transfers many schedules other than 1F1B and GPipe "
                "deadlock"
              : waiting);
}

Timeline Pipeline::earliest(std::span<const Seconds> durations) const {
  Timeline timeline;
  timeline.start.resize(nodes_.size());
  for (const int i : order_) {
    Seconds start{0};
    for (int d = first_dependency_[i]; d < first_dependency_[i + 1]; ++d) {
      const Dependency& dependency = dependencies_[d];
      start = std::max(
          start, timeline.start[dependency.from] + durations[dependency.from] + dependency.lag);
    }
    timeline.start[i] = start;
    timeline.makespan = std::max(timeline.makespan, start + durations[i]);
  }
  return timeline;
}

std::vector<int> Pipeline::peak_activations() const {
  std::vector<int> peak(schedule_.stages, 0);
  for (int stage = 0; stage < schedule_.stages; ++stage) {
    const auto& list = schedule_.lists[stage];
    // The weight frees the activation if there is one, otherwise the backward does.
    std::vector<std::pair<int, int>> weights;
    for (const Instruction& i : list) {
      if (i.kind == InstructionKind::kWeight) weights.emplace_back(i.part, i.micro_batch);
    }
    std::sort(weights.begin(), weights.end());
    const auto frees = [&](int part, int m) {
      return !std::binary_search(weights.begin(), weights.end(), std::pair(part, m));
    };
    int held = 0;
    for (const Instruction& i : list) {
      if (i.kind == InstructionKind::kForward || i.kind == InstructionKind::kForwardBackward)
        ++held;
      peak[stage] = std::max(peak[stage], held);
      if (i.kind == InstructionKind::kWeight) --held;
      if (is_backward(i.kind) && frees(i.part, i.micro_batch)) --held;
      if (i.kind == InstructionKind::kForwardBackward &&
          frees(i.backward_part, i.backward_micro_batch)) {
        --held;
      }
    }
  }
  return peak;
}

}  // namespace harpe
