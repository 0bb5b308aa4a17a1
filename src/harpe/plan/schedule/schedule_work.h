#pragma once
/// \file
/// The work of a pipeline's stages in one iteration, summed up by kind and chunk.

#include <cstddef>
#include <optional>
#include <vector>

#include "harpe/plan/instruction/instruction.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

/// The computations of one kind on one chunk of a stage, in one iteration.
struct WorkItem {
  InstructionKind kind = InstructionKind::kForward;
  int chunk = 0;
  int count = 0;
};

/// The work items of all stages; those of stage s are numbered from `first(s)`.
class ScheduleWork {
 public:
  explicit ScheduleWork(const Schedule& schedule) {
    for (const std::vector<Instruction>& list : schedule.lists) {
      first_.push_back(items_);
      std::vector<WorkItem>& work = stages_.emplace_back();
      for (const Instruction& instruction : list) {
        if (is_fixed_time(instruction.kind)) continue;
        const int chunk = schedule.chunk(instruction.part);
        WorkItem* item = find(work, instruction.kind, chunk);
        if (item == nullptr) item = &work.emplace_back(WorkItem{instruction.kind, chunk, 0});
        ++item->count;
      }
      items_ += work.size();
    }
  }

  int stages() const { return static_cast<int>(stages_.size()); }
  const std::vector<WorkItem>& stage(int stage) const { return stages_[stage]; }
  std::size_t first(int stage) const { return first_[stage]; }
  std::size_t items() const { return items_; }  ///< number of items of all stages

  /// Returns the position among the items of its stage; nullopt if there is no such item.
  std::optional<std::size_t> find(int stage, InstructionKind kind, int chunk) const {
    const WorkItem* item = find(stages_[stage], kind, chunk);
    if (item == nullptr) return std::nullopt;
    return static_cast<std::size_t>(item - stages_[stage].data());
  }

 private:
  template <class Items>
  static auto find(Items& items, InstructionKind kind, int chunk) -> decltype(items.data()) {
    for (auto& item : items)
      if (item.kind == kind && item.chunk == chunk) return &item;
    return nullptr;
  }

  std::vector<std::vector<WorkItem>> stages_;
  std::vector<std::size_t> first_;
  std::size_t items_ = 0;
};

}  // namespace harpe::plan
