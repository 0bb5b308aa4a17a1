#include "harpe/plan/frontier/earliest_plan.h"

namespace harpe {
Plan earliest_plan(const Problem& problem, const std::vector<OperatingPoint>& points,
                   const std::vector<LateChange>& late) {
  const Pipeline& pipeline = problem.pipeline;
  const Schedule& schedule = pipeline.schedule();
  std::vector<Seconds> durations;
  durations.reserve(points.size());
  for (const OperatingPoint& point : points) durations.push_back(point.time);
  for (std::size_t i = 0; i < late.size(); ++i) durations[i] += seconds_of(late[i].time);
  const Timeline timeline = pipeline.earliest(durations);
  Plan plan{.job = problem.job,
            .schedule = schedule.name,
            .synthetic = problem.profile.is_synthetic(),
            .stages = schedule.stages,
            .micro_batches = schedule.micro_batches,
            .chunks = schedule.chunks(),
            .gpus_per_stage = problem.gpus_per_stage,
            .blocking_power = problem.blocking_power,
            .transfers = pipeline.transfers(),
            .placement = schedule.placement,
            .copies = schedule.copies,
            .iteration_time = timeline.makespan,
            .iteration_energy = {},
            .lower_bound = {},
            .instructions = {}};
  plan.instructions.resize(schedule.stages);
  for (int i = 0; i < pipeline.instructions(); ++i) {
    const PipelineNode& node = pipeline.nodes()[i];
    const Instruction& instruction = node.instruction;
    const Seconds wait = late.empty() ? 0_s : seconds_of(late[i].time);
    if (!late.empty() && (late[i].time > 0 || late[i].cost > 0)) {
      const Joules effective = static_cast<double>(late[i].cost) * problem.cost_unit;
      const bool inside = i > 0 && pipeline.nodes()[i - 1].fused_with_next;
      plan.instructions[node.stage].push_back(
          {.kind = InstructionKind::kSwitch,
           .chunk = node.chunk,
           .micro_batch = instruction.micro_batch,
           .fused_with_next = inside,
           .clock = {},
           .start = timeline.start[i],
           .time = wait,
           .energy = effective + problem.blocking_power[node.stage] * wait});
    }
    plan.instructions[node.stage].push_back(
        {.kind = instruction.kind,
         .chunk = node.chunk,
         .micro_batch = instruction.micro_batch,
         .backward_chunk =
             instruction.backward_part < 0 ? -1 : schedule.chunk(instruction.backward_part),
         .backward_micro_batch = instruction.backward_micro_batch,
         .gradient = instruction.gradient,
         .fused_with_next = node.fused_with_next,
         .clock = is_fixed_time(instruction.kind) ? Megahertz{} : points[i].clock,
         .start = timeline.start[i] + wait,
         .time = points[i].time,
         .energy = points[i].energy,
         .knobs = is_fixed_time(instruction.kind) ? Knobs{} : points[i].knobs});
  }
  return plan;
}

}  // namespace harpe
