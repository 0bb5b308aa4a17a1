#include "harpe/plan/schedule/check.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>

namespace harpe {
namespace {

/// Returns "micro-batch 3" or "micro-batches 3 to 5".
std::string range(const std::string& one, const std::string& many, int first, int last) {
  if (first == last) return one + ' ' + std::to_string(first);
  return many + ' ' + std::to_string(first) + " to " + std::to_string(last);
}

class Checker {
 public:
  Checker(const Schedule& schedule, const plan::Locations* where, Diagnostics& diagnostics)
      : schedule_(schedule), where_(where), diagnostics_(diagnostics) {}

  void check() {
    if (!sizes_are_right()) return;
    for (int stage = 0; stage < schedule_.stages; ++stage) {
      const auto& list = schedule_.lists[stage];
      if (list.empty()) diagnostics_.add("stage " + std::to_string(stage) + " has no instruction");
      for (std::size_t i = 0; i < list.size(); ++i) {
        check_instruction(list[i], {stage, static_cast<int>(i)});
      }
    }
    std::sort(uses_.begin(), uses_.end(), [](const Use& a, const Use& b) {
      return std::tie(a.part, a.micro_batch, a.role, a.place.stage, a.place.position) <
             std::tie(b.part, b.micro_batch, b.role, b.place.stage, b.place.position);
    });
    check_uses();
  }

 private:
  struct Place {
    int stage;
    int position;
  };
  /// Roles that an instruction can have only once for each micro-batch on each part.
  enum Role : std::uint8_t {
    kForwardRole,
    kBackwardRole,
    kWeightRole,
    kRecomputeRole,
    kSendRole,
    kRecvRole,
    kSendGradientRole,
    kRecvGradientRole,
  };
  static constexpr int kRoles = 8;
  struct Use {
    int part;
    int micro_batch;
    Role role;
    Place place;
  };

  const Instruction& at(const Place& place) const {
    return schedule_.lists[place.stage][place.position];
  }

  void add(const Place& place, const std::string& message) {
    if (where_ != nullptr) {
      const plan::Location& location = (*where_)[place.stage][place.position];
      diagnostics_.add(location.line, location.column, message);
    } else {
      diagnostics_.add(text(place) + ": " + message);
    }
  }

  std::string text(const Place& place) const {
    if (where_ != nullptr) {
      const plan::Location& location = (*where_)[place.stage][place.position];
      return "line " + std::to_string(location.line) + ", column " +
             std::to_string(location.column);
    }
    return "stage " + std::to_string(place.stage) + ", position " + std::to_string(place.position);
  }

  bool sizes_are_right() {
    const std::size_t before = diagnostics_.count();
    if (schedule_.stages < 1) diagnostics_.add("a schedule needs at least one stage");
    if (schedule_.micro_batches < 1) diagnostics_.add("a schedule needs at least one micro-batch");
    if (schedule_.placement.empty()) diagnostics_.add("a schedule needs at least one model part");
    if (static_cast<int>(schedule_.lists.size()) != schedule_.stages) {
      diagnostics_.add("a schedule of " + std::to_string(schedule_.stages) + " stages has " +
                       std::to_string(schedule_.lists.size()) + " lists");
    }
    if (schedule_.copies < 1 || schedule_.parts() % schedule_.copies != 0) {
      diagnostics_.add(std::to_string(schedule_.parts()) + " model parts cannot be those of " +
                       std::to_string(schedule_.copies) + " equal models");
    }
    for (int part = 0; part < schedule_.parts(); ++part) {
      if (schedule_.placement[part] < 0 || schedule_.placement[part] >= schedule_.stages) {
        diagnostics_.add("part " + std::to_string(part) + " is placed on stage " +
                         std::to_string(schedule_.placement[part]) + " of " +
                         std::to_string(schedule_.stages));
      }
    }
    std::size_t instructions = 0;
    for (const auto& list : schedule_.lists) instructions += list.size();
    if (instructions > kMaxInstructions) {
      diagnostics_.add("a schedule may have " + std::to_string(kMaxInstructions) +
                       " instructions at most, this one has " + std::to_string(instructions));
    }
    return diagnostics_.count() == before;
  }

  void check_instruction(const Instruction& instruction, const Place& place) {
    const InstructionKind kind = instruction.kind;
    const bool is_block = kind == InstructionKind::kForwardBackward;
    const bool is_transfer = kind == InstructionKind::kSend || kind == InstructionKind::kRecv;
    bool numbered = check_numbers(instruction, instruction.part, instruction.micro_batch, place);
    if (is_block) {
      numbered &= check_numbers(instruction, instruction.backward_part,
                                instruction.backward_micro_batch, place);
      if (instruction.part == instruction.backward_part &&
          instruction.micro_batch == instruction.backward_micro_batch) {
        add(place, "an overlapped block cannot hold a forward and the backward that waits for it");
      }
    } else if (instruction.backward_part != -1 || instruction.backward_micro_batch != -1) {
      add(place, "only an overlapped block has a second part and micro-batch");
    }
    if (instruction.gradient && !is_transfer) {
      add(place, "only send and recv can carry a gradient");
    }
    if (!numbered || instruction.part == -1) return;
    switch (kind) {
      case InstructionKind::kForward:
        return use(instruction, kForwardRole, place);
      case InstructionKind::kBackward:
      case InstructionKind::kRecomputeBackward:
        return use(instruction, kBackwardRole, place);
      case InstructionKind::kWeight:
        return use(instruction, kWeightRole, place);
      case InstructionKind::kRecompute:
        return use(instruction, kRecomputeRole, place);
      case InstructionKind::kForwardBackward:
        use(instruction, kForwardRole, place);
        uses_.push_back(
            {instruction.backward_part, instruction.backward_micro_batch, kBackwardRole, place});
        return;
      case InstructionKind::kSend:
        return use(instruction, instruction.gradient ? kSendGradientRole : kSendRole, place);
      case InstructionKind::kRecv:
        return use(instruction, instruction.gradient ? kRecvGradientRole : kRecvRole, place);
      default:
        return;
    }
  }

  void use(const Instruction& instruction, Role role, const Place& place) {
    uses_.push_back({instruction.part, instruction.micro_batch, role, place});
  }

  /// Returns true if the kind allows this part and micro-batch.
  bool check_numbers(const Instruction& instruction, int part, int micro_batch,
                     const Place& place) {
    const bool fixed_time = is_fixed_time(instruction.kind);
    const bool is_transfer =
        instruction.kind == InstructionKind::kSend || instruction.kind == InstructionKind::kRecv;
    bool right = true;
    if (is_transfer && (part == -1) != (micro_batch == -1)) {
      add(place,
          std::string(name(instruction.kind)) + " needs both a part and a micro-batch, or neither");
      right = false;
    }
    if (!fixed_time || part != -1) {
      right &= in_range(place, "part", part, schedule_.parts());
      if (right && schedule_.placement[part] != place.stage) {
        add(place, "part " + std::to_string(part) + " is on stage " + std::to_string(place.stage) +
                       " here, but belongs to stage " + std::to_string(schedule_.placement[part]));
      }
    }
    if (!fixed_time || micro_batch != -1) {
      right &= in_range(place, "micro-batch", micro_batch, schedule_.micro_batches);
    }
    return right;
  }

  bool in_range(const Place& place, const char* what, int number, int count) {
    if (number >= 0 && number < count) return true;
    add(place, std::string(what) + " " + std::to_string(number) + " is not one of 0 to " +
                   std::to_string(count - 1));
    return false;
  }

  /// Walks the sorted uses: one group for each micro-batch on each part, without gaps.
  void check_uses() {
    int part = 0;
    int micro_batch = 0;  // the next expected
    for (std::size_t begin = 0; begin < uses_.size();) {
      const Use& first = uses_[begin];
      std::size_t end = begin;
      while (end < uses_.size() && uses_[end].part == first.part &&
             uses_[end].micro_batch == first.micro_batch) {
        ++end;
      }
      if (first.part != part) {
        close_part(part, micro_batch, first.part - 1, begin);
        part = first.part;
        micro_batch = 0;
      }
      missing_micro_batches(part, micro_batch, first.micro_batch - 1, first.place);
      micro_batch = first.micro_batch + 1;
      check_group(begin, end);
      begin = end;
    }
    close_part(part, micro_batch, schedule_.parts() - 1, uses_.size());
  }

  /// Reports missing micro-batches from `micro_batch` on for `part`, whose uses end before `end`,
  /// and the parts after it up to `last`, which have no uses.
  void close_part(int part, int micro_batch, int last, std::size_t end) {
    const bool was_used = micro_batch > 0;
    if (was_used) {
      missing_micro_batches(part, micro_batch, schedule_.micro_batches - 1, uses_[end - 1].place);
    }
    const int first_unused = was_used ? part + 1 : part;
    if (first_unused <= last) {
      diagnostics_.add("no computation for " + range("part", "parts", first_unused, last));
    }
  }

  void missing_micro_batches(int part, int first, int last, const Place& nearby) {
    if (first > last) return;
    add(nearby, "no computation for " + range("micro-batch", "micro-batches", first, last) +
                    " (of " + std::to_string(schedule_.micro_batches) + ") on part " +
                    std::to_string(part));
  }

  void check_group(std::size_t begin, std::size_t end) {
    const Use* first[kRoles] = {};
    for (std::size_t i = begin; i < end; ++i) {
      const Use& use = uses_[i];
      if (first[use.role] == nullptr) {
        first[use.role] = &use;
      } else {
        add(use.place,
            role_text(use) + " appears twice; the first is at " + text(first[use.role]->place));
      }
    }
    const Use& any = uses_[begin];
    for (const Role role : {kForwardRole, kBackwardRole}) {
      if (first[role] == nullptr) {
        add(any.place, role_text({any.part, any.micro_batch, role, any.place}) + " is missing");
      }
    }
    if (first[kBackwardRole] == nullptr) return;
    const InstructionKind backward = at(first[kBackwardRole]->place).kind;
    if (first[kWeightRole] != nullptr && backward != InstructionKind::kBackward) {
      add(first[kWeightRole]->place, role_text(*first[kWeightRole]) + " is already part of its " +
                                         std::string(name(backward)));
    }
    if (first[kRecomputeRole] != nullptr && backward == InstructionKind::kRecomputeBackward) {
      add(first[kRecomputeRole]->place, role_text(*first[kRecomputeRole]) +
                                            " is already part of its " +
                                            std::string(name(backward)));
    }
  }

  static std::string role_text(const Use& use) {
    static constexpr const char* kNames[kRoles] = {
        "forward",         "backward",        "weight",        "recompute",
        "activation send", "activation recv", "gradient send", "gradient recv"};
    return std::string(kNames[use.role]) + " of micro-batch " + std::to_string(use.micro_batch) +
           " on part " + std::to_string(use.part);
  }

  const Schedule& schedule_;
  const plan::Locations* where_;
  Diagnostics& diagnostics_;
  std::vector<Use> uses_;
};

}  // namespace

void plan::check_schedule(const Schedule& schedule, const plan::Locations* where,
                          Diagnostics& diagnostics) {
  Checker(schedule, where, diagnostics).check();
}

void plan::infer_sizes(Schedule& schedule, const plan::Locations& where, Diagnostics& diagnostics) {
  schedule.stages = static_cast<int>(schedule.lists.size());
  struct FirstUse {
    int stage;
    plan::Location location;
  };
  std::map<int, FirstUse> parts;
  int micro_batches = 0;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (std::size_t i = 0; i < schedule.lists[stage].size(); ++i) {
      const Instruction& instruction = schedule.lists[stage][i];
      if (is_fixed_time(instruction.kind)) continue;
      micro_batches = std::max(
          {micro_batches, instruction.micro_batch + 1, instruction.backward_micro_batch + 1});
      parts.try_emplace(instruction.part, FirstUse{stage, where[stage][i]});
      if (instruction.kind == InstructionKind::kForwardBackward) {
        parts.try_emplace(instruction.backward_part, FirstUse{stage, where[stage][i]});
      }
    }
  }
  if (schedule.micro_batches == 0) schedule.micro_batches = micro_batches;
  if (!schedule.placement.empty()) return;
  for (const auto& [part, use] : parts) {
    const int expected = static_cast<int>(schedule.placement.size());
    if (part != expected) {
      diagnostics.add(use.location.line, use.location.column,
                      "no computation for " + range("part", "parts", expected, part - 1) +
                          ", but for part " + std::to_string(part));
      return;
    }
    schedule.placement.push_back(use.stage);
  }
}

int Schedule::chunk(int part) const {
  const auto begin = placement.begin();
  return static_cast<int>(std::count(begin, begin + part, placement[part]));
}

Status validate(const Schedule& schedule) {
  Diagnostics diagnostics;
  plan::check_schedule(schedule, nullptr, diagnostics);
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

}  // namespace harpe
