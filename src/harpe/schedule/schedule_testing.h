#pragma once
/// \file
/// For tests of schedules: outside data, a second opinion on timing, comparison.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <string>
#include <tuple>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/schedule/schedule.h"

namespace harpe {

inline std::ostream& operator<<(std::ostream& out, const Instruction& instruction) {
  return out << name(instruction.kind) << ' ' << instruction.part << ' ' << instruction.micro_batch;
}

/// Folder of reference schedules, which lies outside the repository.
inline std::filesystem::path reference_schedules() {
  const char* shared = std::getenv("HARPE_SHARED");
  const std::filesystem::path root =
      shared != nullptr ? shared : std::filesystem::path(HARPE_SOURCE_DIR) / ".." / "shared";
  return root / "data" / "schedules";
}

/// A value that must be there.
template <class T>
T must(Result<T> result) {
  if (!result) {
    ADD_FAILURE() << result.error().text();
    return {};
  }
  return *std::move(result);
}

/// The messages of a failure; "" for success.
template <class T>
std::string faults_of(const Result<T>& result) {
  return result ? "" : result.error().text();
}

/// When the last instruction ends if each starts as soon as it can, without transfers; nothing if
/// the lists wait for each other in a circle. Written straight from the rules, without a graph.
inline std::optional<double> makespan(const Schedule& schedule,
                                      const std::function<double(const Instruction&)>& duration) {
  enum Role { kForward, kBackward, kWeight, kRecompute };
  std::map<std::tuple<Role, int, int>, double> ends;
  std::map<std::tuple<Role, int, int>, bool> recomputes;
  for (const auto& list : schedule.lists) {
    for (const Instruction& i : list) {
      if (i.kind == InstructionKind::kRecompute) {
        recomputes[{kRecompute, i.part, i.micro_batch}] = true;
      }
    }
  }
  const int model = schedule.parts() / schedule.copies;
  using Needs = std::vector<std::tuple<Role, int, int>>;
  const auto forward_needs = [&](int part, int k, Needs& needs) {
    if (part % model != 0) needs.emplace_back(kForward, part - 1, k);
  };
  const auto backward_needs = [&](int part, int k, Needs& needs) {
    needs.emplace_back(kForward, part, k);
    if (part % model != model - 1) needs.emplace_back(kBackward, part + 1, k);
    if (recomputes.contains({kRecompute, part, k})) needs.emplace_back(kRecompute, part, k);
  };

  std::vector<std::size_t> next(schedule.lists.size());
  std::vector<double> now(schedule.lists.size());
  for (bool progress = true; progress;) {
    progress = false;
    for (std::size_t stage = 0; stage < next.size(); ++stage) {
      while (next[stage] < schedule.lists[stage].size()) {
        const Instruction& i = schedule.lists[stage][next[stage]];
        Needs needs;
        Needs gives;
        switch (i.kind) {
          case InstructionKind::kForwardBackward:
            backward_needs(i.backward_part, i.backward_micro_batch, needs);
            gives.emplace_back(kBackward, i.backward_part, i.backward_micro_batch);
            [[fallthrough]];
          case InstructionKind::kForward:
            forward_needs(i.part, i.micro_batch, needs);
            gives.emplace_back(kForward, i.part, i.micro_batch);
            break;
          case InstructionKind::kBackward:
          case InstructionKind::kRecomputeBackward:
            backward_needs(i.part, i.micro_batch, needs);
            gives.emplace_back(kBackward, i.part, i.micro_batch);
            break;
          case InstructionKind::kWeight:
            needs.emplace_back(kBackward, i.part, i.micro_batch);
            gives.emplace_back(kWeight, i.part, i.micro_batch);
            break;
          case InstructionKind::kRecompute:
            needs.emplace_back(kForward, i.part, i.micro_batch);
            gives.emplace_back(kRecompute, i.part, i.micro_batch);
            break;
          default:
            break;
        }
        double start = now[stage];
        bool ready = true;
        for (const auto& need : needs) {
          const auto found = ends.find(need);
          ready = ready && found != ends.end();
          if (ready) start = std::max(start, found->second);
        }
        if (!ready) break;
        now[stage] = start + duration(i);
        for (const auto& given : gives) ends[given] = now[stage];
        ++next[stage];
        progress = true;
      }
    }
  }
  for (std::size_t stage = 0; stage < next.size(); ++stage) {
    if (next[stage] != schedule.lists[stage].size()) return std::nullopt;
  }
  return *std::max_element(now.begin(), now.end());
}

}  // namespace harpe
