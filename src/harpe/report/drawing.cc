#include "harpe/report/drawing.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

namespace harpe::report {
namespace {

struct Place {
  int stage = 0;
  int position = 0;
};
/// (is a gradient, model part, micro-batch) -> the instruction that makes or takes it.
using Places = std::map<std::tuple<bool, int, int>, Place>;

bool has_forward(InstructionKind kind) {
  return kind == InstructionKind::kForward || kind == InstructionKind::kForwardBackward;
}

bool has_backward(InstructionKind kind) {
  return kind == InstructionKind::kBackward || kind == InstructionKind::kRecomputeBackward ||
         kind == InstructionKind::kForwardBackward;
}

/// The model parts of each stage: the chunk of a stage is an index into its list.
std::vector<std::vector<int>> parts_of_stages(const Plan& plan) {
  std::vector<std::vector<int>> parts(plan.instructions.size());
  for (std::size_t part = 0; part < plan.placement.size(); ++part) {
    const auto stage = static_cast<std::size_t>(plan.placement[part]);
    if (stage < parts.size()) parts[stage].push_back(static_cast<int>(part));
  }
  return parts;
}

Places find_places(const Plan& plan) {
  const auto parts = parts_of_stages(plan);
  Places places;
  const auto add = [&](bool gradient, int chunk, int micro_batch, Place place) {
    const auto& own = parts[static_cast<std::size_t>(place.stage)];
    if (chunk < 0 || static_cast<std::size_t>(chunk) >= own.size()) return;
    places.insert({{gradient, own[static_cast<std::size_t>(chunk)], micro_batch}, place});
  };
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    for (std::size_t i = 0; i < plan.instructions[stage].size(); ++i) {
      const PlannedInstruction& instruction = plan.instructions[stage][i];
      const Place place{static_cast<int>(stage), static_cast<int>(i)};
      const bool both = instruction.kind == InstructionKind::kForwardBackward;
      if (has_forward(instruction.kind)) {
        add(false, instruction.chunk, instruction.micro_batch, place);
      }
      if (has_backward(instruction.kind)) {
        add(true, both ? instruction.backward_chunk : instruction.chunk,
            both ? instruction.backward_micro_batch : instruction.micro_batch, place);
      }
    }
  }
  return places;
}

const PlannedInstruction& at(const Plan& plan, int stage, int position) {
  return plan.instructions[static_cast<std::size_t>(stage)][static_cast<std::size_t>(position)];
}

}  // namespace

std::vector<Link> transfer_links(const Plan& plan) {
  std::vector<Link> links;
  if (plan.transfers.none()) return links;
  const Places places = find_places(plan);
  for (const auto& [key, place] : places) {
    const auto [gradient, part, micro_batch] = key;
    const int next = gradient ? part - 1 : part + 1;
    const auto& times = gradient ? plan.transfers.backward : plan.transfers.forward;
    const auto boundary = static_cast<std::size_t>(std::min(part, next));
    const auto receiver = places.find({gradient, next, micro_batch});
    if (next < 0 || boundary >= times.size() || receiver == places.end()) continue;
    const Place to = receiver->second;
    if (to.stage == place.stage || !(times[boundary] > Seconds{0})) continue;
    links.push_back({place.stage, place.position, to.stage, to.position, times[boundary]});
  }
  std::sort(links.begin(), links.end(), [](const Link& a, const Link& b) {
    return std::tie(a.from_stage, a.from_position, a.to_stage, a.to_position) <
           std::tie(b.from_stage, b.from_position, b.to_stage, b.to_position);
  });
  return links;
}

Interval transfer_interval(const Plan& plan, const Link& link) {
  const PlannedInstruction& sender = at(plan, link.from_stage, link.from_position);
  Seconds start = sender.start + sender.time;
  if (plan.transfers.mode == Transfers::Mode::kRendezvous && link.to_position > 0) {
    const PlannedInstruction& before = at(plan, link.to_stage, link.to_position - 1);
    start = std::max(start, before.start + before.time);
  }
  return {start, start + link.time};
}

PlanFigures plan_figures(const Plan& plan) {
  PlanFigures figures;
  double waiting = 0;
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    Seconds busy{0};
    for (const PlannedInstruction& instruction : plan.instructions[stage]) {
      busy += instruction.time;
      figures.computing += instruction.energy * plan.gpus_per_stage;
    }
    const Seconds idle = plan.iteration_time - busy;
    waiting += idle.value;
    figures.blocking += blocking_power(plan, static_cast<int>(stage)) * idle * plan.gpus_per_stage;
  }
  const double total = plan.iteration_time.value * static_cast<double>(plan.instructions.size());
  figures.waiting_share = total > 0 ? waiting / total : 0;
  return figures;
}

Watts power(const Plan& plan, int stage, const PlannedInstruction& instruction) {
  return instruction.time > Seconds{0} ? instruction.energy / instruction.time
                                       : blocking_power(plan, stage);
}

Watts blocking_power(const Plan& plan, int stage) {
  const auto index = static_cast<std::size_t>(stage);
  return index < plan.blocking_power.size() ? plan.blocking_power[index] : Watts{0};
}

std::string block_label(const PlannedInstruction& instruction) {
  const auto with = [](std::string letter, int micro_batch) {
    return micro_batch < 0 ? letter : letter.append(std::to_string(micro_batch));
  };
  switch (instruction.kind) {
    case InstructionKind::kForward:
      return with("F", instruction.micro_batch);
    case InstructionKind::kBackward:
      return with("B", instruction.micro_batch);
    case InstructionKind::kWeight:
      return with("W", instruction.micro_batch);
    case InstructionKind::kRecompute:
      return with("R", instruction.micro_batch);
    case InstructionKind::kRecomputeBackward:
      return with("RB", instruction.micro_batch);
    case InstructionKind::kForwardBackward:
      return with("F", instruction.micro_batch) + with("B", instruction.backward_micro_batch);
    default:
      return std::string(name(instruction.kind));
  }
}

std::vector<double> average_power(const Plan& plan, int stage, Seconds span, int columns) {
  if (!(span > Seconds{0})) return std::vector<double>(static_cast<std::size_t>(columns), -1.0);
  const double width = span.value / columns;
  const double idle = blocking_power(plan, stage).value;
  std::vector<double> joules(static_cast<std::size_t>(columns), 0.0);
  std::vector<double> covered(joules.size(), 0.0);
  const auto spread = [&](double start, double end, double watts) {
    const int first = std::clamp(static_cast<int>(start / width), 0, columns - 1);
    const int last = std::clamp(static_cast<int>(end / width), 0, columns - 1);
    for (int column = first; column <= last; ++column) {
      const double part = std::min(end, (column + 1) * width) - std::max(start, column * width);
      if (part <= 0) continue;
      joules[static_cast<std::size_t>(column)] += watts * part;
      covered[static_cast<std::size_t>(column)] += part;
    }
  };
  double end = 0;
  for (const auto& instruction : plan.instructions[static_cast<std::size_t>(stage)]) {
    spread(end, instruction.start.value, idle);
    end = (instruction.start + instruction.time).value;
    spread(instruction.start.value, end, power(plan, stage, instruction).value);
  }
  spread(end, plan.iteration_time.value, idle);
  for (std::size_t i = 0; i < joules.size(); ++i) {
    joules[i] = covered[i] > 0 ? joules[i] / covered[i] : -1;
  }
  return joules;
}

}  // namespace harpe::report
