#include "harpe/client/assignment_book.h"

#include <algorithm>
#include <utility>

namespace harpe {

Status AssignmentBook::add(const StageAssignment& assignment) {
  if (assignment.version == 0) return Error::invalid("an assignment of version 0 means none");
  if (assignment.clocks.size() != 1 && assignment.clocks.size() != instructions_) {
    return Error::invalid("an assignment of version " + std::to_string(assignment.version) +
                          " has " + std::to_string(assignment.clocks.size()) +
                          " clocks; this stage has " + std::to_string(instructions_) +
                          " instructions. Does this rank follow the schedule of its job?");
  }
  if (std::ranges::any_of(assignment.clocks, [](Megahertz clock) { return clock.value < 0; })) {
    return Error::invalid("an assignment of version " + std::to_string(assignment.version) +
                          " has a negative clock");
  }
  if (!assignments_.empty() && assignment.epoch < assignments_.back().epoch) return ok_status();
  const auto age = [](const StageAssignment& one) { return std::pair(one.epoch, one.version); };
  const auto position = std::ranges::lower_bound(assignments_, age(assignment), {}, age);
  if (position != assignments_.end() && age(*position) == age(assignment)) return ok_status();
  const auto added = assignments_.insert(position, assignment);
  if (added->clocks.size() == 1) added->clocks.assign(instructions_, assignment.clocks.front());
  // The oldest is what the newest are to replace: it goes first.
  if (assignments_.size() > kMostAssignments) assignments_.erase(assignments_.begin());
  return ok_status();
}

void AssignmentBook::forget_before(std::int64_t iteration) {
  const StageAssignment* holds = in_force(iteration);
  if (holds == nullptr) return;
  assignments_.erase(assignments_.begin(), assignments_.begin() + (holds - assignments_.data()));
}

const StageAssignment* AssignmentBook::in_force(std::int64_t iteration) const noexcept {
  for (std::size_t i = assignments_.size(); i-- > 0;) {
    if (assignments_[i].from_iteration <= iteration) return &assignments_[i];
  }
  return nullptr;
}

const StageAssignment* AssignmentBook::of_version(std::uint64_t version) const noexcept {
  const auto found = std::ranges::find(assignments_, version, &StageAssignment::version);
  return found != assignments_.end() ? &*found : nullptr;
}

}  // namespace harpe
