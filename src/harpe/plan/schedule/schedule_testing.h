#pragma once
/// \file
/// Helpers for tests of schedules: printing, results and makespans.

#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/plan/schedule/replay.h"
#include "harpe/plan/schedule/schedule.h"

namespace harpe::plan {

inline std::ostream& operator<<(std::ostream& out, const Instruction& instruction) {
  return out << name(instruction.kind) << ' ' << instruction.part << ' ' << instruction.micro_batch;
}

/// Returns the value. If there is none, the test fails with the message.
template <class T>
T must(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.error().text();
    return {};
  }
  return *std::move(result);
}

/// Returns the messages of a failure; "" for success.
template <class T>
std::string diagnostics_of(const Result<T>& result) {
  return result.ok() ? "" : result.error().text();
}

/// Returns the end of the last instruction without transfers; nullopt if the lists wait for each
/// other in a circle.
inline std::optional<double> makespan(const Schedule& schedule,
                                      const std::function<double(const Instruction&)>& duration) {
  std::vector<std::vector<Seconds>> durations;
  for (const auto& list : schedule.lists) {
    auto& of_stage = durations.emplace_back();
    for (const Instruction& i : list) of_stage.push_back({duration(i)});
  }
  const auto played = replay(schedule, {}, durations);
  if (!played.ok()) return std::nullopt;
  return played->makespan.value;
}

}  // namespace harpe::plan
