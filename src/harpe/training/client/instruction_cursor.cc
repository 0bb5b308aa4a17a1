#include "harpe/training/client/instruction_cursor.h"

#include <algorithm>
#include <string>

namespace harpe::training {

Result<InstructionCursor> InstructionCursor::make(const Schedule& schedule, int stage) {
  if (stage < 0 || stage >= static_cast<int>(schedule.lists.size())) {
    return Error::invalid("the schedule has stages 0 to " +
                          std::to_string(static_cast<int>(schedule.lists.size()) - 1) +
                          ", and no stage " + std::to_string(stage));
  }
  InstructionCursor cursor;
  const std::vector<Instruction>& list = schedule.lists[static_cast<std::size_t>(stage)];
  cursor.instructions_ = list.size();
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (is_fixed_time(list[i].kind)) continue;
    const int chunk = list[i].part < 0 ? 0 : schedule.chunk(list[i].part);
    cursor.entries_.push_back({list[i].kind, chunk, list[i].micro_batch, static_cast<int>(i)});
    cursor.chunks_ = std::max(cursor.chunks_, chunk + 1);
    cursor.micro_batches_ = std::max(cursor.micro_batches_, list[i].micro_batch + 1);
  }
  if (cursor.entries_.empty()) {
    return Error::invalid("stage " + std::to_string(stage) + " of the schedule computes nothing");
  }
  cursor.index_.assign(
      static_cast<std::size_t>(kInstructionKinds) * cursor.chunks_ * cursor.micro_batches_, -1);
  for (std::size_t i = 0; i < cursor.entries_.size(); ++i) {
    const Entry& entry = cursor.entries_[i];
    if (entry.micro_batch < 0) continue;
    const std::size_t position =
        (static_cast<std::size_t>(entry.kind) * cursor.chunks_ + entry.chunk) *
            cursor.micro_batches_ +
        entry.micro_batch;
    cursor.index_[position] = static_cast<std::int32_t>(i);
  }
  cursor.restart();
  return cursor;
}

void InstructionCursor::go_to(std::size_t entry) noexcept {
  at_ = entry;
  next_ = entry < entries_.size() ? entries_[entry].position : -1;
}

InstructionCursor::Taken InstructionCursor::take(InstructionKind kind, int chunk,
                                                 int micro_batch) noexcept {
  if (at_ < entries_.size() && fits(entries_[at_], kind, chunk, micro_batch)) [[likely]] {
    const int position = next_;
    go_to(at_ + 1);
    return {position, true};
  }
  std::int32_t found = -1;
  if (micro_batch >= 0) {
    if (static_cast<int>(kind) < kInstructionKinds && chunk >= 0 && chunk < chunks_ &&
        micro_batch < micro_batches_) {
      found =
          index_[(static_cast<std::size_t>(kind) * chunks_ + chunk) * micro_batches_ + micro_batch];
    }
  } else {
    for (std::size_t i = at_; i < entries_.size() && found < 0; ++i) {
      if (fits(entries_[i], kind, chunk, -1)) found = static_cast<std::int32_t>(i);
    }
  }
  if (found < 0) return {-1, false};
  const int position = entries_[static_cast<std::size_t>(found)].position;
  go_to(static_cast<std::size_t>(found) + 1);
  return {position, false};
}

}  // namespace harpe::training
