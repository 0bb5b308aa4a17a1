// Plans of every schedule, with split or fused instructions and any transfers, compared with a
// replay of the schedule's own lists, which is independent of pipelines and frontiers.

#include <gmock/gmock.h>

#include <array>
#include <random>
#include <set>

#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/plan_testing.h"
#include "harpe/plan/frontier/predict.h"
#include "harpe/plan/frontier/verify.h"
#include "harpe/plan/schedule/cells_testing.h"
#include "harpe/plan/schedule/replay.h"

namespace harpe::plan {
namespace {

using testing::IsEmpty;

/// Rows of a profile for instructions that compute several things.
enum class Rows {
  kParts,   ///< for their parts only
  kWholes,  ///< for the wholes, too
};

class RandomNumbers {
 public:
  explicit RandomNumbers(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  double between(double low, double high) {
    return std::uniform_real_distribution(low, high)(engine_);
  }

 private:
  std::mt19937 engine_;
};

/// Returns a profile whose times differ by stage, chunk, kind and clock.
Profile random_profile(RandomNumbers& random, const Schedule& schedule, Rows rows) {
  std::vector<InstructionKind> kinds = {InstructionKind::kForward, InstructionKind::kBackward,
                                        InstructionKind::kWeight, InstructionKind::kRecompute};
  if (rows == Rows::kWholes) {
    kinds.insert(kinds.end(),
                 {InstructionKind::kRecomputeBackward, InstructionKind::kForwardBackward});
  }
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    for (int chunk = 0; chunk < schedule.chunks(); ++chunk) {
      for (const InstructionKind kind : kinds) {
        auto& entry = entries.emplace_back();
        entry = {.stage = stage, .chunk = chunk, .kind = kind, .points = {}};
        const double size = random.between(0.01, 0.05);
        for (const int clock : kTestClocks) {
          const double seconds = size * (0.3 + 0.7 * 1350 / clock);
          const double watts = 120 + 200 * std::pow(clock / 1350.0, 2.5);
          entry.points.push_back({{clock}, {seconds}, {watts * seconds}});
        }
      }
    }
  }
  return Profile(std::move(entries), schedule.chunks() > 1);
}

Transfers random_transfers(RandomNumbers& random, int parts, int mode) {
  Transfers transfers;
  if (mode == 0) return transfers;
  transfers.mode = mode == 1 ? Transfers::Mode::kOverlapped : Transfers::Mode::kRendezvous;
  for (int part = 0; part + 1 < parts; ++part) {
    transfers.forward.push_back({random.between(0, 0.02)});
    transfers.backward.push_back({random.between(0, 0.02)});
  }
  return transfers;
}

/// Returns the time of every instruction of the schedule at the highest clock, from the profile's
/// rows of the instruction or else of its parts.
std::vector<std::vector<Seconds>> seconds_at_all_max(const Schedule& schedule,
                                                     const Profile& profile) {
  std::set<std::pair<int, int>> weights;
  for (const auto& list : schedule.lists) {
    for (const Instruction& i : list) {
      if (i.kind == InstructionKind::kWeight) weights.emplace(i.part, i.micro_batch);
    }
  }
  const auto of = [&](InstructionKind kind, int part) {
    const auto points = profile.points(schedule.placement[part], schedule.chunk(part), kind);
    return points.empty() ? Seconds{0} : points.back().time;
  };
  const auto full_backward = [&](int part, int micro_batch) {
    const bool is_split = weights.contains({part, micro_batch});
    return of(InstructionKind::kBackward, part) +
           (is_split ? Seconds{0} : of(InstructionKind::kWeight, part));
  };
  std::vector<std::vector<Seconds>> all;
  for (const auto& list : schedule.lists) {
    auto& of_stage = all.emplace_back();
    for (const Instruction& i : list) {
      Seconds time = i.part < 0 ? Seconds{0} : of(i.kind, i.part);
      if (i.kind == InstructionKind::kBackward) {
        time = full_backward(i.part, i.micro_batch);
      } else if (i.kind == InstructionKind::kForwardBackward && time == Seconds{0}) {
        time = of(InstructionKind::kForward, i.part) +
               full_backward(i.backward_part, i.backward_micro_batch);
      } else if (i.kind == InstructionKind::kRecomputeBackward && time == Seconds{0}) {
        time = of(InstructionKind::kRecompute, i.part) + full_backward(i.part, i.micro_batch);
      }
      of_stage.push_back(time);
    }
  }
  return all;
}

/// Returns the planned time of every instruction of the schedule, the sum of its parts.
std::vector<std::vector<Seconds>> seconds_of_plan(const Plan& plan) {
  std::vector<std::vector<Seconds>> all;
  for (const auto& list : plan.instructions) {
    auto& of_stage = all.emplace_back();
    bool goes_on = false;
    for (const PlannedInstruction& i : list) {
      if (!goes_on) of_stage.emplace_back();
      of_stage.back() += i.time;
      goes_on = i.fused_with_next || i.kind == InstructionKind::kSwitch;
    }
  }
  return all;
}

struct Planned {
  Schedule schedule;
  Transfers transfers;
  Profile profile;
};

/// Expects plans of all kinds to take as long as a replay of the schedule.
void expect_times_of_a_replay(const Planned& c) {
  const Pipeline pipeline = must(Pipeline::build(c.schedule, c.transfers));
  const Frontier frontier =
      must(characterize(pipeline, c.profile, {.blocking_power = Watts{60}, .gpus_per_stage = 2}));
  const Plan all_max = frontier.all_max();
  const Replay at_all_max =
      must(replay(c.schedule, c.transfers, seconds_at_all_max(c.schedule, c.profile)));
  EXPECT_NEAR(all_max.iteration_time.value, at_all_max.makespan.value, 1e-9);

  std::vector<Plan> plans = {all_max};
  for (const double slowdown : {1.0, 1.07}) {
    plans.push_back(
        must(frontier.plan(frontier.min_time() * slowdown, {.effort = Effort::kQuick})));
  }
  const PlanOptions late{.effort = Effort::kQuick, .switch_latency = Seconds{0.004}};
  // The search with late clocks takes long, so it is left out without transfers.
  const bool can_be_late = c.transfers.mode == Transfers::Mode::kOverlapped && !c.transfers.none();
  if (can_be_late) plans.push_back(must(frontier.plan(frontier.min_time() * 1.3, late)));
  for (const Plan& plan : plans) {
    const Replay played = must(replay(c.schedule, c.transfers, seconds_of_plan(plan)));
    EXPECT_NEAR(plan.iteration_time.value, played.makespan.value, 1e-9);
    const Certificate certificate = must(frontier.certificate(plan.iteration_time));
    const Verification found = verify_plan(plan, c.schedule, c.profile, &certificate);
    EXPECT_THAT(found.diagnostics, IsEmpty());
    EXPECT_NEAR(found.makespan.value, played.makespan.value, 1e-9);
    ASSERT_TRUE(found.relaxed_optimum);
    EXPECT_GE(*found.proven_bound / *found.relaxed_optimum, 1 - 1e-6);
    EXPECT_LE(found.proven_bound->value, plan.iteration_energy.value * (1 + 1e-9));

    const Plan read_back = must(parse_plan_json(plan_json(plan), "plan.json"));
    EXPECT_THAT(verify_plan(read_back, c.schedule, c.profile, nullptr).diagnostics, IsEmpty());
    const Prediction predicted = must(predict(read_back, c.profile, {}));
    EXPECT_LE(predicted.iteration_time.value, plan.iteration_time.value + 1e-9);
  }
  for (std::size_t i = 0; i < 3; ++i) {  // the plans without late clocks
    EXPECT_NEAR(must(predict(plans[i], c.profile, {})).iteration_time.value,
                plans[i].iteration_time.value, 1e-9);
  }
  if (can_be_late) {
    EXPECT_LE(must(predict(plans[3], c.profile, {.switch_latency = late.switch_latency}))
                  .iteration_time.value,
              plans[3].iteration_time.value + 1e-9);
  }
}

/// Returns true if a schedule can run with these transfers: some deadlock with blocking ones.
bool can_run(const Schedule& schedule, const Transfers& transfers) {
  std::vector<std::vector<Seconds>> nothing;
  for (const auto& list : schedule.lists) nothing.emplace_back(list.size());
  return replay(schedule, transfers, nothing).ok();
}

class EverySchedule : public testing::TestWithParam<ScheduleGenerator> {};

TEST_P(EverySchedule, IsPlannedAsItsListsRun) {
  constexpr std::array<ScheduleOptions, 6> kSizes = {{{.stages = 1, .micro_batches = 1},
                                                      {.stages = 4, .micro_batches = 1},
                                                      {.stages = 1, .micro_batches = 3},
                                                      {.stages = 4, .micro_batches = 3},
                                                      {.stages = 3, .micro_batches = 6},
                                                      {.stages = 4, .micro_batches = 8}}};
  unsigned seed = 0;
  int planned = 0;
  for (ScheduleOptions sizes : kSizes) {
    sizes.chunks = 1 + sizes.stages % 3;
    const auto schedule = GetParam().make(sizes);
    if (!schedule.ok() || (HARPE_UNDER_SANITIZERS && sizes.micro_batches > 6)) continue;
    for (const Rows rows : {Rows::kParts, Rows::kWholes}) {
      for (const int mode : {0, 1, 2}) {
        SCOPED_TRACE(testing::Message() << "seed " << ++seed << ", " << sizes.stages << " x "
                                        << sizes.micro_batches << ", mode " << mode);
        RandomNumbers random(seed);
        Planned c{.schedule = *schedule,
                  .transfers = random_transfers(random, schedule->parts(), mode),
                  .profile = random_profile(random, *schedule, rows)};
        if (!can_run(c.schedule, c.transfers)) continue;
        ++planned;
        expect_times_of_a_replay(c);
      }
    }
  }
  EXPECT_GE(planned, HARPE_UNDER_SANITIZERS ? 6 : 12);
}

INSTANTIATE_TEST_SUITE_P(Plans, EverySchedule, testing::ValuesIn(schedule_generators()),
                         [](const auto& param) {
                           std::string name(param.param.name);
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

/// Returns imported schedules: PyTorch's CSV with and without communication, and JSON.
std::vector<Schedule> imported_schedules() {
  std::vector<Schedule> schedules;
  for (const char* const csv :
       {// Fused and separate recomputation, sends and receives, a reduction.
        "0F0,0SEND_F0,0F1,0SEND_F1,0R0,0RECV_B0,0B0,0RECV_B1,0C1,0REDUCE_GRAD\n"
        "1RECV_F0,1F0,1C0,1SEND_B0,1RECV_F1,1F1,1R1,1B1,1SEND_B1\n",
        // A block and a split backward in addition to full ones.
        "0F0,3F0,(0F1;3B0)OVERLAP_F_B,3F1,3I1,0B0,3W1,0B1\n"
        "1F0,2F0,1F1,(2F1;2B0)OVERLAP_F_B,1I0,1W0,2B1,1B1\n"}) {
    schedules.push_back(must(parse_torch_csv(csv, "f")));
  }
  // Two directions over two stages: parts 0 and 1 in one, parts 2 and 3 in the other.
  schedules.push_back(must(parse_schedule_json(
      R"({"copies": 2, "placement": [0, 1, 1, 0], "ranks": [
        [{"op": "forward", "stage": 0, "mb": 0}, {"op": "forward", "stage": 3, "mb": 0},
         {"op": "forward_backward", "stage": 0, "mb": 1, "backward_stage": 3, "backward_mb": 0},
         {"op": "recompute_backward", "stage": 0, "mb": 0}, {"op": "forward", "stage": 3, "mb": 1},
         {"op": "backward", "stage": 3, "mb": 1}, {"op": "backward", "stage": 0, "mb": 1}],
        [{"op": "forward", "stage": 2, "mb": 0}, {"op": "forward", "stage": 1, "mb": 0},
         {"op": "forward_backward", "stage": 2, "mb": 1, "backward_stage": 1, "backward_mb": 0},
         {"op": "recompute_backward", "stage": 2, "mb": 0}, {"op": "forward", "stage": 1, "mb": 1},
         {"op": "backward", "stage": 1, "mb": 1}, {"op": "backward", "stage": 2, "mb": 1}]]})",
      "two.json")));
  const auto folder = measured_data() / "schedules";
  for (const char* const file :
       {"dualpipe_p4_m12.csv", "pytorch_golden/zb1p_2rank_2stagep_comms.csv",
        "pytorch_golden/torchtitan_interleaved_2rank_4stage_4mb_comms.csv",
        "pytorch_golden/dualpipev_4rank_10mb.csv"}) {
    if (!std::filesystem::exists(folder / file)) continue;
    const int copies = std::string_view(file).starts_with("dualpipe_") ? 2 : 1;
    schedules.push_back(must(read_schedule(folder / file, TorchDialect::kDetect, copies)));
  }
  return schedules;
}

TEST(ImportedSchedules, ArePlannedAsTheirListsRun) {
  unsigned seed = 100;
  int planned = 0;
  for (const Schedule& schedule : imported_schedules()) {
    for (const Rows rows : {Rows::kParts, Rows::kWholes}) {
      for (const int mode : {0, 1, 2}) {
        SCOPED_TRACE(testing::Message()
                     << "seed " << ++seed << ", " << schedule.parts() << " parts, mode " << mode);
        RandomNumbers random(seed);
        const Planned c{.schedule = schedule,
                        .transfers = random_transfers(random, schedule.parts(), mode),
                        .profile = random_profile(random, schedule, rows)};
        if (!can_run(c.schedule, c.transfers)) continue;
        ++planned;
        expect_times_of_a_replay(c);
      }
    }
  }
  EXPECT_GE(planned, 10);
}

TEST(SchedulesWithCells, ArePlannedAsTheirListsRun) {
  const Schedule forwards_first = must(gpipe({.stages = 3, .micro_batches = 3}));
  const Schedule split = must(zb_h1({.stages = 2, .micro_batches = 3}));
  int planned = 0;
  for (unsigned seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    RandomNumbers random(seed);
    const Schedule& without = seed % 2 == 0 ? split : forwards_first;
    const Schedule schedule =
        seed == 1 ? with_cells(without)
                  : with_random_cells(without, [&](int n) { return random.below(n); });
    const Planned c{.schedule = schedule,
                    .transfers = random_transfers(random, schedule.parts(), 2),
                    .profile = random_profile(random, schedule, Rows::kParts)};
    if (!can_run(c.schedule, c.transfers)) continue;
    ++planned;
    expect_times_of_a_replay(c);
  }
  EXPECT_GE(planned, 10);
}

TEST(SchedulesWithCells, TakeTheTimeAndEnergyOfThoseWithout) {
  const Schedule with =
      must(parse_torch_csv("0F0,0SEND_F0,0RECV_B0,0B0\n"
                           "1RECV_F0,1F0,1B0,1SEND_B0\n",
                           "f"));
  const Schedule without = must(parse_torch_csv("0F0,0B0\n1F0,1B0\n", "f"));
  const Profile profile = test_profile(2);
  for (const auto mode : {Transfers::Mode::kOverlapped, Transfers::Mode::kRendezvous}) {
    const auto frontier_of = [&](const Schedule& schedule) {
      return must(characterize(must(Pipeline::build(schedule, test_transfers(mode, 2))), profile,
                               {.blocking_power = Watts{60}}));
    };
    const Frontier one = frontier_of(with), other = frontier_of(without);
    EXPECT_DOUBLE_EQ(one.min_time().value, other.min_time().value);
    for (const double slowdown : {1.0, 1.05, 1.2}) {
      const Plan plan = must(one.plan(one.min_time() * slowdown));
      const Plan same = must(other.plan(other.min_time() * slowdown));
      EXPECT_NEAR(plan.iteration_time.value, same.iteration_time.value, 1e-12);
      EXPECT_NEAR(plan.iteration_energy.value, same.iteration_energy.value, 1e-9);
      EXPECT_NEAR(plan.lower_bound.value, same.lower_bound.value, 1e-6);
      const Prediction predicted = must(predict(plan, profile, {}));
      const Prediction as_well = must(predict(same, profile, {}));
      EXPECT_NEAR(predicted.iteration_time.value, as_well.iteration_time.value, 1e-12);
      EXPECT_NEAR(predicted.iteration_energy.value, as_well.iteration_energy.value, 1e-9);
    }
  }
}

TEST(RecomputeInsideTheBackward, IsPlannedToWaitForTheGradient) {
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < 4; ++stage) {
    for (const auto& [kind, seconds] : {std::pair{InstructionKind::kForward, 1.0},
                                        {InstructionKind::kRecompute, 1.0},
                                        {InstructionKind::kBackward, 2.0}}) {
      entries.push_back(
          {.stage = stage, .chunk = 0, .kind = kind, .points = {{{1410}, {seconds}, {100}}}});
    }
  }
  const Profile profile(std::move(entries));
  for (const auto& [name, units] :
       {std::pair{"recompute-1f1b", 32.0}, std::pair{"early-recompute-1f1b", 29.0}}) {
    const Frontier frontier =
        must(characterize(make_schedule(name, {.stages = 4, .micro_batches = 5}), profile, {}));
    EXPECT_DOUBLE_EQ(frontier.min_time().value, units) << name;
    EXPECT_DOUBLE_EQ(frontier.all_max().iteration_time.value, units) << name;
  }
}

}  // namespace
}  // namespace harpe::plan
