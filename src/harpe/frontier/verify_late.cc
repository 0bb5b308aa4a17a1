// What late settings cost at least, for the check of a certificate.

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <utility>

#include "harpe/frontier/verify_parts.h"

namespace harpe::verifying {
namespace {

/// What a late setting costs an instruction.
struct Extra {
  double time = 0;  ///< s
  double cost = 0;  ///< J, effective
};

/// Returns a lower bound of the exact value of an expression with up to three operations, each of
/// which rounded it by less than 2^-53 of itself. Returns 0 for values too small for `fits`.
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

// Flow x time in `Fixed`: watts in units of 2^-34 times seconds in units of 2^-50, both limited to
// 2^20, are joules in units of 2^-84 below 2^124 of them.
constexpr int kFlowBits = 34, kTimeBits = 50;
constexpr WideInteger kMostFlow = static_cast<WideInteger>(1) << (20 + kFlowBits);
constexpr WideInteger kMostTime = static_cast<WideInteger>(1) << (20 + kTimeBits);
/// The most joules of one instruction, up or down, and the most instructions of a stage: their sums
/// stay below 2^63 J.
constexpr Fixed kMostCost = static_cast<Fixed>(1) << (40 + kFixedBits);
constexpr std::size_t kMostInstructions = std::size_t{1} << 23;
/// After which what is late at the end of a list is taken to be what it was a round before.
constexpr int kMostRounds = 64;

/// One iteration of a stage, instruction by instruction, from each setting ahead of the first.
class LateRounds {
 public:
  LateRounds(const Plan& plan, const Profile& profile, const Certificate& certificate, int stage)
      : profile_(profile),
        certificate_(certificate),
        power_(plan.blocking_power[stage]),
        stage_(stage) {}

  void add(const LateInstruction& instruction) {
    const Exact flow = Exact(certificate_.flow_unit.value) * instruction.flow;
    list_.push_back(
        {.kind = {instruction.entry->chunk, instruction.entry->kind},
         .flow = std::min(flow.count_down(kFlowBits), kMostFlow),
         .longest = instruction.longest ? instruction.longest->count_down(kTimeBits) : kMostTime});
    for (const OperatingPoint& point : points_of(list_.back().kind))
      settings_.emplace(point.setting(), 0);
  }

  std::optional<Exact> least() {
    if (list_.empty()) return Exact();
    std::size_t number = 0;
    for (auto& [setting, place] : settings_) place = number++;
    for (Instruction& i : list_) {
      const auto [at, is_new] = tables_.try_emplace(i.kind);
      if (is_new) at->second = table_of(i.kind);
      i.table = &at->second;
    }
    if (is_below_range_ || list_.size() > kMostInstructions) return std::nullopt;
    // A round that ends with a setting costs no less than if any setting came ahead of the first.
    const std::vector<Fixed> bounds = run(std::vector<Fixed>(settings_.size(), 0));
    Fixed least = kNone;
    for (std::size_t ends = 0; ends < settings_.size(); ++ends) {
      if (bounds[ends] >= least) continue;
      std::vector<Fixed> begin(settings_.size(), kNone);
      begin[ends] = 0;
      least = std::min(least, run(std::move(begin))[ends]);
    }
    if (least == kNone) return std::nullopt;
    return Exact::of(least, kFixedBits);
  }

 private:
  static constexpr Fixed kNone = static_cast<Fixed>(1) << 126;
  using Kind = std::pair<int, InstructionKind>;  // chunk and kind
  /// Time and effective energy of a kind of instruction, for each setting before it and its own.
  struct Table {
    struct Entry {
      std::size_t before, now;
      WideInteger time;  ///< in units of 2^-kTimeBits s
      Fixed cost;
    };
    std::vector<Entry> entries;
  };
  struct Instruction {
    Kind kind;
    WideInteger flow;     ///< in units of 2^-kFlowBits W
    WideInteger longest;  ///< in units of 2^-kTimeBits s
    const Table* table = nullptr;
  };

  std::span<const OperatingPoint> points_of(const Kind& kind) const {
    return profile_.points(stage_, kind.first, kind.second);
  }

  Table table_of(const Kind& kind) {
    Table table;
    const auto points = points_of(kind);
    for (const OperatingPoint& point : points) {
      const std::size_t now = settings_.at(point.setting());
      for (const auto& [setting, before] : settings_) {
        const Extra extra = late_extra(points, power_, *certificate_.latency, setting, point);
        const Exact time = Exact(point.time.value) + Exact(extra.time);
        const Exact cost = effective(point.energy, power_, point.time) + Exact(extra.cost);
        const Fixed counted = std::min(cost.count_down(kFixedBits), kMostCost);
        is_below_range_ |= counted < -kMostCost;
        table.entries.push_back({.before = before,
                                 .now = now,
                                 .time = std::min(time.count_down(kTimeBits), kMostTime),
                                 .cost = counted});
      }
    }
    return table;
  }

  /// Least sums up to the last instruction, by its setting; kNone if no way leads there.
  std::vector<Fixed> run(std::vector<Fixed> sums) const {
    for (const Instruction& i : list_) {
      std::vector<Fixed> next(sums.size(), kNone);
      for (const Table::Entry& entry : i.table->entries) {
        if (sums[entry.before] == kNone || entry.time > i.longest) continue;
        const Fixed price = (i.flow * entry.time) >> (kFlowBits + kTimeBits - kFixedBits);
        const Fixed cost = std::min(entry.cost + price, kMostCost);
        next[entry.now] = std::min(next[entry.now], sums[entry.before] + cost);
      }
      sums = std::move(next);
    }
    return sums;
  }

  const Profile& profile_;
  const Certificate& certificate_;
  Watts power_;
  int stage_;
  std::vector<Instruction> list_;
  std::map<InstructionSetting, std::size_t> settings_;  // with their places in sums
  std::map<Kind, Table> tables_;
  bool is_below_range_ = false;
};

}  // namespace

std::optional<Exact> least_of_late_stage(const Plan& plan, const Profile& profile,
                                         const Certificate& certificate, int stage,
                                         std::span<const LateInstruction> list) {
  LateRounds rounds(plan, profile, certificate, stage);
  for (const LateInstruction& instruction : list) rounds.add(instruction);
  return rounds.least();
}

std::vector<Exact> late_times(std::span<const OperatingPoint> points, Watts blocking,
                              const LatencyByClock& latency) {
  std::vector<Exact> times;
  for (const OperatingPoint& now : points) {
    for (const OperatingPoint& old : points) {
      const Extra extra = late_extra(points, blocking, latency, old.setting(), now);
      times.push_back(Exact(now.time.value) + Exact(extra.time));
    }
  }
  std::ranges::sort(times);
  return times;
}

namespace {

/// Settings that may be in force on a stage, each with the longest time (s) that it may still be.
/// When a setting comes late, any that was asked for before it may run until then, in one
/// instruction after another.
class LateStage {
 public:
  LateStage(const LatencyByClock& latency, Watts power, const InstructionSetting& asked)
      : latency_(latency), power_(power), asked_(asked) {}

  /// Returns what an instruction may cost beyond its point, rounded down, and goes past it.
  Extra run(std::span<const OperatingPoint> points, const OperatingPoint& now) {
    ask(now.setting());
    std::vector<Piece> times, costs;
    double shortest = now.time.value;
    Extra single;
    for (const auto& [setting, left] : still_) {
      const NearestPoints near = nearest_points(points, setting);
      for (const OperatingPoint* const old : {near.below, near.above}) {
        if (old == nullptr) continue;
        shortest = std::min(shortest, old->time.value);
        const double longer = (Exact(old->time.value) - Exact(now.time.value)).rounded_down();
        const double more =
            (effective(old->energy, power_, old->time) - effective(now.energy, power_, now.time))
                .rounded_down();
        times.push_back({left, old->time.value, longer});
        costs.push_back({left, old->time.value, std::min(more, 0x1p40)});
        single.time = std::max(single.time, most_of({times.back()}));
        single.cost = std::max(single.cost, most_of({costs.back()}));
      }
    }
    // The two neighbours of a setting that was not measured stand for the same one.
    const Extra extra = still_.size() == 1 ? single : Extra{most_of(times), most_of(costs)};
    for (auto& [setting, left] : still_) left -= shortest;
    std::erase_if(still_, [](const auto& one) { return one.second <= 0; });
    return {rounded_down(extra.time), rounded_down(extra.cost)};
  }

  bool operator==(const LateStage& other) const {
    return asked_ == other.asked_ && still_ == other.still_;
  }

 private:
  struct Piece {
    double left, time, more;
  };

  void ask(const InstructionSetting& setting) {
    if (setting == asked_) return;
    const double late = latency_.to(setting.clock).value;
    for (auto& [old, left] : still_) left = std::min(left, late);
    still_.emplace(asked_, late);
    still_.erase(setting);
    std::erase_if(still_, [](const auto& one) { return one.second <= 0; });
    asked_ = setting;
  }

  /// The time until the last of them ends, in the pieces between the ends of all, each at the
  /// setting that costs most a second.
  static double most_of(std::vector<Piece> pieces) {
    std::ranges::sort(pieces, {}, &Piece::left);
    double sum = 0, most = 0, begin = 0;
    for (std::size_t i = 0; i < pieces.size(); ++i) {
      double rate = 0;
      for (std::size_t k = i; k < pieces.size(); ++k)
        rate = std::max(rate, pieces[k].more / pieces[k].time);
      sum += rate * (pieces[i].left - begin);
      begin = pieces[i].left;
      most = std::max(most, pieces[i].more);
    }
    return std::min(sum, most);
  }

  const LatencyByClock& latency_;
  Watts power_;
  InstructionSetting asked_;
  std::map<InstructionSetting, double> still_;
};

}  // namespace

void check_late_changes(const Plan& plan, const Profile& profile, const LatencyByClock& latency,
                        Diagnostics& diagnostics) {
  for (int stage = 0; stage < plan.stages; ++stage) {
    const Watts power = plan.blocking_power[stage];
    const auto& list = plan.instructions[stage];
    InstructionSetting last;
    for (const PlannedInstruction& i : list) {
      if (i.clock != Megahertz{0}) last = i.setting();
    }
    LateStage stage_state(latency, power, last);
    const auto run = [&](const PlannedInstruction& i) -> std::optional<Extra> {
      if (i.clock == Megahertz{0}) return std::nullopt;
      const auto points = profile.points(stage, i.chunk, i.kind);
      const OperatingPoint* const now = find_point(points, i.setting());
      if (now == nullptr) return std::nullopt;  // which is a diagnostic of its own
      return stage_state.run(points, *now);
    };
    // What is late at the end of the list is late at its beginning, in the next iteration.
    for (int round = 0; round < kMostRounds; ++round) {
      const LateStage begin = stage_state;
      for (const PlannedInstruction& i : list) run(i);
      if (stage_state == begin) break;
    }
    Extra counted;
    for (const PlannedInstruction& i : list) {
      if (i.kind == InstructionKind::kSwitch) {
        counted = {counted.time + i.time.value, counted.cost + (i.energy - power * i.time).value};
        continue;
      }
      const Extra found = std::exchange(counted, {});
      const std::optional<Extra> wanted = run(i);
      if (!wanted) continue;
      const double tolerance = 1 - kTolerance;
      if (found.time >= tolerance * wanted->time - 1e-12 &&
          found.cost >= tolerance * wanted->cost - 1e-12 * i.energy.value)
        continue;
      diagnostics.add(describe(stage, i, plan.chunks > 1) + ": its setting may come " +
                      text(latency.to(i.clock)) + " late by the certificate, which costs up to " +
                      text(Seconds{wanted->time}) + " and " + text(Joules{wanted->cost}) +
                      ", but the plan counts " + text(Seconds{found.time}) + " and " +
                      text(Joules{found.cost}));
    }
  }
}

}  // namespace harpe::verifying
