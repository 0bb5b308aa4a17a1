#include "harpe/training/client/assignment_book.h"

#include <algorithm>
#include <utility>

#include "harpe/base/text.h"

namespace harpe::training {
namespace {

/// Returns the text of two values, such as "810 MHz and as it is".
std::string both(double one, double other, const char* unit) {
  const auto text = [unit](double value) {
    return value == 0 ? std::string("as it is") : shortest(value) + unit;
  };
  return text(one) + " and " + text(other);
}

RankAssignment of_rank(const StageAssignment& assignment, std::size_t instructions) {
  RankAssignment own{assignment};
  if (own.clocks.size() == 1) {
    own.clocks.assign(instructions, assignment.clocks.front());
    if (!own.knobs.empty()) own.knobs.assign(instructions, assignment.knobs.front());
  }
  bool is_first = true;
  for (std::size_t i = 0; i < own.knobs.size(); ++i) {
    const Knobs& knobs = own.knobs[i];
    own.has_labels = own.has_labels || !knobs.label.empty();
    const Knobs steady{.memory_clock = knobs.memory_clock, .power_limit = knobs.power_limit};
    // An instruction without a setting runs with the setting of the others.
    if (own.clocks[i].value == 0 && steady.empty()) continue;
    if (std::exchange(is_first, false)) own.steady = steady;
    if (steady == own.steady || !own.refusal.empty()) continue;
    const bool is_clock = steady.memory_clock != own.steady.memory_clock;
    own.refusal =
        "the plan changes the " +
        (is_clock ? "memory clock (" +
                        both(own.steady.memory_clock.value, steady.memory_clock.value, " MHz")
                  : "power limit (" +
                        both(own.steady.power_limit.value, steady.power_limit.value, " W")) +
        ") between instructions of this stage, which takes a GPU too long: give the job a profile "
        "with one for each stage";
  }
  return own;
}

}  // namespace

Status AssignmentBook::add(const StageAssignment& assignment) {
  if (assignment.version == 0) return Error::invalid("an assignment cannot have version 0");
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
  if (!assignment.knobs.empty() && assignment.knobs.size() != assignment.clocks.size()) {
    return Error::invalid("an assignment of version " + std::to_string(assignment.version) +
                          " has settings other than clocks");
  }
  if (!assignments_.empty() && assignment.epoch < assignments_.back().epoch) return ok_status();
  const auto age = [](const StageAssignment& one) { return std::pair(one.epoch, one.version); };
  const auto position = std::ranges::lower_bound(assignments_, age(assignment), {}, age);
  if (position != assignments_.end() && age(*position) == age(assignment)) return ok_status();
  assignments_.insert(position, of_rank(assignment, instructions_));
  // The newest assignments replace the oldest one, so it is removed first.
  if (assignments_.size() > kMostAssignments) assignments_.erase(assignments_.begin());
  return ok_status();
}

void AssignmentBook::forget_before(std::int64_t iteration) {
  const RankAssignment* holds = in_force(iteration);
  if (holds == nullptr) return;
  assignments_.erase(assignments_.begin(), assignments_.begin() + (holds - assignments_.data()));
}

const RankAssignment* AssignmentBook::in_force(std::int64_t iteration) const noexcept {
  for (std::size_t i = assignments_.size(); i-- > 0;) {
    if (assignments_[i].from_iteration <= iteration) return &assignments_[i];
  }
  return nullptr;
}

const RankAssignment* AssignmentBook::of_version(std::uint64_t version) const noexcept {
  const auto found = std::ranges::find(assignments_, version, &RankAssignment::version);
  return found != assignments_.end() ? &*found : nullptr;
}

}  // namespace harpe::training
