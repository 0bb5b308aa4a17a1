#include "harpe/plan/frontier/fixed_time_rows.h"

#include <set>
#include <string>
#include <utility>
#include <vector>

namespace harpe::plan {
namespace {

using Times = std::pair<InstructionKind, const std::vector<Seconds>*>;

std::vector<Times> all_of(const FixedTimes& times) {
  return {{InstructionKind::kLoad, &times.load},
          {InstructionKind::kReduce, &times.reduce},
          {InstructionKind::kOptimizer, &times.optimizer}};
}

}  // namespace

Profile with_fixed_time_rows(const Profile& profile, const Schedule& schedule,
                             const FixedTimes& times, std::span<const Watts> blocking_power) {
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (const auto& [kind, seconds] : all_of(times)) {
    for (std::size_t stage = 0; stage < seconds->size(); ++stage) {
      const Seconds time = (*seconds)[stage];
      if (time <= Seconds{0}) continue;
      // A profile without chunks has one row for all chunks.
      std::set<int> chunks;
      for (const Instruction& instruction : schedule.lists[stage]) {
        if (instruction.kind != kind) continue;
        const bool counts = profile.has_chunks() && instruction.part >= 0;
        chunks.insert(counts ? schedule.chunk(instruction.part) : 0);
      }
      for (const int chunk : chunks) {
        if (!profile.points(static_cast<int>(stage), chunk, kind).empty()) continue;
        const Joules energy = blocking_power[stage] * time;
        entries.push_back({.stage = static_cast<int>(stage),
                           .chunk = chunk,
                           .kind = kind,
                           .points = {{.clock = Megahertz{0}, .time = time, .energy = energy}}});
      }
    }
  }
  return profile.with_entries(std::move(entries));
}

Status check_fixed_times(const Profile& profile, const FixedTimes& times) {
  Diagnostics diagnostics;
  for (const auto& [kind, seconds] : all_of(times)) {
    for (const InstructionProfile& entry : profile.entries()) {
      const auto stage = static_cast<std::size_t>(entry.stage);
      const bool is_given = stage < seconds->size() && (*seconds)[stage] > Seconds{0};
      if (entry.kind != kind || !is_given) continue;
      diagnostics.add(std::string(name(kind)) + ": the profile already has a time for stage " +
                      std::to_string(entry.stage));
    }
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

}  // namespace harpe::plan
