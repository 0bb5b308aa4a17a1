#include "harpe/training/wire/job_spec.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "harpe/plan/instruction/knobs.h"
#include "harpe/plan/schedule/schedule_work.h"
#include "harpe/training/wire/carbon_terms.h"
#include "harpe/training/wire/cluster_terms.h"

namespace harpe {
namespace {

std::string over(std::int64_t value, const std::string& what, std::int64_t most) {
  return std::to_string(value) + " " + what + ", more than the " + std::to_string(most) +
         " that a job may have";
}

/// Returns the number of model parts in the stage with most parts.
int most_parts(const Schedule& schedule) {
  std::vector<int> parts(static_cast<std::size_t>(std::max(0, schedule.stages)));
  for (const int stage : schedule.placement) {
    if (stage >= 0 && stage < schedule.stages) ++parts[static_cast<std::size_t>(stage)];
  }
  return parts.empty() ? 0 : std::ranges::max(parts);
}

void check_size(const JobSpec& spec, Diagnostics& diagnostics) {
  const std::int64_t instructions = instructions_of(spec);
  if (instructions > kMaxJobInstructions) {
    diagnostics.add(over(instructions, "instructions an iteration", kMaxJobInstructions));
  }
  if (const int parts = most_parts(spec.schedule); parts > kMaxChunks) {
    diagnostics.add(over(parts, "chunks a stage", kMaxChunks));
  }
}

/// Checks the number of instruction kinds to measure. The schedule must be valid.
void check_measured(const JobSpec& spec, Diagnostics& diagnostics) {
  const std::int64_t measured =
      static_cast<std::int64_t>(plan::ScheduleWork(spec.schedule).items()) * spec.shape.data;
  if (measured <= kMaxMeasured) return;
  diagnostics.add(
      over(measured, "kinds of instructions over all pipelines and stages", kMaxMeasured));
}

/// Checks that memory clocks and power limits are constant: changing them between instructions
/// takes a GPU too long.
void check_knobs(const Profile& profile, Diagnostics& diagnostics) {
  std::map<int, Knobs> steady;  // by stage
  for (const InstructionProfile& entry : profile.entries()) {
    if (is_fixed_time(entry.kind)) continue;
    for (const OperatingPoint& point : entry.points) {
      Knobs knobs = point.knobs;
      knobs.label = {};
      if (steady.emplace(entry.stage, knobs).first->second == knobs) continue;
      return diagnostics.add(
          "the profile has points of several memory clocks or power limits at stage " +
          std::to_string(entry.stage) +
          "; a job can use only one of each for a stage: remove the others");
    }
  }
}

template <class T>
void add_errors(const char* member, const Result<T>& read, Diagnostics& diagnostics) {
  if (read.ok()) return;
  for (const Diagnostic& diagnostic : read.error().diagnostics) {
    diagnostics.add(std::string(member) + ": " + diagnostic.message);
  }
}

}  // namespace

bool is_job_id(std::string_view id) {
  constexpr std::size_t kLongest = 128;
  const auto allowed = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' ||
           c == '_' || c == '-' || c == '+';
  };
  return !id.empty() && id.size() <= kLongest && std::ranges::all_of(id, allowed) && id != "." &&
         id != "..";
}

std::optional<std::string> wrong_chunks(std::int64_t given, const Schedule& schedule) {
  const int chunks = schedule.chunks();
  if (given == chunks) return std::nullopt;
  return (schedule.name.empty() ? "the schedule" : schedule.name) + " has " +
         std::to_string(chunks) + (chunks == 1 ? " chunk" : " chunks") + " a stage, not " +
         std::to_string(given);
}

std::int64_t instructions_of(const JobSpec& spec) {
  std::int64_t count = 0;
  for (const auto& list : spec.schedule.lists) count += static_cast<std::int64_t>(list.size());
  return count;
}

Status validate(const JobSpec& spec) {
  Diagnostics diagnostics("the job");
  const JobShape& shape = spec.shape;
  if (shape.data < 1 || shape.stages < 1 || shape.tensor < 1) {
    diagnostics.add("degrees of parallelism must be at least 1");
  } else if (std::int64_t{shape.data} * shape.stages > kMaxRanks / shape.tensor) {
    diagnostics.add("more than the " + std::to_string(kMaxRanks) + " ranks that a job may have");
  }
  if (shape.stages > kMaxStages) diagnostics.add(over(shape.stages, "stages", kMaxStages));
  if (spec.schedule.stages != shape.stages) {
    diagnostics.add("the schedule has " + std::to_string(spec.schedule.stages) +
                    " stages, but the job has " + std::to_string(shape.stages));
  }
  if (diagnostics.empty()) check_size(spec, diagnostics);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  if (Status valid = validate(spec.schedule); !valid.ok()) {
    for (const Diagnostic& diagnostic : valid.error().diagnostics)
      diagnostics.add(diagnostic.message);
  }
  if (const auto complete = with_fixed_times(spec.schedule, spec.fixed_times);
      diagnostics.empty() && !complete.ok()) {
    for (const Diagnostic& diagnostic : complete.error().diagnostics)
      diagnostics.add(diagnostic.message);
  }
  if (diagnostics.empty()) check_measured(spec, diagnostics);
  for (const auto& list : spec.schedule.lists) {
    for (const Instruction& instruction : list) {
      if (instruction.kind != InstructionKind::kSwitch) continue;
      diagnostics.add(
          "the schedule contains clock switches, but Harpe decides where clocks change");
      break;
    }
  }
  if (spec.blocking_power) {
    const std::size_t powers = spec.blocking_power->values.size();
    if (powers != 1 && powers != static_cast<std::size_t>(shape.stages)) {
      diagnostics.add("blocking power is given for " + std::to_string(powers) +
                      " stages, but the job has " + std::to_string(shape.stages));
    }
  }
  if (spec.profiling.most_iterations_per_clock < spec.profiling.iterations_per_clock) {
    diagnostics.add("most_iterations_per_clock is below iterations_per_clock");
  }
  if (spec.profile && spec.profile->stages() > shape.stages) {
    diagnostics.add("the profile has " + std::to_string(spec.profile->stages()) +
                    " stages, but the job has " + std::to_string(shape.stages));
  }
  if (spec.profile) check_knobs(*spec.profile, diagnostics);
  if (!spec.carbon.empty())
    add_errors("carbon", training::parse_carbon_terms(spec.carbon), diagnostics);
  if (!spec.cluster.empty())
    add_errors("cluster", training::parse_cluster_terms(spec.cluster), diagnostics);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

}  // namespace harpe
