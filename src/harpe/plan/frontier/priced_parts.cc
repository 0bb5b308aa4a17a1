#include "harpe/plan/frontier/priced_parts.h"

#include <algorithm>
#include <map>
#include <span>
#include <tuple>

#include "harpe/plan/profile/chunks.h"
#include "harpe/plan/profile/stage_list.h"

namespace harpe::plan {
bool has_weight_rows(const Schedule& schedule, const Profile& profile) {
  return std::ranges::any_of(profile.entries(), [&](const InstructionProfile& entry) {
    return entry.kind == InstructionKind::kWeight && entry.stage < schedule.stages;
  });
}

PricedParts::PricedParts(const Schedule& schedule, const Profile& profile) : profile_(profile) {
  for (int part = 0; part < schedule.parts(); ++part) chunk_.push_back(schedule.chunk(part));
  for (const auto& list : schedule.lists) {
    for (const Instruction& i : list) {
      if (i.kind == InstructionKind::kWeight) weights_.emplace(i.part, i.micro_batch);
    }
  }
  has_gradients_ = !weights_.empty() || has_weight_rows(schedule, profile);
}

bool PricedParts::has_rows(int stage, int part, InstructionKind kind) const {
  return !profile_.points(stage, chunk_[part], kind).empty();
}

std::vector<Instruction> PricedParts::operator()(int stage, const Instruction& i) const {
  std::vector<Instruction> parts;
  const auto add = [&](InstructionKind kind, int part, int micro_batch) {
    parts.push_back({.kind = kind, .part = part, .micro_batch = micro_batch});
  };
  const auto add_backward = [&](int part, int micro_batch) {
    add(InstructionKind::kBackward, part, micro_batch);
    if (weights_.contains({part, micro_batch})) return;  // the schedule has it elsewhere
    // So a stage without `weight` rows is an error. Without this part it would do less work.
    if (has_gradients_) add(InstructionKind::kWeight, part, micro_batch);
  };
  const bool is_whole = i.part < 0 || has_rows(stage, i.part, i.kind);
  if (i.kind == InstructionKind::kBackward) {
    add_backward(i.part, i.micro_batch);
  } else if (i.kind == InstructionKind::kForwardBackward && !is_whole) {
    add(InstructionKind::kForward, i.part, i.micro_batch);
    add_backward(i.backward_part, i.backward_micro_batch);
  } else if (i.kind == InstructionKind::kRecomputeBackward && !is_whole) {
    add(InstructionKind::kRecompute, i.part, i.micro_batch);
    add_backward(i.part, i.micro_batch);
  } else {
    parts.push_back(i);
  }
  return parts;
}

Status check_stages(const Schedule& schedule, const Profile& profile, const std::string& file) {
  if (profile.stages() >= schedule.stages) return ok_status();
  Diagnostics diagnostics(file);
  diagnostics.add("has " + std::to_string(profile.stages()) +
                  (profile.stages() == 1 ? " stage" : " stages") + ", fewer than the " +
                  std::to_string(schedule.stages) + " of the schedule");
  return Error::invalid(std::move(diagnostics));
}

std::optional<std::string> note_on_stages(const Schedule& schedule, const Profile& profile) {
  if (profile.stages() <= schedule.stages) return std::nullopt;
  return "the profile has " + std::to_string(profile.stages()) +
         " stages, of which the schedule uses " + std::to_string(schedule.stages) +
         ": the work of the others is left out";
}

std::vector<std::string> unused_rows(const Schedule& schedule, const Profile& profile) {
  std::vector<std::string> sentences;
  if (auto note = note_on_stages(schedule, profile)) sentences.push_back(*std::move(note));
  const PricedParts parts_of(schedule, profile);
  std::set<std::tuple<int, int, InstructionKind>> used;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (const Instruction& i : schedule.lists[stage]) {
      if (i.part < 0) continue;
      for (const Instruction& part : parts_of(stage, i)) {
        const int chunk = profile.has_chunks() ? schedule.chunk(part.part) : 0;
        used.emplace(stage, chunk, part.kind);
      }
    }
  }
  std::map<InstructionKind, std::vector<int>> unused;
  for (const InstructionProfile& entry : profile.entries()) {
    if (entry.stage < schedule.stages && !is_fixed_time(entry.kind) &&
        !used.contains({entry.stage, entry.chunk, entry.kind}))
      unused[entry.kind].push_back(entry.stage);
  }
  for (auto& [kind, stages] : unused) {
    stages.erase(std::unique(stages.begin(), stages.end()), stages.end());  // one per chunk
    sentences.push_back("the schedule does not use the profile's rows of " +
                        std::string(name(kind)) + " (" + stage_list(stages) + ")");
  }
  return sentences;
}

Profile with_rows_of_wholes(const Schedule& schedule, const Profile& profile) {
  const auto splits = [](const auto& list) {
    return std::ranges::find(list, InstructionKind::kWeight, &Instruction::kind) != list.end();
  };
  if (std::ranges::any_of(schedule.lists, splits)) return profile;
  const PricedParts parts_of(schedule, profile);
  std::map<std::tuple<int, int, InstructionKind>, std::vector<OperatingPoint>> wholes;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (const Instruction& i : schedule.lists[stage]) {
      if (i.part < 0) continue;
      const int chunk = schedule.chunk(i.part);
      // A row belongs to one chunk: the sum of two chunks has no row.
      if (i.backward_part >= 0 && schedule.chunk(i.backward_part) != chunk) continue;
      const auto key = std::tuple(stage, profile.has_chunks() ? chunk : 0, i.kind);
      const std::vector<Instruction> parts = parts_of(stage, i);
      if (parts.size() < 2 || wholes.contains(key)) continue;
      std::vector<std::span<const OperatingPoint>> rows;
      for (const Instruction& part : parts) rows.push_back(profile.points(stage, chunk, part.kind));
      wholes[key] = points_in_a_row(rows);
    }
  }
  if (wholes.empty()) return profile;
  std::vector<InstructionProfile> entries;
  for (const InstructionProfile& entry : profile.entries()) {
    const bool has_whole = wholes.contains({entry.stage, entry.chunk, InstructionKind::kBackward});
    // The rows of the whole backward replace those of its two gradients.
    if (has_whole &&
        (entry.kind == InstructionKind::kBackward || entry.kind == InstructionKind::kWeight))
      continue;
    entries.push_back(entry);
  }
  for (auto& [key, points] : wholes) {
    const auto& [stage, chunk, kind] = key;
    if (!points.empty()) entries.push_back({stage, chunk, kind, std::move(points)});
  }
  return profile.with_entries(std::move(entries));
}

}  // namespace harpe::plan
