// The cost of late settings, rounded down, for the check of a plan and its certificate.

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <tuple>
#include <utility>

#include "harpe/plan/frontier/verify_parts.h"

namespace harpe::plan::verifying {
namespace {

/// The time and energy that a late setting adds to an instruction.
struct Extra {
  double time = 0;  ///< s
  double cost = 0;  ///< J, effective
};

/// Returns a lower bound of the exact value of an expression with up to three operations, each with
/// a relative rounding error below 2^-53. Returns 0 for values too small for `fits`.
double rounded_down(double value) {
  const double less = value * (1 - 0x1p-50);
  return less >= 0x1p-60 ? less : 0;
}

/// A change of setting during which the previous setting still runs.
struct Change {
  InstructionSetting before;
  double left = 0;  ///< s: longest time for which `before` still runs
};

/// Returns the largest additional time and cost of an instruction if the previous setting still
/// runs for any time up to `change.left`; 0 if that setting costs less. A setting that was not
/// measured is replaced by its measured neighbours. Reduces `change.left` by the shortest time of
/// the instruction. Rounds down.
Extra late_extra(std::span<const OperatingPoint> points, Watts power, const OperatingPoint& now,
                 Change& change) {
  Extra extra;
  if (change.before == now.setting()) {
    change.left = 0;
    return extra;
  }
  double shortest = now.time.value;
  const NearestPoints near = nearest_points(points, change.before);
  for (const OperatingPoint* const old : {near.below, near.above}) {
    if (old == nullptr) continue;
    shortest = std::min(shortest, old->time.value);
    const double share = std::min(1.0, change.left / old->time.value);
    const double longer = (Exact(old->time.value) - Exact(now.time.value)).rounded_down();
    const double more =
        (effective(old->energy, power, old->time) - effective(now.energy, power, now.time))
            .rounded_down();
    extra.time = std::max(extra.time, rounded_down(share * longer));
    extra.cost = std::max(extra.cost, std::min(rounded_down(share * more), 0x1p40));
  }
  change.left = rounded_down((Exact(change.left) - Exact(shortest)).rounded_down());
  return extra;
}

// Flow x time in `Fixed`: watts in units of 2^-34 times seconds in units of 2^-50 are joules in
// units of 2^-84. Watts and seconds are limited to 2^20, so a product is at most 2^124 units.
constexpr int kFlowBits = 34, kTimeBits = 50;
constexpr WideInteger kMostFlow = static_cast<WideInteger>(1) << (20 + kFlowBits);
constexpr WideInteger kMostTime = static_cast<WideInteger>(1) << (20 + kTimeBits);
/// Limits on the joules of one instruction, positive or negative, and on the instructions of a
/// stage, which keep sums below 2^63 J.
constexpr Fixed kMostCost = static_cast<Fixed>(1) << (40 + kFixedBits);
constexpr std::size_t kMostInstructions = std::size_t{1} << 23;
/// After this many rounds, the settings that are late at the end of a list are assumed to repeat.
constexpr int kMostRounds = 64;

/// The least cost of one iteration of a stage, by dynamic programming over its instructions, for
/// each setting before the first one.
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
    for (auto& [setting, place] : settings_) {
      place = number++;
      numbered_.push_back(&setting);
    }
    for (Instruction& i : list_) {
      const auto [at, is_new] = tables_.try_emplace(i.kind);
      if (is_new) at->second = table_of(i.kind);
      i.table = &at->second;
    }
    if (is_below_range_ || list_.size() > kMostInstructions) return std::nullopt;
    // A round that begins and ends with a setting costs no less than the cheapest round that begins
    // with any setting and ends with this one.
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
  /// Time and cost of an instruction at a setting while another one still runs, and the longest
  /// time for which the other one may still run afterwards.
  struct Entry {
    WideInteger time;  ///< in units of 2^-kTimeBits s
    Fixed cost;
    double left;  ///< s
  };
  struct Pair {
    std::size_t before, now;
    Entry entry;
  };
  /// The entries of a kind of instruction. `pairs` has one for each setting before it and each own
  /// setting. `carried` has those requested so far for changes of earlier instructions, by setting
  /// before, own setting and time left; nullopt if the own setting was not measured.
  struct Table {
    std::vector<Pair> pairs;
    std::map<std::tuple<std::size_t, std::size_t, double>, std::optional<Entry>> carried;
  };
  struct Instruction {
    Kind kind;
    WideInteger flow;     ///< in units of 2^-kFlowBits W
    WideInteger longest;  ///< in units of 2^-kTimeBits s
    Table* table = nullptr;
  };
  /// A change that outlasts the instructions so far.
  struct Pending {
    std::size_t before, now;
    double left;
    Fixed sum;
  };
  /// The least sums after some instructions, by the setting of the last one; kNone if no choices
  /// lead to it. `any` allows any old setting to still run, `settled` allows none, and `pending`
  /// has the sum of each pending change.
  struct Sums {
    std::vector<Fixed> any, settled;
    std::vector<Pending> pending = {};

    void arrive(const Pending& change) {
      any[change.now] = std::min(any[change.now], change.sum);
      if (change.left > 0) {
        pending.push_back(change);
      } else {
        settled[change.now] = std::min(settled[change.now], change.sum);
      }
    }
  };

  std::span<const OperatingPoint> points_of(const Kind& kind) const {
    return profile_.points(stage_, kind.first, kind.second);
  }

  Entry entry_of(std::span<const OperatingPoint> points, const OperatingPoint& point,
                 Change change) {
    const Extra extra = late_extra(points, power_, point, change);
    const Exact time = Exact(point.time.value) + Exact(extra.time);
    const Exact cost = effective(point.energy, power_, point.time) + Exact(extra.cost);
    const Fixed counted = std::min(cost.count_down(kFixedBits), kMostCost);
    is_below_range_ |= counted < -kMostCost;
    return {std::min(time.count_down(kTimeBits), kMostTime), counted, change.left};
  }

  Table table_of(const Kind& kind) {
    Table table;
    const auto points = points_of(kind);
    for (const OperatingPoint& point : points) {
      const std::size_t now = settings_.at(point.setting());
      const double late = certificate_.latency->to(point.clock).value;
      for (const auto& [setting, before] : settings_)
        table.pairs.push_back({before, now, entry_of(points, point, {setting, late})});
    }
    return table;
  }

  /// Returns the time and cost of an instruction during a pending change; nullopt if its setting
  /// was not measured.
  const std::optional<Entry>& carried(const Instruction& i, const Pending& change) {
    const auto [at, is_new] =
        i.table->carried.try_emplace({change.before, change.now, change.left});
    if (!is_new) return at->second;
    const auto points = points_of(i.kind);
    const OperatingPoint* const now = find_point(points, *numbered_[change.now]);
    if (now != nullptr)
      at->second = entry_of(points, *now, {*numbered_[change.before], change.left});
    return at->second;
  }

  /// Adds to `next` the sum after an instruction during a new or pending change, unless the
  /// instruction takes too long.
  static void go(const Instruction& i, const Entry& entry, Pending change, Sums& next) {
    if (entry.time > i.longest) return;
    const Fixed price = (i.flow * entry.time) >> (kFlowBits + kTimeBits - kFixedBits);
    change.sum += std::min(entry.cost + price, kMostCost);
    change.left = entry.left;
    next.arrive(change);
  }

  /// Returns the least sums up to the last instruction, by its setting. Only the newest change
  /// counts: with the earlier ones that still run, the cost is no less.
  std::vector<Fixed> run(std::vector<Fixed> begin) {
    Sums sums{.any = begin, .settled = std::move(begin)};
    for (const Instruction& i : list_) {
      Sums next{.any = std::vector<Fixed>(sums.any.size(), kNone),
                .settled = std::vector<Fixed>(sums.any.size(), kNone)};
      for (const Pair& pair : i.table->pairs) {
        const Fixed sum = (pair.before == pair.now ? sums.settled : sums.any)[pair.before];
        if (sum != kNone) go(i, pair.entry, {pair.before, pair.now, 0, sum}, next);
      }
      for (const Pending& change : sums.pending) {
        if (const auto& entry = carried(i, change)) go(i, *entry, change, next);
      }
      std::erase_if(next.pending, [&](const Pending& change) {
        return change.sum >= next.settled[change.now];  // no continuation costs less
      });
      sums = std::move(next);
    }
    return sums.any;
  }

  const Profile& profile_;
  const Certificate& certificate_;
  Watts power_;
  int stage_;
  std::vector<Instruction> list_;
  std::map<InstructionSetting, std::size_t> settings_;  // with their indices in sums
  std::vector<const InstructionSetting*> numbered_;     // by index
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
      Change change{old.setting(), latency.to(now.clock).value};
      const Extra extra = late_extra(points, blocking, now, change);
      times.push_back(Exact(now.time.value) + Exact(extra.time));
    }
  }
  std::ranges::sort(times);
  return times;
}

namespace {

/// The settings that may be in force on a stage, each with the longest time (s) for which it may
/// remain in force. While a new setting is late, any setting requested before it may run, even over
/// several instructions.
class LateStage {
 public:
  LateStage(const LatencyByClock& latency, Watts power, const InstructionSetting& asked)
      : latency_(latency), power_(power), asked_(asked) {}

  /// Returns the time and energy that late settings may add to an instruction, rounded down, and
  /// advances the state past the instruction.
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
    // The two neighbours of a setting that was not measured replace it: the worse of them counts.
    const Extra extra = still_.size() == 1 ? single : Extra{most_of(times), most_of(costs)};
    for (auto& [setting, left] : still_) left -= shortest;
    std::erase_if(still_, [](const auto& one) { return one.second <= 0; });
    return {rounded_down(extra.time), rounded_down(extra.cost)};
  }

  using State = std::pair<InstructionSetting, std::map<InstructionSetting, double>>;
  /// Returns the setting requested last, and the older settings that may still be in force.
  State state() const { return {asked_, still_}; }

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

  /// Returns the largest excess of old settings: the sum over the intervals between their ends,
  /// each at the highest rate of the settings still in force; at most the largest `more`.
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
    LateStage late(latency, power, last);
    const auto run = [&](const PlannedInstruction& i) -> std::optional<Extra> {
      if (i.clock == Megahertz{0}) return std::nullopt;
      const auto points = profile.points(stage, i.chunk, i.kind);
      const OperatingPoint* const now = find_point(points, i.setting());
      if (now == nullptr) return std::nullopt;  // reported by another check
      return late.run(points, *now);
    };
    // A change that is late at the end of the list is late at the beginning of the next iteration.
    for (int round = 0; round < kMostRounds; ++round) {
      const LateStage::State begin = late.state();
      for (const PlannedInstruction& i : list) run(i);
      if (late.state() == begin) break;
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
      diagnostics.add(describe(stage, i, plan.chunks > 1) + ": its setting may be " +
                      text(latency.to(i.clock)) + " late by the certificate, which costs up to " +
                      text(Seconds{wanted->time}) + " and " + text(Joules{wanted->cost}) +
                      ", but the plan counts " + text(Seconds{found.time}) + " and " +
                      text(Joules{found.cost}));
    }
  }
}

}  // namespace harpe::plan::verifying
