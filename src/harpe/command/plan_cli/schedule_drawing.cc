#include "harpe/command/plan_cli/schedule_drawing.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

namespace harpe {
namespace {

using PartAndMicroBatch = std::pair<int, int>;

/// Those whose weight gradient is split off: their backward is the input gradient alone.
std::set<PartAndMicroBatch> split_backwards(const Schedule& schedule) {
  std::set<PartAndMicroBatch> split;
  for (const auto& list : schedule.lists) {
    for (const Instruction& instruction : list) {
      if (instruction.kind == InstructionKind::kWeight) {
        split.emplace(instruction.part, instruction.micro_batch);
      }
    }
  }
  return split;
}

double unit_duration(const Instruction& i, const std::set<PartAndMicroBatch>& split) {
  const auto backward = [&](int part, int micro_batch) {
    return split.contains({part, micro_batch}) ? 1.0 : 2.0;
  };
  switch (i.kind) {
    case InstructionKind::kForward:
    case InstructionKind::kWeight:
    case InstructionKind::kRecompute:
      return 1;
    case InstructionKind::kBackward:
      return backward(i.part, i.micro_batch);
    case InstructionKind::kRecomputeBackward:
      return 1 + backward(i.part, i.micro_batch);
    case InstructionKind::kForwardBackward:
      return 1 + backward(i.backward_part, i.backward_micro_batch);
    default:
      return 0;
  }
}

std::string label(const Instruction& i, bool with_part) {
  const auto half = [&](char letter, int part, int micro_batch) {
    return (with_part ? std::to_string(part) : "") + letter + std::to_string(micro_batch);
  };
  switch (i.kind) {
    case InstructionKind::kForward:
      return half('F', i.part, i.micro_batch);
    case InstructionKind::kBackward:
      return half('B', i.part, i.micro_batch);
    case InstructionKind::kWeight:
      return half('W', i.part, i.micro_batch);
    case InstructionKind::kRecompute:
      return half('R', i.part, i.micro_batch);
    case InstructionKind::kRecomputeBackward:
      return half('C', i.part, i.micro_batch);
    case InstructionKind::kForwardBackward:
      return half('F', i.part, i.micro_batch) + '/' +
             half('B', i.backward_part, i.backward_micro_batch);
    default:
      return "";
  }
}

}  // namespace

UnitTimeline unit_timeline(const Pipeline& pipeline) {
  const std::set<PartAndMicroBatch> split = split_backwards(pipeline.schedule());
  UnitTimeline timeline;
  timeline.busy.resize(pipeline.schedule().stages);
  std::vector<Seconds> durations;
  for (const PipelineNode& node : pipeline.nodes()) {
    const double duration = node.stage < 0 ? 0 : unit_duration(node.instruction, split);
    durations.push_back({duration});
    timeline.duration.push_back(duration);
    if (node.stage >= 0) timeline.busy[node.stage] += duration;
  }
  const Timeline earliest = pipeline.earliest(durations);
  for (const Seconds start : earliest.start) timeline.start.push_back(start.value);
  timeline.makespan = earliest.makespan.value;
  return timeline;
}

std::string draw_schedule(const Pipeline& pipeline, const UnitTimeline& timeline, int width) {
  const Schedule& schedule = pipeline.schedule();
  const bool with_part = schedule.chunks() > 1;
  std::size_t cell = 2;
  for (int n = 0; n < pipeline.instructions(); ++n) {
    // A label wider than its share of columns widens all of them.
    const double duration = timeline.duration[n];
    if (duration == 0) continue;
    const std::size_t length = label(pipeline.nodes()[n].instruction, with_part).size() + 1;
    cell =
        std::max(cell, static_cast<std::size_t>(std::ceil(static_cast<double>(length) / duration)));
  }
  const std::size_t label_width = 8 + std::to_string(schedule.stages - 1).size();
  const std::size_t limit = width == 0 ? std::string::npos : static_cast<std::size_t>(width);
  std::vector<std::string> lines(schedule.stages);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    lines[stage] = "stage " + std::to_string(stage);
    lines[stage].resize(label_width, ' ');
  }
  for (int n = 0; n < pipeline.instructions(); ++n) {
    const PipelineNode& node = pipeline.nodes()[n];
    std::string& line = lines[node.stage];
    const std::size_t from = label_width + static_cast<std::size_t>(timeline.start[n]) * cell;
    const auto columns = static_cast<std::size_t>(timeline.duration[n]) * cell;
    if (columns == 0 || line.size() > limit) continue;
    line.resize(std::max(line.size(), from), ' ');
    std::string block = label(node.instruction, with_part);
    block.resize(std::max(block.size(), columns - 1), '-');
    line += block;
  }
  std::string text;
  for (std::string& line : lines) {
    if (line.size() > limit) {
      line.resize(limit - 4);
      line += " ...";
    }
    text += line + '\n';
  }
  return text;
}

}  // namespace harpe
