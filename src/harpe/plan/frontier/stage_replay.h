#pragma once
/// \file
/// Engine of an iteration: the setting of a GPU along the list of its stage, with late changes, and
/// the time and energy of each instruction.
///
///   SettingState<Megahertz> gpu{.in_force = highest};
///   gpu.request(clock, latency);
///   const InstructionCost cost = run_instruction(gpu, cost_at_clock);
///
/// A setting is requested when its instruction begins. Until it is in force, this instruction and
/// the next ones run at the settings before it. An instruction that runs at several settings takes
/// a share of the cost of each: with the old setting in force for the latency, t = w t_old + (1 -
/// w) t_new with w = min(1, latency / t_old), and energy likewise.
///
/// Not thread-safe. A `SettingState` allocates memory only for a new maximum of pending settings.

#include <algorithm>
#include <cstddef>
#include <vector>

#include "harpe/base/units.h"

namespace harpe::plan {

/// The time and energy of an instruction on one GPU.
struct InstructionCost {
  Seconds time{0};
  Joules energy{0};
};

/// The setting of a GPU between two instructions.
/// \tparam Setting  such as a clock or the number of an operating point
template <class Setting>
struct SettingState {
  /// A setting that was requested and is not in force yet.
  struct Pending {
    Setting setting;
    Seconds left;  ///< remaining latency, which falls only while instructions run
    friend bool operator==(const Pending&, const Pending&) = default;
  };
  Setting in_force = {};
  std::vector<Pending> pending = {};  ///< in the order of the requests

  /// Returns the setting that was requested last.
  const Setting& requested() const { return pending.empty() ? in_force : pending.back().setting; }

  /// Requests a setting. Returns false and does nothing if it equals `requested()`.
  bool request(const Setting& setting, Seconds latency) {
    if (setting == requested()) return false;
    pending.push_back({setting, latency});
    return true;
  }

  /// Advances the time. The last requested of the settings whose latency is over is then in force,
  /// and the settings requested before it are dropped.
  void pass(Seconds time) {
    for (Pending& each : pending) each.left = each.left - time;
    for (std::size_t i = pending.size(); i-- > 0;) {
      if (pending[i].left > Seconds{0}) continue;
      in_force = pending[i].setting;
      pending.erase(pending.begin(), pending.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      return;
    }
  }

  friend bool operator==(const SettingState&, const SettingState&) = default;
};

/// Runs an instruction at the settings that are in force one after another.
/// \param cost_at  returns the cost of the whole instruction at a setting; called last with the
///                 setting at which the instruction ends
template <class Setting, class CostAt>
InstructionCost run_instruction(SettingState<Setting>& gpu, const CostAt& cost_at) {
  if (!gpu.pending.empty()) gpu.pass(Seconds{0});
  InstructionCost cost;
  double done = 0;  // share of the instruction
  while (!gpu.pending.empty()) {
    const InstructionCost now = cost_at(gpu.in_force);
    const Seconds rest = now.time * (1 - done);
    const Seconds next =
        std::ranges::min(gpu.pending, {}, &SettingState<Setting>::Pending::left).left;
    const Seconds until = std::min(next, rest);
    const double share = now.time > Seconds{0} ? until / now.time : 1 - done;
    cost = {cost.time + until, cost.energy + share * now.energy};
    gpu.pass(until);
    if (until == rest) return cost;
    done += share;
  }
  const InstructionCost last = cost_at(gpu.in_force);
  return {cost.time + (1 - done) * last.time, cost.energy + (1 - done) * last.energy};
}

/// Repeats an iteration, up to 64 times, until the same settings are pending at its start and at
/// its end: a change that is late at the end of an iteration is late at the start of the next one.
template <class Setting, class Iterate>
void settle(SettingState<Setting>& gpu, const Iterate& iterate) {
  constexpr int kMostRounds = 64;
  for (int round = 0; round < kMostRounds; ++round) {
    const auto begin = gpu.pending;
    iterate();
    if (gpu.pending == begin) return;
  }
}

}  // namespace harpe::plan
