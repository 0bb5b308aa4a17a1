#include "harpe/plan/frontier/planned_work_testing.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace harpe::plan {
namespace {

bool is_at(const std::vector<Instruction>& list, std::size_t place, InstructionKind kind) {
  return place < list.size() && list[place].kind == kind;
}

/// Returns true for fixed-time instructions that a plan may add to its schedule.
bool may_be_added(InstructionKind kind) {
  return kind == InstructionKind::kLoad || kind == InstructionKind::kReduce ||
         kind == InstructionKind::kOptimizer;
}

class LineUpPlan {
 public:
  LineUpPlan(const Plan& plan, const Schedule& schedule, const Profile& profile)
      : plan_(plan), schedule_(schedule), profile_(profile) {}

  PlannedWork work() {
    work_.schedule = schedule_;
    for (auto& list : work_.schedule.lists) list.clear();
    if (plan_.instructions.size() != schedule_.lists.size()) fail(0, "has another number of lists");
    for (int stage = 0; stage < schedule_.stages && work_.mismatch.empty(); ++stage) line_up(stage);
    return std::move(work_);
  }

 private:
  void line_up(int stage) {
    const auto& list = plan_.instructions[stage];
    std::size_t next = 0;  // position in the schedule's list
    PlannedRun run{.stage = stage, .entries = {}};
    for (std::size_t e = 0; e < list.size(); ++e) {
      run.entries.push_back(e);
      if (list[e].kind == InstructionKind::kSwitch || list[e].fused_with_next) continue;
      if (!take(run, next)) return;
      run.entries.clear();
    }
    if (!run.entries.empty()) fail(stage, "ends with a part of an instruction");
    if (next < schedule_.lists[stage].size()) fail(stage, "lacks instructions of the schedule");
  }

  bool take(const PlannedRun& run, std::size_t& next) {
    const auto& list = schedule_.lists[run.stage];
    const PlannedInstruction& first = entry(run, parts_of(run).front());
    if (may_be_added(first.kind) && !is_at(list, next, first.kind)) {
      Instruction added{.kind = first.kind, .micro_batch = first.micro_batch};
      if (first.kind == InstructionKind::kLoad) {
        if (next == list.size()) return fail(run.stage, "loads without a forward");
        added.part = list[next].part;
      }
      return emit(run, added);
    }
    if (next == list.size()) return fail(run.stage, "runs more than the schedule");
    const Instruction& whole = list[next++];
    const auto halves = halves_of(whole, schedule_, profile_);
    const bool may_be_whole = whole.kind != InstructionKind::kBackward && is(run, {whole});
    if (!may_be_whole && !is(run, halves))
      return fail(run.stage, "runs another instruction as number " + std::to_string(next - 1));
    return emit(run, whole);
  }

  const PlannedInstruction& entry(const PlannedRun& run, std::size_t place) const {
    return plan_.instructions[run.stage][place];
  }
  std::vector<std::size_t> parts_of(const PlannedRun& run) const {
    std::vector<std::size_t> parts = run.entries;
    std::erase_if(parts,
                  [&](std::size_t e) { return entry(run, e).kind == InstructionKind::kSwitch; });
    return parts;
  }

  bool is(const PlannedRun& run, const std::vector<Instruction>& wanted) const {
    const std::vector<std::size_t> parts = parts_of(run);
    if (parts.size() != wanted.size()) return false;
    for (std::size_t k = 0; k < parts.size(); ++k) {
      const PlannedInstruction& found = entry(run, parts[k]);
      const Instruction& i = wanted[k];
      const bool is_block = i.kind == InstructionKind::kForwardBackward;
      if (found.kind != i.kind || found.micro_batch != i.micro_batch ||
          found.gradient != i.gradient || found.chunk != chunk_of(schedule_, i.part) ||
          (is_block && (found.backward_micro_batch != i.backward_micro_batch ||
                        found.backward_chunk != chunk_of(schedule_, i.backward_part))))
        return false;
    }
    return true;
  }

  bool emit(const PlannedRun& run, const Instruction& instruction) {
    work_.schedule.lists[run.stage].push_back(instruction);
    work_.runs.push_back(run);
    return true;
  }
  bool fail(int stage, const std::string& what) {
    work_.mismatch = "stage " + std::to_string(stage) + " " + what;
    return false;
  }

  const Plan& plan_;
  const Schedule& schedule_;
  const Profile& profile_;
  PlannedWork work_;
};

/// Returns the longest possible latency of a clock: of its own entry, or of the entries around it.
Seconds latency_to(const LatencyByClock& latency, Megahertz clock) {
  const auto entries = latency.entries();
  Seconds longest = clock < entries.front().clock  ? entries.front().latency
                    : clock > entries.back().clock ? entries.back().latency
                                                   : Seconds{0};
  for (std::size_t k = 0; k < entries.size(); ++k) {
    if (entries[k].clock == clock) return entries[k].latency;
    const bool is_between = k > 0 && entries[k - 1].clock < clock && clock < entries[k].clock;
    if (is_between) longest = std::max(entries[k - 1].latency, entries[k].latency);
  }
  return longest;
}

}  // namespace

Profile rows_of_chunks(const Profile& profile, const Schedule& schedule) {
  const int chunks = schedule.chunks(), each = chunks / std::max(schedule.copies, 1);
  if (profile.has_chunks() || each <= 1) return profile;
  std::vector<InstructionProfile> entries;
  for (int chunk = 0; chunk < chunks; ++chunk) {
    for (InstructionProfile entry : profile.entries()) {
      entry.chunk = chunk;
      for (OperatingPoint& point : entry.points) {
        if (is_fixed_time(entry.kind)) continue;
        point.time = point.time * (1.0 / each);
        point.energy = point.energy * (1.0 / each);
      }
      entries.push_back(std::move(entry));
    }
  }
  return Profile(std::move(entries), true);
}

PlannedWork planned_work(const Plan& plan, const Schedule& schedule, const Profile& profile) {
  return LineUpPlan(plan, schedule, profile).work();
}

int chunk_of(const Schedule& schedule, int part) {
  if (part < 0) return 0;
  const int stage = schedule.placement[part];
  return static_cast<int>(
      std::count(schedule.placement.begin(), schedule.placement.begin() + part, stage));
}

std::vector<Instruction> halves_of(const Instruction& i, const Schedule& schedule,
                                   const Profile& profile) {
  const auto half = [](InstructionKind kind, int part, int micro_batch) {
    return Instruction{.kind = kind, .part = part, .micro_batch = micro_batch};
  };
  const bool is_block = i.kind == InstructionKind::kForwardBackward;
  const int part = is_block ? i.backward_part : i.part;
  const int micro_batch = is_block ? i.backward_micro_batch : i.micro_batch;
  std::vector<Instruction> halves;
  if (is_block) {
    halves.push_back(half(InstructionKind::kForward, i.part, i.micro_batch));
  } else if (i.kind == InstructionKind::kRecomputeBackward) {
    halves.push_back(half(InstructionKind::kRecompute, part, micro_batch));
  } else if (i.kind != InstructionKind::kBackward) {
    return {i};
  }
  halves.push_back(half(InstructionKind::kBackward, part, micro_batch));
  bool splits_some = false, splits_this = false;
  for (const auto& list : schedule.lists) {
    for (const Instruction& other : list) {
      const bool is_weight = other.kind == InstructionKind::kWeight;
      splits_some |= is_weight;
      splits_this |= is_weight && other.part == part && other.micro_batch == micro_batch;
    }
  }
  for (int any = 0; any < schedule.parts(); ++any) {
    splits_some |=
        !profile.points(schedule.placement[any], chunk_of(schedule, any), InstructionKind::kWeight)
             .empty();
  }
  if (splits_some && !splits_this)
    halves.push_back(half(InstructionKind::kWeight, part, micro_batch));
  return halves;
}

std::vector<Instruction> runs_as(const Instruction& i, int stage, const Schedule& schedule,
                                 const Profile& profile) {
  const bool is_fused =
      i.kind == InstructionKind::kForwardBackward || i.kind == InstructionKind::kRecomputeBackward;
  const int chunk = chunk_of(schedule, i.part);
  if (is_fused && !profile.points(stage, chunk, i.kind).empty()) return {i};
  return halves_of(i, schedule, profile);
}

namespace {

/// A setting that may still be in force, and for how many seconds.
struct Lingering {
  InstructionSetting setting;
  long double until;
  friend bool operator==(const Lingering&, const Lingering&) = default;
};

/// Returns the point measured at a setting, or else its neighbours.
std::vector<OperatingPoint> standing_for(std::span<const OperatingPoint> points,
                                         const InstructionSetting& setting) {
  const OperatingPoint *at = nullptr, *below = nullptr, *above = nullptr;
  for (const OperatingPoint& point : points) {
    if (point.knobs != setting.knobs) continue;
    if (point.clock == setting.clock) at = &point;
    if (point.clock < setting.clock && (below == nullptr || point.clock > below->clock))
      below = &point;
    if (point.clock > setting.clock && (above == nullptr || point.clock < above->clock))
      above = &point;
  }
  if (at != nullptr) return {*at};
  std::vector<OperatingPoint> both;
  if (below != nullptr) both.push_back(*below);
  if (above != nullptr) both.push_back(*above);
  return both;
}

/// The greatest increase of a value of an instruction by lingering settings: at each moment until
/// the last of them ends, the setting counts that adds most a second. The increase is at most that
/// of the whole instruction at one setting.
struct Worst {
  std::vector<std::pair<long double, long double>> rates = {};  ///< end, increase a second
  long double most = 0;

  void add(long double until, long double seconds, long double more) {
    rates.emplace_back(until, more / seconds);
    most = std::max(most, more);
  }
  long double value() const {
    long double sum = 0, begin = 0;
    while (true) {
      long double end = std::numeric_limits<long double>::infinity(), rate = 0;
      for (const auto& [until, more] : rates) {
        if (until <= begin) continue;
        end = std::min(end, until);
        rate = std::max(rate, more);
      }
      if (end == std::numeric_limits<long double>::infinity()) return std::min(sum, most);
      sum += rate * (end - begin);
      begin = end;
    }
  }
};

void ask(std::vector<Lingering>& lingering, const InstructionSetting& before,
         const InstructionSetting& now, long double late) {
  if (now == before) return;
  lingering.push_back({before, late});
  for (Lingering& one : lingering) one.until = std::min(one.until, late);
  std::erase_if(lingering, [&](const Lingering& one) { return one.setting == now; });
}

LateCost run_late(const LateRun& run, Watts power, std::vector<Lingering>& lingering) {
  const auto effective = [&](const OperatingPoint& point) {
    return static_cast<long double>(point.energy.value) -
           static_cast<long double>(power.value) * point.time.value;
  };
  Worst time, energy;
  LateCost alone;  // if only one setting lingers
  long double shortest = run.now.time.value;
  for (const Lingering& one : lingering) {
    for (const OperatingPoint& old : standing_for(run.points, one.setting)) {
      const long double longer = static_cast<long double>(old.time.value) - run.now.time.value;
      const long double more = effective(old) - effective(run.now);
      const long double share = std::min(1.0L, one.until / old.time.value);
      time.add(one.until, old.time.value, longer);
      energy.add(one.until, old.time.value, more);
      alone.time = std::max(alone.time, share * longer);
      alone.energy = std::max(alone.energy, share * more);
      shortest = std::min<long double>(shortest, old.time.value);
    }
  }
  const bool is_alone = lingering.size() == 1;
  for (Lingering& one : lingering) one.until -= shortest;
  std::erase_if(lingering, [](const Lingering& one) { return one.until <= 0; });
  return is_alone ? alone : LateCost{time.value(), energy.value()};
}

}  // namespace

std::vector<LateCost> late_costs(std::span<const LateRun> list, Watts blocking_power,
                                 const LatencyByClock& latency) {
  std::vector<LateCost> costs;
  if (list.empty()) return costs;
  InstructionSetting asked = list.back().now.setting();
  std::vector<Lingering> lingering, before;
  constexpr int kMostRounds = 64;
  for (int round = 0; round < kMostRounds && (round == 0 || lingering != before); ++round) {
    costs.clear();
    before = lingering;
    for (const LateRun& run : list) {
      ask(lingering, asked, run.now.setting(), latency_to(latency, run.now.clock).value);
      asked = run.now.setting();
      costs.push_back(run_late(run, blocking_power, lingering));
    }
  }
  return costs;
}

}  // namespace harpe::plan
