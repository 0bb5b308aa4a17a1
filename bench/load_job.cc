#include "load_job.h"

#include <algorithm>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/plan/profile/synth.h"
#include "harpe/plan/schedule/schedule.h"
#include "harpe/training/emulated_training/emulated_machines.h"
#include "harpe/training/wire/wire.h"

namespace harpe::bench {
namespace {

std::string key_of(int stage, const std::vector<Megahertz>& clocks) {
  std::string key = std::to_string(stage);
  for (const Megahertz clock : clocks) key += ' ' + std::to_string(clock.value);
  return key;
}

/// Returns the costs with all times and energies multiplied by a factor.
Profile scaled(const Profile& costs, double factor) {
  std::vector<InstructionProfile> entries(costs.entries().begin(), costs.entries().end());
  for (InstructionProfile& entry : entries) {
    for (OperatingPoint& point : entry.points) {
      point.time = point.time * factor;
      point.energy = point.energy * factor;
    }
  }
  return costs.with_entries(std::move(entries));
}

}  // namespace

int RankAssignments::in_force(std::int64_t iteration) const {
  for (int i = static_cast<int>(assignments.size()) - 1; i >= 0; --i) {
    if (assignments[static_cast<std::size_t>(i)].from_iteration <= iteration) return i;
  }
  return -1;
}

Result<LoadJob> LoadJob::make(const LoadShape& shape) {
  LoadJob job;
  job.shape_ = shape;
  Schedule schedule =
      HARPE_TRY(one_f_one_b({.stages = shape.stages, .micro_batches = shape.micro_batches}));
  Pipeline pipeline = HARPE_TRY(Pipeline::build(schedule));
  job.pipeline_.push_back(std::move(pipeline));
  job.profile_ = HARPE_TRY(synthesize({.stages = shape.stages}));
  for (const OperatingPoint& point : job.profile_.entries().front().points) {
    job.clocks_.push_back(point.clock);
  }
  const auto full = [&job] {
    std::vector<const StageWork*> stages;
    for (int stage = 0; stage < job.shape_.stages; ++stage) {
      stages.push_back(job.work(stage, {job.clocks_.back()}));
    }
    return stages;
  };
  // Scaled to the requested length: the model's own times are for a forward of 50 ms.
  const double factor = shape.iteration / job.makespan(full());
  job.profile_ = scaled(job.profile_, factor);
  job.works_.clear();
  job.makespans_.clear();
  job.all_max_ = full();
  job.blocking_power_ = Watts{83.6};

  JobSpec spec;
  spec.name = "load";
  spec.shape = {.data = shape.data, .stages = shape.stages, .tensor = 1};
  spec.schedule = std::move(schedule);
  spec.blocking_power = job.blocking_power_;
  spec.profile = job.profile_;
  job.spec_json_ = training::job_spec_json(spec);
  return job;
}

Result<const RankAssignments*> LoadJob::assignments(std::string_view text, int stage) {
  std::string key = std::to_string(stage) + std::string(text);
  const auto known = known_.find(key);
  if (known != known_.end()) return known->second.get();
  training::RankResponse read = HARPE_TRY(training::parse_rank_response(text));
  auto assignments = std::make_unique<RankAssignments>();
  assignments->assignments = std::move(read.assignments);
  std::ranges::sort(assignments->assignments, {}, &training::StageAssignment::version);
  for (const training::StageAssignment& one : assignments->assignments)
    assignments->work.push_back(work(stage, one.clocks));
  return known_.emplace(std::move(key), std::move(assignments)).first->second.get();
}

const StageWork* LoadJob::work(int stage, const std::vector<Megahertz>& clocks) {
  std::unique_ptr<StageWork>& slot = works_[key_of(stage, clocks)];
  if (slot != nullptr) return slot.get();
  slot = std::make_unique<StageWork>();
  const Schedule& schedule = pipeline_.front().schedule();
  const Megahertz highest = profile_.entries().front().points.back().clock;
  const training::StageRun run =
      training::run_stage(schedule, profile_, stage, clocks, {.clock = {highest}});
  for (const OperatingPoint& point : run.instructions) {
    slot->durations.push_back(point.time);
    slot->time += point.time;
    slot->energy += point.energy;
  }
  for (const training::InstructionTotals& sum :
       training::totals_of(schedule, stage, run.instructions)) {
    slot->totals +=
        (slot->totals.empty() ? "[" : ",") + std::string("{\"name\":\"") +
        std::string(name(sum.kind)) + "\",\"chunk\":0,\"count\":" + std::to_string(sum.count) +
        ",\"time_s\":" + shortest(sum.time.value) + ",\"energy_j\":" + shortest(sum.energy.value) +
        ",\"energy_error_j\":" + shortest(sum.energy.value * 0.005) + "}";
  }
  slot->totals += ']';
  return slot.get();
}

Seconds LoadJob::makespan(const std::vector<const StageWork*>& stages) {
  std::string key(reinterpret_cast<const char*>(stages.data()),
                  stages.size() * sizeof(const StageWork*));
  const auto known = makespans_.find(key);
  if (known != makespans_.end()) return known->second;
  std::vector<Seconds> durations;
  for (const StageWork* stage : stages) {
    durations.insert(durations.end(), stage->durations.begin(), stage->durations.end());
  }
  durations.resize(pipeline_.front().nodes().size(), Seconds{0});
  const Seconds time = pipeline_.front().earliest(durations).makespan;
  makespans_.emplace(std::move(key), time);
  return time;
}

}  // namespace harpe::bench
