#include "harpe/plan/schedule/rules.h"

#include <algorithm>
#include <array>

namespace harpe::plan {

std::string_view sentence(Rule rule) {
  // In the order of the enumeration.
  static constexpr std::array kSentences = std::to_array<std::string_view>(
      {"a stage runs its list in order", "a forward waits for the activation from the part before",
       "a backward waits for the gradient from the part after",
       "a backward and a recompute wait for the forward of their part",
       "a backward waits for its recompute", "a weight waits for its backward",
       "a send waits for what it sends, a recv for its send, a computation for its recv",
       "a blocking transfer occupies its sender and its receiver"});
  return kSentences.at(static_cast<std::size_t>(rule));
}

ScheduleRules::ScheduleRules(const Schedule& schedule, const Transfers& transfers)
    : schedule_(schedule),
      model_parts_(schedule.parts() / schedule.copies),
      activations_block_(transfers.mode == Transfers::Mode::kRendezvous &&
                         !transfers.forward.empty()),
      gradients_block_(transfers.mode == Transfers::Mode::kRendezvous &&
                       !transfers.backward.empty()),
      given_by_(place(Product{kProducts}, 0, 0)) {
  for (int stage = 0; stage < schedule.stages; ++stage) {
    const auto& list = schedule.lists[stage];
    for (int n = 0; n < static_cast<int>(list.size()); ++n) {
      const Instruction& i = list[n];
      const Position at{stage, n};
      switch (i.kind) {
        case InstructionKind::kForwardBackward:
          note(kBackwarded, i.backward_part, i.backward_micro_batch, at);
          [[fallthrough]];
        case InstructionKind::kForward:
          note(kForwarded, i.part, i.micro_batch, at);
          break;
        case InstructionKind::kBackward:
        case InstructionKind::kRecomputeBackward:
          note(kBackwarded, i.part, i.micro_batch, at);
          break;
        case InstructionKind::kRecompute:
          note(kRecomputed, i.part, i.micro_batch, at);
          break;
        case InstructionKind::kSend:
          note(i.gradient ? kSentGradient : kSentActivation, i.part, i.micro_batch, at);
          break;
        case InstructionKind::kRecv:
          note(i.gradient ? kReceivedGradient : kReceivedActivation, i.part, i.micro_batch, at);
          break;
        default:
          break;
      }
    }
  }
}

std::size_t ScheduleRules::place(Product product, int part, int micro_batch) const {
  const auto parts = static_cast<std::size_t>(schedule_.parts());
  const auto micro_batches = static_cast<std::size_t>(schedule_.micro_batches);
  return (static_cast<std::size_t>(product) * parts + static_cast<std::size_t>(part)) *
             micro_batches +
         static_cast<std::size_t>(micro_batch);
}

void ScheduleRules::note(Product product, int part, int micro_batch, Position at) {
  if (part >= 0) given_by_[place(product, part, micro_batch)] = at;
}

void ScheduleRules::add(Rule rule, Product product, int part, int micro_batch,
                        std::vector<Wait>& waits) const {
  const Position from = given_by_[place(product, part, micro_batch)];
  if (from.stage >= 0) waits.push_back({.rule = rule, .from = from});
}

bool ScheduleRules::blocks(int from, int to) const {
  return schedule_.placement[from] != schedule_.placement[to] &&
         (to < from ? gradients_block_ : activations_block_);
}

void ScheduleRules::set_boundary(Wait& wait, int from, int to) {
  wait.boundary = std::min(from, to);
  wait.gradient = to < from;
}

void ScheduleRules::add_crossing(int from, int to, int micro_batch,
                                 std::vector<Wait>& waits) const {
  const bool gradient = to < from;
  add(gradient ? Rule::kGradient : Rule::kActivation, gradient ? kBackwarded : kForwarded, from,
      micro_batch, waits);
  if (schedule_.placement[from] == schedule_.placement[to]) return;
  const Product sent = gradient ? kSentGradient : kSentActivation;
  const Product received = gradient ? kReceivedGradient : kReceivedActivation;
  if (blocks(from, to)) {
    if (exists(received, to, micro_batch)) return;  // the data travels to the recv
    if (exists(sent, from, micro_batch)) add(Rule::kMessage, sent, from, micro_batch, waits);
  }
  set_boundary(waits.back(), from, to);
}

void ScheduleRules::recv_waits(int part, int micro_batch, bool gradient,
                               std::vector<Wait>& waits) const {
  if (gradient ? is_last(part) : is_first(part)) return;
  const int from = gradient ? part + 1 : part - 1;
  const Product sent = gradient ? kSentGradient : kSentActivation;
  if (exists(sent, from, micro_batch)) {
    add(Rule::kMessage, sent, from, micro_batch, waits);
  } else if (blocks(from, part)) {
    add(Rule::kMessage, gradient ? kBackwarded : kForwarded, from, micro_batch, waits);
  }
  if (blocks(from, part)) set_boundary(waits.back(), from, part);
}

void ScheduleRules::forward_waits(int part, int micro_batch, std::vector<Wait>& waits) const {
  if (!is_first(part)) add_crossing(part - 1, part, micro_batch, waits);
  add(Rule::kMessage, kReceivedActivation, part, micro_batch, waits);
}

void ScheduleRules::backward_waits(int part, int micro_batch, std::vector<Wait>& waits) const {
  add(Rule::kOwnForward, kForwarded, part, micro_batch, waits);
  if (!is_last(part)) add_crossing(part + 1, part, micro_batch, waits);
  add(Rule::kRecomputed, kRecomputed, part, micro_batch, waits);
  add(Rule::kMessage, kReceivedGradient, part, micro_batch, waits);
}

std::vector<Wait> ScheduleRules::waits(Position at) const {
  std::vector<Wait> waits;
  if (at.index > 0) {
    waits.push_back({.rule = Rule::kOrder, .from = {at.stage, at.index - 1}});
  }
  const Instruction& i = instruction(at);
  if (i.part < 0 || i.micro_batch < 0) return waits;
  switch (i.kind) {
    case InstructionKind::kForwardBackward:
      backward_waits(i.backward_part, i.backward_micro_batch, waits);
      [[fallthrough]];
    case InstructionKind::kForward:
      forward_waits(i.part, i.micro_batch, waits);
      break;
    case InstructionKind::kBackward:
    case InstructionKind::kRecomputeBackward:
      backward_waits(i.part, i.micro_batch, waits);
      break;
    case InstructionKind::kRecompute:
      add(Rule::kOwnForward, kForwarded, i.part, i.micro_batch, waits);
      break;
    case InstructionKind::kWeight:
      add(Rule::kInputGradient, kBackwarded, i.part, i.micro_batch, waits);
      break;
    case InstructionKind::kSend:
      add(Rule::kMessage, i.gradient ? kBackwarded : kForwarded, i.part, i.micro_batch, waits);
      break;
    case InstructionKind::kRecv:
      recv_waits(i.part, i.micro_batch, i.gradient, waits);
      break;
    default:
      break;
  }
  return waits;
}

namespace {

const std::vector<Seconds>& times(const Wait& wait, const Transfers& transfers) {
  return wait.gradient ? transfers.backward : transfers.forward;
}

}  // namespace

Seconds travel_time(const Wait& wait, const Transfers& transfers) {
  if (wait.boundary < 0 || times(wait, transfers).empty()) return Seconds{0};
  return times(wait, transfers)[wait.boundary];
}

bool is_blocking(const Wait& wait, const Transfers& transfers) {
  return transfers.mode == Transfers::Mode::kRendezvous && wait.boundary >= 0 &&
         !times(wait, transfers).empty();
}

}  // namespace harpe::plan
