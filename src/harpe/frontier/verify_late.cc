// What late settings cost at least, for the check of a certificate.

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "harpe/frontier/verify_parts.h"

namespace harpe::verifying {
namespace {

struct Extra {
  double time = 0;  ///< s
  double cost = 0;  ///< J
};

/// No greater than a product or quotient of three doubles that was rounded at each step, by less
/// than 2^-53 of itself; 0 where that is too small to count.
double rounded_down(double value) {
  const double less = value * (1 - 0x1p-50);
  return less >= 0x1p-60 ? less : 0;
}

/// What the setting before costs more while it still runs, however long that is up to the latency:
/// nothing where it costs less. Of one that was not measured, what its neighbours cost. Rounded
/// down.
Extra late_extra(std::span<const OperatingPoint> points, Watts power, const LatencyByClock& latency,
                 const InstructionSetting& before, const OperatingPoint& now) {
  Extra extra;
  if (before == now.setting()) return extra;
  const NearestPoints near = nearest_points(points, before);
  for (const OperatingPoint* const old : {near.below, near.above}) {
    if (old == nullptr) continue;
    const double share = std::min(1.0, latency.to(now.clock) / old->time);
    const double longer = (Exact(old->time.value) - Exact(now.time.value)).rounded_down();
    const double more =
        (effective(old->energy, power, old->time) - effective(now.energy, power, now.time))
            .rounded_down();
    extra.time = std::max(extra.time, rounded_down(share * longer));
    extra.cost = std::max(extra.cost, std::min(rounded_down(share * more), 0x1p40));
  }
  return extra;
}

/// One round of a stage, instruction by instruction, for one setting ahead of the first.
class LateRounds {
 public:
  LateRounds(const Plan& plan, const Profile& profile, const Certificate& certificate, int stage)
      : profile_(profile),
        latency_(*certificate.latency),
        unit_(certificate.flow_unit),
        power_(plan.blocking_power[stage]),
        stage_(stage) {}

  void add(const LateInstruction& instruction) {
    list_.push_back(instruction);
    const auto points = points_of(instruction);
    for (const OperatingPoint& point : points) settings_.emplace(point.setting(), 0);
  }

  Exact least() {
    if (list_.empty()) return Exact();
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
    const Sums bounds = run(Sums(settings_.size(), Exact()));
    std::optional<Exact> least;
    for (std::size_t ends = 0; ends < settings_.size(); ++ends) {
      if (!bounds[ends] || (least && *bounds[ends] >= *least)) continue;
      Sums begin(settings_.size());
      begin[ends] = Exact();
      const std::optional<Exact> round = run(std::move(begin))[ends];
      if (round && (!least || *round < *least)) least = round;
    }
    // A stage that can run nothing in time proves anything: what is left out was checked before.
    return least.value_or(Exact());
  }

 private:
  using Sums = std::vector<std::optional<Exact>>;  // of each setting; none where there is no way
  /// Seconds and joules of an instruction, of each setting before and now.
  struct Table {
    struct Entry {
      Exact time, cost, priced_time;  // the last with one unit of flow
    };
    std::vector<std::optional<Entry>> entries;
  };

  std::span<const OperatingPoint> points_of(const LateInstruction& i) const {
    return profile_.points(stage_, i.entry->chunk, i.entry->kind);
  }

  Table table_of(const LateInstruction& i) const {
    const std::size_t size = settings_.size();
    Table table{.entries = std::vector<std::optional<Table::Entry>>(size * size)};
    const auto points = points_of(i);
    for (const OperatingPoint& point : points) {
      const std::size_t now = settings_.at(point.setting());
      for (const auto& [setting, before] : settings_) {
        const Extra extra = late_extra(points, power_, latency_, setting, point);
        table.entries[before * size + now] = {
            .time = Exact(point.time.value) + Exact(extra.time),
            .cost = effective(point.energy, power_, point.time) + Exact(extra.cost),
            .priced_time = Exact::product(unit_.value, point.time.value) +
                           Exact::product(unit_.value, extra.time)};
      }
    }
    return table;
  }

  /// Least sums up to the last instruction, by its setting.
  Sums run(Sums sums) const {
    const std::size_t size = sums.size();
    for (std::size_t k = 0; k < list_.size(); ++k) {
      const LateInstruction& i = list_[k];
      Sums next(size);
      for (std::size_t before = 0; before < size; ++before) {
        if (!sums[before]) continue;
        for (std::size_t now = 0; now < size; ++now) {
          const auto& entry = table_[k]->entries[before * size + now];
          if (!entry || (i.longest && entry->time > *i.longest)) continue;
          const Exact sum = *sums[before] + entry->cost + entry->priced_time * i.flow;
          if (!next[now] || sum < *next[now]) next[now] = sum;
        }
      }
      sums = std::move(next);
    }
    return sums;
  }

  const Profile& profile_;
  const LatencyByClock& latency_;
  Watts unit_;  // of flows
  Watts power_;
  int stage_;
  std::vector<LateInstruction> list_;
  std::map<InstructionSetting, std::size_t> settings_;
  std::vector<const Table*> table_;  // of each of the list
};

}  // namespace

Exact least_of_late_stage(const Plan& plan, const Profile& profile, const Certificate& certificate,
                          int stage, std::span<const LateInstruction> list) {
  LateRounds rounds(plan, profile, certificate, stage);
  for (const LateInstruction& instruction : list) rounds.add(instruction);
  return rounds.least();
}

std::optional<Seconds> left_out_too_soon(const Plan& plan, const Profile& profile,
                                         const LatencyByClock& latency, int stage,
                                         const LateInstruction& i, const Exact& room) {
  const auto points = profile.points(stage, i.entry->chunk, i.entry->kind);
  // Part at one point, part at another takes no longer than the slower of the two.
  const auto slowest = std::ranges::max(points, {}, &OperatingPoint::time).time;
  if (Exact(slowest.value) <= *i.longest) return std::nullopt;
  for (const OperatingPoint& now : points) {
    for (const OperatingPoint& old : points) {
      const Extra extra =
          late_extra(points, plan.blocking_power[stage], latency, old.setting(), now);
      const Exact time = Exact(now.time.value) + Exact(extra.time);
      if (time > *i.longest && time <= room) return Seconds{time.rounded_up()};
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
        counted = {counted.time + i.time.value, counted.cost + (i.energy - power * i.time).value};
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
      if (found.time >= tolerance * wanted.time - 1e-12 &&
          found.cost >= tolerance * wanted.cost - 1e-12 * i.energy.value)
        continue;
      diagnostics.add(describe(stage, i, plan.chunks > 1) + ": its setting may come " +
                      text(latency.to(i.clock)) + " late by the certificate, which costs up to " +
                      text(Seconds{wanted.time}) + " and " + text(Joules{wanted.cost}) +
                      ", but the plan counts " + text(Seconds{found.time}) + " and " +
                      text(Joules{found.cost}));
    }
  }
}

}  // namespace harpe::verifying
