#include "harpe/job/job_spec.h"

#include <string>
#include <utility>

namespace harpe {

Status validate(const JobSpec& spec) {
  Faults faults("the job");
  const JobShape& shape = spec.shape;
  if (shape.data < 1 || shape.stages < 1 || shape.tensor < 1) {
    faults.add("degrees of parallelism start at 1");
  } else if (std::int64_t{shape.data} * shape.stages > kMaxRanks / shape.tensor) {
    faults.add("more than " + std::to_string(kMaxRanks) + " ranks");
  }
  if (spec.schedule.stages != shape.stages) {
    faults.add("the schedule has " + std::to_string(spec.schedule.stages) + " stages, the job " +
               std::to_string(shape.stages));
  }
  if (Status valid = validate(spec.schedule); !valid) {
    for (const Fault& fault : valid.error().faults) faults.add(fault.message);
  }
  for (const auto& list : spec.schedule.lists) {
    for (const Instruction& instruction : list) {
      if (instruction.kind != InstructionKind::kSwitch) continue;
      faults.add("the schedule holds clock switches: Harpe decides where clocks change");
      break;
    }
  }
  if (spec.profiling.most_iterations_per_clock < spec.profiling.iterations_per_clock) {
    faults.add("most_iterations_per_clock is below iterations_per_clock");
  }
  if (spec.profile && spec.profile->stages() > shape.stages) {
    faults.add("the profile has " + std::to_string(spec.profile->stages()) + " stages, the job " +
               std::to_string(shape.stages));
  }
  if (!faults.empty()) return Error::invalid(std::move(faults));
  return ok_status();
}

}  // namespace harpe
