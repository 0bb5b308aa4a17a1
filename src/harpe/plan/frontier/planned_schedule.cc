#include "harpe/plan/frontier/planned_schedule.h"

#include <algorithm>
#include <set>
#include <span>
#include <string>
#include <utility>

namespace harpe::plan {
namespace {

std::string text(InstructionKind kind, int micro_batch, int chunk, bool has_chunks) {
  std::string text(name(kind));
  if (micro_batch >= 0) text += " of micro-batch " + std::to_string(micro_batch);
  if (has_chunks) text += " on chunk " + std::to_string(chunk);
  return text;
}

class LineUp {
 public:
  LineUp(const Plan& plan, const Schedule& schedule, const Profile& profile,
         Diagnostics& diagnostics)
      : plan_(plan), schedule_(schedule), diagnostics_(diagnostics) {
    for (int part = 0; part < schedule.parts(); ++part) chunk_.push_back(schedule.chunk(part));
    for (const auto& list : schedule.lists) {
      for (const Instruction& i : list) {
        if (i.kind == InstructionKind::kWeight) weights_.emplace(i.part, i.micro_batch);
      }
    }
    for (const InstructionProfile& entry : profile.entries())
      knows_weights_ |= entry.kind == InstructionKind::kWeight && entry.stage < schedule.stages;
  }

  std::optional<PlannedSchedule> line_up() {
    result_.schedule = schedule_;
    bool same = true;
    for (stage_ = 0; stage_ < schedule_.stages; ++stage_) same &= line_up_stage();
    if (!same) return std::nullopt;
    return std::move(result_);
  }

 private:
  bool line_up_stage() {
    const auto& scheduled = schedule_.lists[stage_];
    result_.schedule.lists[stage_].clear();
    result_.first.emplace_back();
    next_ = 0;
    for (std::size_t n = 0; n < scheduled.size(); ++n) {
      const std::span rest = std::span(scheduled).subspan(n);
      if (!take_added(rest) || !take(scheduled[n])) return false;
    }
    if (!take_added({})) return false;
    if (next_ < entries().size()) {
      return differ("runs " + entry_text() + ", which the schedule does not have");
    }
    result_.first[stage_].push_back(static_cast<int>(next_));
    return true;
  }

  const std::vector<PlannedInstruction>& entries() const { return plan_.instructions[stage_]; }
  bool at_switch() const {
    return next_ < entries().size() && entries()[next_].kind == InstructionKind::kSwitch;
  }

  /// Matches fixed-time instructions that the plan adds before the rest of the schedule's list.
  /// Returns false, with a diagnostic, if one is not allowed there.
  bool take_added(std::span<const Instruction> rest) {
    for (; next_ < entries().size(); ++next_) {
      const PlannedInstruction& entry = entries()[next_];
      Instruction added{.kind = entry.kind, .micro_batch = entry.micro_batch};
      const bool is_load = entry.kind == InstructionKind::kLoad;
      const bool is_end =
          entry.kind == InstructionKind::kReduce || entry.kind == InstructionKind::kOptimizer;
      const bool is_scheduled = !rest.empty() && rest[0].kind == entry.kind;
      if ((!is_load && !is_end) || is_scheduled) return true;
      const auto computes = [](const Instruction& i) { return !is_fixed_time(i.kind); };
      if (is_end && std::ranges::any_of(rest, computes)) {
        return differ("runs " + entry_text() + " before computations of the schedule");
      }
      if (is_load) {
        const bool has_forward = !rest.empty() &&
                                 (rest[0].kind == InstructionKind::kForward ||
                                  rest[0].kind == InstructionKind::kForwardBackward) &&
                                 rest[0].micro_batch == entry.micro_batch &&
                                 chunk_[rest[0].part] == entry.chunk;
        if (!has_forward)
          return differ("runs " + entry_text() + ", but not directly before its forward");
        added.part = rest[0].part;
      }
      if (entry.fused_with_next)
        return differ("fuses " + entry_text() + " with the next instruction");
      emit(added, next_);
    }
    return true;
  }

  /// Matches one instruction of the schedule, as a whole or in parts. Returns false, with a
  /// diagnostic, if the plan differs.
  bool take(const Instruction& whole) {
    const std::size_t begin = next_;
    if (whole.kind != InstructionKind::kSwitch) skip_switches(false);
    const std::vector<Instruction> parts = parts_of(whole);
    for (std::size_t k = 0; k < parts.size(); ++k) {
      if (k > 0 && !skip_switches(true)) return not_fused(whole);
      if (next_ == entries().size()) {
        return differ("ends, where the schedule has " + scheduled_text(parts[k]));
      }
      if (!is(entries()[next_], parts[k])) {
        return differ("runs " + entry_text() + ", where the schedule has " +
                      scheduled_text(parts[k]));
      }
      if (entries()[next_].fused_with_next != (k + 1 < parts.size())) return not_fused(whole);
      ++next_;
    }
    emit(whole, begin);
    return true;
  }

  bool skip_switches(bool fused) {
    for (; at_switch(); ++next_) {
      if (entries()[next_].fused_with_next != fused) return false;
    }
    return true;
  }

  /// Returns the parts in which the plan runs an instruction of the schedule, by its next entry.
  /// The solver has its own rule (`PricedParts`), because the check of a plan shares no code with
  /// the solver.
  std::vector<Instruction> parts_of(const Instruction& whole) const {
    const InstructionKind begins = next_ < entries().size() ? entries()[next_].kind : whole.kind;
    std::vector<Instruction> parts;
    parts.reserve(3);
    const auto add = [&](InstructionKind kind, int part, int micro_batch) {
      parts.push_back({.kind = kind, .part = part, .micro_batch = micro_batch});
    };
    // If the schedule splits some backwards, or the profile has rows for weight gradients,
    // `backward` rows are costs of the input gradient. A full backward then has two parts.
    const auto add_backward = [&](int part, int micro_batch) {
      add(InstructionKind::kBackward, part, micro_batch);
      if (weights_.contains({part, micro_batch})) return;
      if (!weights_.empty() || knows_weights_) add(InstructionKind::kWeight, part, micro_batch);
    };
    if (whole.kind == InstructionKind::kBackward) {
      add_backward(whole.part, whole.micro_batch);
    } else if (whole.kind == InstructionKind::kForwardBackward &&
               begins == InstructionKind::kForward) {
      add(begins, whole.part, whole.micro_batch);
      add_backward(whole.backward_part, whole.backward_micro_batch);
    } else if (whole.kind == InstructionKind::kRecomputeBackward &&
               begins == InstructionKind::kRecompute) {
      add(begins, whole.part, whole.micro_batch);
      add_backward(whole.part, whole.micro_batch);
    } else {
      parts.push_back(whole);
    }
    return parts;
  }

  bool is(const PlannedInstruction& entry, const Instruction& i) const {
    const auto same_chunk = [&](int chunk, int part) { return part < 0 || chunk == chunk_[part]; };
    return entry.kind == i.kind && entry.micro_batch == i.micro_batch &&
           entry.gradient == i.gradient && same_chunk(entry.chunk, i.part) &&
           entry.backward_micro_batch == i.backward_micro_batch &&
           same_chunk(entry.backward_chunk, i.backward_part);
  }

  void emit(const Instruction& instruction, std::size_t first_entry) {
    result_.schedule.lists[stage_].push_back(instruction);
    result_.first[stage_].push_back(static_cast<int>(first_entry));
  }

  std::string entry_text() const {
    const PlannedInstruction& i = entries()[next_];
    return text(i.kind, i.micro_batch, i.chunk, i.chunk > 0 || schedule_.chunks() > 1);
  }
  std::string scheduled_text(const Instruction& i) const {
    return text(i.kind, i.micro_batch, i.part < 0 ? 0 : chunk_[i.part], schedule_.chunks() > 1);
  }
  bool differ(const std::string& how) {
    diagnostics_.add("stage " + std::to_string(stage_) + ", instruction " + std::to_string(next_) +
                     ": the plan " + how);
    return false;
  }
  bool not_fused(const Instruction& whole) {
    return differ("has \"fused_with_next\" wrong at " + entry_text() +
                  ": the schedule runs as one " + scheduled_text(whole));
  }

  const Plan& plan_;
  const Schedule& schedule_;
  Diagnostics& diagnostics_;
  std::vector<int> chunk_;  ///< chunk of each part
  std::set<std::pair<int, int>> weights_;
  bool knows_weights_ = false;  ///< true if the profile has rows for weight gradients
  PlannedSchedule result_;
  int stage_ = 0;
  std::size_t next_ = 0;  ///< next entry of the stage's list
};

bool same_sizes(const Plan& plan, const Schedule& schedule, Diagnostics& diagnostics) {
  const std::size_t before = diagnostics.count();
  const auto expect = [&](const char* what, int found, int wanted) {
    if (found == wanted) return;
    diagnostics.add("the plan has " + std::to_string(found) + " " + what + ", its schedule " +
                    std::to_string(wanted));
  };
  expect("stages", plan.stages, schedule.stages);
  expect("micro-batches", plan.micro_batches, schedule.micro_batches);
  expect("chunks a stage", plan.chunks, schedule.chunks());
  expect("independent models", plan.copies, schedule.copies);
  if (diagnostics.count() == before && plan.placement != schedule.placement) {
    diagnostics.add("the plan places the parts of the model on other stages than its schedule");
  }
  return diagnostics.count() == before;
}

}  // namespace

Result<Schedule> named_schedule(const Plan& plan) {
  const auto& generators = schedule_generators();
  const auto found = std::ranges::find(generators, plan.schedule, &ScheduleGenerator::name);
  if (found == generators.end()) {
    return Error::invalid(plan.schedule.empty()
                              ? std::string("the plan does not name its schedule")
                              : "the plan's schedule '" + plan.schedule + "' is not known by name");
  }
  // Checked before generating as many micro-batches as a file may claim.
  std::size_t entries = 0;
  for (const auto& list : plan.instructions) entries += list.size();
  if (entries / static_cast<std::size_t>(std::max(plan.stages, 1)) <
      static_cast<std::size_t>(plan.micro_batches)) {
    return Error::invalid("the plan has only " + std::to_string(entries) + " instructions for " +
                          std::to_string(plan.micro_batches) + " micro-batches on " +
                          std::to_string(plan.stages) + " stages");
  }
  return found->make(
      {.stages = plan.stages, .micro_batches = plan.micro_batches, .chunks = plan.chunks});
}

std::optional<PlannedSchedule> line_up(const Plan& plan, const Schedule& schedule,
                                       const Profile& profile, Diagnostics& diagnostics) {
  if (!same_sizes(plan, schedule, diagnostics)) return std::nullopt;
  return LineUp(plan, schedule, profile, diagnostics).line_up();
}

}  // namespace harpe::plan
