// What late settings cost at least, for the check of a certificate.

#include <algorithm>
#include <limits>
#include <map>
#include <span>
#include <utility>

#include "harpe/frontier/verify_parts.h"

namespace harpe::verifying {
namespace {

struct Extra {
  Seconds time{0};
  Joules cost{0};
};

/// What the setting before costs more while it still runs, however long that is up to the latency:
/// nothing where it costs less. Of one that was not measured, what its neighbours cost.
Extra late_extra(std::span<const OperatingPoint> points, Watts power, const LatencyByClock& latency,
                 const InstructionSetting& before, const OperatingPoint& now) {
  Extra extra;
  if (before == now.setting()) return extra;
  const NearestPoints near = nearest_points(points, before);
  for (const OperatingPoint* const old : {near.below, near.above}) {
    if (old == nullptr) continue;
    const double share = std::min(1.0, latency.to(now.clock) / old->time);
    const Joules more = effective_energy(*old, power) - effective_energy(now, power);
    extra.time = std::max(extra.time, share * (old->time - now.time));
    extra.cost = std::max(extra.cost, share * more);
  }
  return extra;
}

/// One round of a stage, instruction by instruction, for one setting ahead of the first.
class LateRounds {
 public:
  LateRounds(const Plan& plan, const Profile& profile, const LatencyByClock& latency, int stage)
      : profile_(profile), latency_(latency), power_(plan.blocking_power[stage]), stage_(stage) {}

  void add(const LateInstruction& instruction) {
    list_.push_back(instruction);
    const auto points = points_of(instruction);
    for (const OperatingPoint& point : points) settings_.emplace(point.setting(), 0);
  }

  Joules least() {
    if (list_.empty()) return Joules{0};
    std::size_t number = 0;
    for (auto& [setting, place] : settings_) place = number++;
    std::map<std::pair<int, InstructionKind>, Table> tables;
    for (const LateInstruction& i : list_) {
      const std::pair key(i.entry->chunk, i.entry->kind);
      const auto [at, is_new] = tables.try_emplace(key);
      if (is_new) at->second = table_of(i);
      table_.push_back(&at->second);
    }
    // Whatever comes ahead of the first, as bounds of the rounds that begin and end with a setting.
    const std::vector<double> bounds = run(std::vector<double>(settings_.size(), 0.0));
    double least = kNever;
    for (std::size_t ends = 0; ends < settings_.size(); ++ends) {
      if (bounds[ends] >= least) continue;
      std::vector<double> begin(settings_.size(), kNever);
      begin[ends] = 0;
      least = std::min(least, run(std::move(begin))[ends]);
    }
    return Joules{least};
  }

 private:
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  /// Seconds and joules of an instruction, of each setting before and now.
  struct Table {
    std::vector<double> time, cost;
  };

  std::span<const OperatingPoint> points_of(const LateInstruction& i) const {
    return profile_.points(stage_, i.entry->chunk, i.entry->kind);
  }

  Table table_of(const LateInstruction& i) const {
    const std::size_t size = settings_.size();
    Table table{.time = std::vector<double>(size * size, 0.0),
                .cost = std::vector<double>(size * size, kNever)};
    const auto points = points_of(i);
    for (const OperatingPoint& point : points) {
      const std::size_t now = settings_.at(point.setting());
      for (const auto& [setting, before] : settings_) {
        const Extra extra = late_extra(points, power_, latency_, setting, point);
        table.time[before * size + now] = (point.time + extra.time).value;
        table.cost[before * size + now] = (effective_energy(point, power_) + extra.cost).value;
      }
    }
    return table;
  }

  /// Least sums up to the last instruction, by its setting.
  std::vector<double> run(std::vector<double> sums) const {
    const std::size_t size = sums.size();
    for (std::size_t k = 0; k < list_.size(); ++k) {
      const Table& table = *table_[k];
      std::vector<double> next(size, kNever);
      for (std::size_t before = 0; before < size; ++before) {
        if (sums[before] == kNever) continue;
        for (std::size_t now = 0; now < size; ++now) {
          const std::size_t at = before * size + now;
          if (table.time[at] > list_[k].longest.value) continue;
          const double sum = sums[before] + table.cost[at] + list_[k].flow.value * table.time[at];
          next[now] = std::min(next[now], sum);
        }
      }
      sums = std::move(next);
    }
    return sums;
  }

  const Profile& profile_;
  const LatencyByClock& latency_;
  Watts power_;
  int stage_;
  std::vector<LateInstruction> list_;
  std::map<InstructionSetting, std::size_t> settings_;
  std::vector<const Table*> table_;  // of each of the list
};

}  // namespace

Joules least_of_late_stage(const Plan& plan, const Profile& profile, const LatencyByClock& latency,
                           int stage, std::span<const LateInstruction> list) {
  LateRounds rounds(plan, profile, latency, stage);
  for (const LateInstruction& instruction : list) rounds.add(instruction);
  return rounds.least();
}

std::optional<Seconds> left_out_too_soon(const Plan& plan, const Profile& profile,
                                         const LatencyByClock& latency, int stage,
                                         const LateInstruction& i, Seconds room) {
  const auto points = profile.points(stage, i.entry->chunk, i.entry->kind);
  // Part at one point, part at another takes no longer than the slower of the two.
  const auto slowest = std::ranges::max(points, {}, &OperatingPoint::time).time;
  if (slowest <= i.longest) return std::nullopt;
  for (const OperatingPoint& now : points) {
    for (const OperatingPoint& old : points) {
      const Extra extra =
          late_extra(points, plan.blocking_power[stage], latency, old.setting(), now);
      const Seconds time = now.time + extra.time;
      if (time > i.longest && time <= room) return time;
    }
  }
  return std::nullopt;
}

void check_late_changes(const Plan& plan, const Profile& profile, const LatencyByClock& latency,
                        Diagnostics& diagnostics) {
  for (int stage = 0; stage < plan.stages; ++stage) {
    const Watts power = plan.blocking_power[stage];
    const auto& list = plan.instructions[stage];
    std::optional<InstructionSetting> before;
    for (const PlannedInstruction& i : list) {
      if (i.clock != Megahertz{0}) before = i.setting();
    }
    Extra counted;
    for (const PlannedInstruction& i : list) {
      if (i.kind == InstructionKind::kSwitch) {
        counted = {counted.time + i.time, counted.cost + (i.energy - power * i.time)};
        continue;
      }
      const Extra found = std::exchange(counted, {});
      if (i.clock == Megahertz{0}) continue;
      const auto points = profile.points(stage, i.chunk, i.kind);
      const OperatingPoint* const now = find_point(points, i.setting());
      if (now == nullptr) continue;  // which is a diagnostic of its own
      const Extra wanted = late_extra(points, power, latency, *before, *now);
      before = i.setting();
      const double tolerance = 1 - kTolerance;
      if (found.time >= tolerance * wanted.time - Seconds{1e-12} &&
          found.cost >= tolerance * wanted.cost - 1e-12 * i.energy)
        continue;
      diagnostics.add(describe(stage, i, plan.chunks > 1) + ": its setting may come " +
                      text(latency.to(i.clock)) + " late by the certificate, which costs up to " +
                      text(wanted.time) + " and " + text(wanted.cost) + ", but the plan counts " +
                      text(found.time) + " and " + text(found.cost));
    }
  }
}

}  // namespace harpe::verifying
