// Small pipelines of all kinds, with few enough assignments to try them all.

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "harpe/plan/frontier/brute_force_testing.h"
#include "harpe/plan/frontier/fixed_time_rows.h"
#include "harpe/plan/frontier/forged_case_testing.h"
#include "harpe/plan/frontier/planned_work_testing.h"

namespace harpe::plan {

Dice::Dice(std::span<const std::uint8_t> bytes) : bytes_(bytes), state_(0xcbf29ce484222325) {
  for (const std::uint8_t byte : bytes) state_ = (state_ ^ byte) * 0x100000001b3;  // FNV-1a
}

std::uint32_t Dice::byte() {
  if (next_ < bytes_.size()) return bytes_[next_++];
  state_ += 0x9e3779b97f4a7c15;  // splitmix64
  std::uint64_t mixed = (state_ ^ (state_ >> 30)) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
  return static_cast<std::uint32_t>(mixed >> 56);
}

std::uint32_t Dice::word() {
  std::uint32_t word = 0;
  for (int k = 0; k < 4; ++k) word = word << 8 | byte();
  return word;
}

int Dice::below(int n) {
  const std::uint32_t drawn = n <= 256 ? byte() : word();
  return static_cast<int>(drawn % static_cast<std::uint32_t>(n));
}

namespace {

/// Inserts a `send` after each forward and backward whose result crosses to another stage, and its
/// `recv` before the instruction that needs it.
Schedule with_messages(Schedule schedule) {
  const auto crosses = [&](int from, int to) {
    return to >= 0 && to < schedule.parts() && schedule.placement[from] != schedule.placement[to];
  };
  for (auto& list : schedule.lists) {
    std::vector<Instruction> with;
    for (const Instruction& i : list) {
      const bool gradient = i.kind == InstructionKind::kBackward;
      const int after = gradient ? -1 : 1;
      const bool gives = gradient || i.kind == InstructionKind::kForward;
      const auto message = [&](InstructionKind kind) {
        with.push_back(
            {.kind = kind, .part = i.part, .micro_batch = i.micro_batch, .gradient = gradient});
      };
      if (gives && crosses(i.part, i.part - after)) message(InstructionKind::kRecv);
      with.push_back(i);
      if (gives && crosses(i.part, i.part + after)) message(InstructionKind::kSend);
    }
    list = std::move(with);
  }
  schedule.name = "custom";
  return schedule;
}

Schedule small_schedule(Dice& dice) {
  struct Shape {
    const char* name;
    int stages, micro_batches, chunks;
  };
  // Some schedules need at least this many micro-batches.
  static constexpr std::array kShapes{
      Shape{"1f1b", 1, 3, 1},           Shape{"1f1b", 2, 2, 1},
      Shape{"1f1b", 2, 3, 1},           Shape{"1f1b", 3, 2, 1},
      Shape{"1f1b", 3, 3, 1},           Shape{"gpipe", 2, 2, 1},
      Shape{"gpipe", 3, 2, 1},          Shape{"zb-h1", 2, 2, 1},
      Shape{"zb-h1", 2, 3, 1},          Shape{"zb-h2", 2, 3, 1},
      Shape{"zb-v", 1, 2, 2},           Shape{"zb-v", 2, 2, 2},
      Shape{"dualpipev", 1, 2, 2},      Shape{"dualpipev", 2, 4, 2},
      Shape{"looped-bfs", 2, 2, 2},     Shape{"interleaved-1f1b", 2, 2, 2},
      Shape{"recompute-1f1b", 2, 2, 1}, Shape{"early-recompute-1f1b", 2, 2, 1},
      Shape{"recompute-1f1b", 3, 2, 1}, Shape{"early-recompute-1f1b", 3, 3, 1},
  };
  const Shape& shape = dice.pick(kShapes);
  auto made = make_schedule(
      shape.name,
      {.stages = shape.stages, .micro_batches = shape.micro_batches, .chunks = shape.chunks});
  Schedule schedule = std::move(made).take();
  return dice.one_in(10) ? with_messages(std::move(schedule)) : schedule;
}

FixedTimes small_fixed_times(const SmallProblem& problem, Dice& dice) {
  FixedTimes times;
  if (!dice.one_in(5)) return times;
  for (auto* const of : {&times.load, &times.reduce, &times.optimizer}) {
    if (dice.one_in(2)) continue;
    for (int stage = 0; stage < problem.schedule.stages; ++stage)
      of->push_back(Seconds{problem.time_unit * dice.below(9) / 1024});
  }
  return times;
}

Transfers small_transfers(const SmallProblem& problem, Dice& dice) {
  Transfers transfers;
  const int boundaries = problem.schedule.parts() - 1;
  const int kind = dice.below(4);
  if (kind == 0 || boundaries < 1) return transfers;
  if (kind == 1) transfers.mode = Transfers::Mode::kRendezvous;
  for (auto* const times : {&transfers.forward, &transfers.backward}) {
    if (dice.one_in(4)) continue;
    const bool coarse = dice.one_in(2);
    for (int k = 0; k < boundaries; ++k) {
      times->push_back(
          Seconds{problem.time_unit * (coarse ? dice.below(8) / 1024.0 : dice.between(0, 0.004))});
    }
  }
  if (!Pipeline::build(problem.full_schedule, transfers).ok())
    transfers.mode = Transfers::Mode::kOverlapped;  // blocking transfers may deadlock
  return transfers;
}

LatencyByClock small_latency(const SmallProblem& problem, Dice& dice) {
  const auto time = [&] { return Seconds{problem.time_unit * dice.below(40) / 2048}; };
  const int kind = dice.below(4);
  if (kind < 2) return {};
  if (kind == 2) return time();
  std::vector<LatencyByClock::Entry> entries;
  for (int clock = 900; clock < 1000; clock += 15 + 15 * dice.below(4))
    entries.push_back({Megahertz{clock}, time()});
  return LatencyByClock(std::move(entries));
}

/// Draws any cloud of operating points.
class PointMaker {
 public:
  PointMaker(const SmallProblem& problem, Dice& dice)
      : problem_(problem), dice_(dice), style_(dice.below(4)), has_knobs_(dice.one_in(8)) {}

  std::vector<OperatingPoint> points(int count) {
    std::vector<OperatingPoint> points;
    std::set<InstructionSetting> taken;
    for (int k = 0; k < count; ++k) {
      OperatingPoint point = next(points);
      while (!taken.insert(point.setting()).second) point.clock.value += 15;
      points.push_back(point);
    }
    return points;
  }

 private:
  OperatingPoint next(const std::vector<OperatingPoint>& before) {
    OperatingPoint point;
    point.clock.value = 900 + 15 * dice_.below(6);
    if (has_knobs_ && dice_.one_in(2)) point.knobs.power_limit = Watts{100.0 + 50 * dice_.below(2)};
    const double energy_unit = problem_.time_unit * problem_.power_unit;
    double time = (4 + dice_.below(40)) / 1024.0, energy = (8 + dice_.below(40)) / 8.0;
    if (style_ == 1) {
      time = 1e-3 * (5 + dice_.below(45)) + 1e-9 / 3;
      energy = dice_.between(2, 12);
    } else if (style_ == 2) {
      time = dice_.between(0.004, 0.05);
      energy = 300 * time * dice_.between(0.5, 1.5);
    }
    point.time = Seconds{time * problem_.time_unit};
    point.energy = Joules{energy * energy_unit};
    if (style_ != 3 || before.empty()) return point;
    // As near to another point as doubles allow, or equal to it.
    const OperatingPoint& near = before[static_cast<std::size_t>(dice_.below(2)) % before.size()];
    const auto beside = [&](double value) {
      const int way = dice_.below(3);
      return way == 0 ? value : std::nextafter(value, way == 1 ? 0 : 2 * value);
    };
    if (dice_.one_in(2)) point.time.value = beside(near.time.value);
    if (dice_.one_in(2)) point.energy.value = beside(near.energy.value);
    return point;
  }

  const SmallProblem& problem_;
  Dice& dice_;
  int style_;
  bool has_knobs_;
};

/// Returns a profile with a row for the weight gradient of every chunk.
Profile weight_rows(const Schedule& schedule) {
  std::vector<InstructionProfile> entries;
  for (int part = 0; part < schedule.parts(); ++part) {
    entries.push_back({.stage = schedule.placement[part],
                       .chunk = chunk_of(schedule, part),
                       .kind = InstructionKind::kWeight,
                       .points = {OperatingPoint{}}});
  }
  return Profile(std::move(entries), true);
}

/// Returns rows for the schedule's instructions, within a number of assignments.
Profile small_profile(const SmallProblem& problem, Dice& dice) {
  using Key = std::tuple<int, int, InstructionKind>;
  const Schedule& schedule = problem.full_schedule;
  const bool has_chunks = schedule.chunks() > 1 && !dice.one_in(4);
  const bool has_whole = dice.one_in(2), has_both = has_whole && dice.one_in(4);
  // Some profiles have rows for weight gradients that the schedule does not split off.
  const bool splits = dice.one_in(4);
  const Profile of_weights = weight_rows(schedule);
  std::map<Key, int> uses;
  const auto use = [&](int stage, const Instruction& i, int count) {
    if (is_fixed_time(i.kind)) return;
    uses[{stage, has_chunks ? chunk_of(schedule, i.part) : 0, i.kind}] += count;
  };
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (const Instruction& i : schedule.lists[stage]) {
      const bool is_fused = i.kind == InstructionKind::kForwardBackward ||
                            i.kind == InstructionKind::kRecomputeBackward;
      if (is_fused && has_whole) use(stage, i, 1);
      if (is_fused && has_whole && !has_both) continue;
      for (const Instruction& half : halves_of(i, schedule, splits ? of_weights : Profile()))
        use(stage, half, 1);
    }
  }
  // Some have about the greatest number of assignments that is tried, most have far fewer.
  double bits = dice.one_in(50) ? 17.9 : 6 + dice.below(6);
  PointMaker maker(problem, dice);
  std::vector<InstructionProfile> entries;
  std::vector<std::pair<Key, int>> drawn(uses.begin(), uses.end());
  for (std::size_t k = drawn.size(); k > 1; --k)
    std::swap(drawn[k - 1], drawn[static_cast<std::size_t>(dice.below(static_cast<int>(k)))]);
  for (const auto& [key, count] : drawn) {
    int points = 1 + dice.below(4);
    while (points > 1 && count * std::log2(points) > bits) --points;
    bits -= count * std::log2(points);
    const auto& [stage, chunk, kind] = key;
    entries.push_back(
        {.stage = stage, .chunk = chunk, .kind = kind, .points = maker.points(points)});
  }
  return Profile(std::move(entries), has_chunks);
}

void set_units(SmallProblem& problem, Dice& dice) {
  static constexpr std::array kUnits{1.0, 0x1p-20, 1e-9, 1e6, 1e-3};
  if (dice.one_in(6)) problem.time_unit = dice.pick(kUnits);
  if (dice.one_in(6)) problem.power_unit = dice.pick(kUnits);
}

void set_powers(SmallProblem& problem, Dice& dice) {
  const int style = dice.below(4);
  const double same = dice.below(120);
  for (int stage = 0; stage < problem.schedule.stages; ++stage) {
    const double power = style == 0   ? 0
                         : style == 1 ? same
                         : style == 2 ? dice.between(0, 120)
                                      : 16.0 * dice.below(100);
    problem.blocking_power.push_back(Watts{power * problem.power_unit});
  }
}

}  // namespace

SmallProblem small_problem(Dice& dice) {
  SmallProblem problem;
  problem.schedule = small_schedule(dice);
  set_units(problem, dice);
  set_powers(problem, dice);
  problem.fixed_times = small_fixed_times(problem, dice);
  problem.full_schedule = with_fixed_times(problem.schedule, problem.fixed_times).value();
  problem.transfers = small_transfers(problem, dice);
  problem.profile = small_profile(problem, dice);
  problem.gpus_per_stage = 1 + dice.below(8);
  problem.with_loops = dice.one_in(3);
  if (!problem.with_loops) problem.latency = small_latency(problem, dice);
  if (dice.one_in(4)) problem.min_dwell = Seconds{problem.time_unit * dice.below(60) / 1024};
  return problem;
}

namespace {

PlannedInstruction entry_of(const SmallProblem& problem, int stage, const Instruction& i) {
  const Schedule& schedule = problem.full_schedule;
  PlannedInstruction entry{.kind = i.kind,
                           .chunk = chunk_of(schedule, i.part),
                           .micro_batch = i.micro_batch,
                           .gradient = i.gradient};
  if (i.kind == InstructionKind::kForwardBackward) {
    entry.backward_chunk = chunk_of(schedule, i.backward_part);
    entry.backward_micro_batch = i.backward_micro_batch;
  }
  const FixedTimes& times = problem.fixed_times;
  if (i.kind == InstructionKind::kLoad) entry.time = times.load[stage];
  if (i.kind == InstructionKind::kReduce) entry.time = times.reduce[stage];
  if (i.kind == InstructionKind::kOptimizer) entry.time = times.optimizer[stage];
  entry.energy = problem.blocking_power[stage] * entry.time;
  return entry;
}

}  // namespace

ForgedCase case_by_hand(const SmallProblem& problem, Dice& dice) {
  const Schedule& schedule = problem.full_schedule;
  ForgedCase made{
      .plan = {}, .certificate = {}, .profile = problem.profile, .schedule = problem.schedule};
  Plan& plan = made.plan;
  plan.job = "forged";
  plan.schedule = problem.schedule.name;
  plan.stages = schedule.stages;
  plan.micro_batches = schedule.micro_batches;
  plan.chunks = schedule.chunks();
  plan.copies = schedule.copies;
  plan.placement = schedule.placement;
  plan.gpus_per_stage = problem.gpus_per_stage;
  plan.blocking_power = problem.blocking_power;
  plan.transfers = problem.transfers;
  const int way = dice.below(3);  // 0: the first point, 1: the last, 2: any
  const bool in_halves = dice.one_in(32);
  for (int stage = 0; stage < schedule.stages; ++stage) {
    auto& list = plan.instructions.emplace_back();
    for (const Instruction& whole : schedule.lists[stage]) {
      const auto parts = in_halves ? halves_of(whole, schedule, problem.profile)
                                   : runs_as(whole, stage, schedule, problem.profile);
      for (const Instruction& part : parts) {
        PlannedInstruction& entry = list.emplace_back(entry_of(problem, stage, part));
        entry.fused_with_next = &part != &parts.back();
        const auto points = problem.profile.points(stage, entry.chunk, part.kind);
        if (is_fixed_time(part.kind) || points.empty()) continue;
        const OperatingPoint& point = way == 0   ? points.front()
                                      : way == 1 ? points.back()
                                                 : dice.pick(points);
        entry.clock = point.clock;
        entry.knobs = point.knobs;
      }
    }
  }
  recost(plan, problem.schedule, made.profile, dice.one_in(2) ? problem.latency : LatencyByClock{},
         Seconds{0});
  return made;
}

namespace {

Result<Plan> plan_by_solver(const Frontier& frontier, const PlanOptions& options, Dice& dice) {
  const Seconds low = frontier.min_time(), high = frontier.max_time();
  const Seconds deadline = low + (high - low) * (dice.one_in(4) ? 0 : dice.between(0, 1.1));
  if (dice.one_in(3)) return frontier.plan_for_straggler(deadline, options);
  return dice.one_in(4) ? frontier.fastest_plan(options) : frontier.plan(deadline, options);
}

}  // namespace

std::optional<ForgedCase> solved_case(const SmallProblem& problem, Dice& dice) {
  const Profile full = with_fixed_time_rows(problem.profile, problem.full_schedule,
                                            problem.fixed_times, problem.blocking_power);
  const auto pipeline = Pipeline::build(problem.full_schedule, problem.transfers);
  if (!pipeline.ok()) return std::nullopt;
  const auto frontier = characterize(*pipeline, full,
                                     {.blocking_power = PerStage<Watts>(problem.blocking_power),
                                      .gpus_per_stage = problem.gpus_per_stage,
                                      .job = "forged"});
  if (!frontier.ok()) return std::nullopt;
  PlanOptions options{
      .effort = Effort::kQuick, .switch_latency = problem.latency, .min_dwell = problem.min_dwell};
  if (dice.one_in(3)) options.switch_latency = {};
  ForgedCase solved = case_by_hand(problem, dice);
  // A search with late changes takes long, and a proof holds for any plan.
  if (dice.one_in(options.switching() ? 16 : 2)) {
    const auto plan = plan_by_solver(*frontier, options, dice);
    if (!plan.ok()) return std::nullopt;
    solved.plan = *plan;
  }
  const auto certificate =
      frontier->certificate(solved.plan.iteration_time, dice.one_in(4) ? PlanOptions{} : options);
  if (!certificate.ok()) return std::nullopt;
  solved.certificate = *certificate;
  if (dice.one_in(2)) solved.profile = full;
  return solved;
}

}  // namespace harpe::plan
