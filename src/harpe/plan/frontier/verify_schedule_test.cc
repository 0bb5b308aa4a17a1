// `verify_plan` on plans and certificates whose graph differs from the graph of their schedule.

#include <gmock/gmock.h>

#include <functional>
#include <map>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/plan_testing.h"
#include "harpe/plan/frontier/verify.h"
#include "harpe/plan/schedule/cells_testing.h"
#include "harpe/plan/schedule/rules.h"

namespace harpe::plan {
namespace {

using testing::AllOf;
using testing::AnyOf;
using testing::Contains;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

/// Returns the profile without rows for `recompute_backward`, which is then planned as its parts.
Profile without_wholes(const Profile& all) {
  std::vector<InstructionProfile> entries(all.entries().begin(), all.entries().end());
  std::erase_if(entries, [](const InstructionProfile& entry) {
    return entry.kind == InstructionKind::kRecomputeBackward;
  });
  return all.with_entries(std::move(entries));
}

Profile parts_profile(const Schedule& schedule) {
  return without_wholes(test_profile(schedule));
}
Profile parts_profile(const Plan& plan) {
  const auto has_weights = [](const std::vector<PlannedInstruction>& list) {
    return std::ranges::find(list, InstructionKind::kWeight, &PlannedInstruction::kind) !=
           list.end();
  };
  return without_wholes(
      test_profile(plan.stages, plan.chunks, std::ranges::any_of(plan.instructions, has_weights)));
}

Frontier frontier_of(const Schedule& schedule, Transfers transfers = {}) {
  return must(characterize(must(Pipeline::build(schedule, std::move(transfers))),
                           parts_profile(schedule),
                           {.blocking_power = Watts{70}, .gpus_per_stage = 2}));
}

std::vector<std::string> diagnostics(const Plan& plan, const Certificate* certificate = nullptr) {
  return verify_plan(plan, parts_profile(plan), certificate).diagnostics;
}

Schedule named(const char* name, int stages = 3, int micro_batches = 6) {
  return must(make_schedule(name, {.stages = stages, .micro_batches = micro_batches, .chunks = 2}));
}

/// Moves the end of a plan, with the energy of waiting until then.
void end_at(Plan& plan, Seconds end) {
  for (const Watts power : plan.blocking_power) {
    plan.iteration_energy += plan.gpus_per_stage * (power * (end - plan.iteration_time));
  }
  plan.iteration_time = end;
}

/// Returns the schedule with separate recomputations, which may run before the gradient arrives.
Schedule with_free_recomputes(Schedule schedule) {
  for (auto& list : schedule.lists) {
    std::vector<Instruction> apart;
    for (Instruction i : list) {
      if (i.kind == InstructionKind::kRecomputeBackward) {
        i.kind = InstructionKind::kRecompute;
        apart.push_back(i);
        i.kind = InstructionKind::kBackward;
      }
      apart.push_back(i);
    }
    list = std::move(apart);
  }
  return schedule;
}

TEST(VerifySchedule, RefusesARecomputeAheadOfTheGradientItWaitsFor) {
  for (const char* const name : {"recompute-1f1b", "early-recompute-1f1b"}) {
    SCOPED_TRACE(name);
    const Schedule schedule = named(name, 4, 5);
    const Frontier wrong = frontier_of(with_free_recomputes(schedule));
    const Frontier right = frontier_of(schedule);
    EXPECT_GT(right.min_time() / wrong.min_time(), 1.01);
    Plan plan = must(wrong.plan(wrong.min_time()));
    EXPECT_THAT(diagnostics(plan), Contains(HasSubstr("\"fused_with_next\" wrong at recompute")));
    // Marked as fused, it starts too early.
    for (std::size_t stage = 0; stage < 4; ++stage) {
      for (std::size_t i = 0; i < plan.instructions[stage].size(); ++i) {
        plan.instructions[stage][i].fused_with_next =
            right.all_max().instructions[stage][i].fused_with_next;
      }
    }
    EXPECT_THAT(diagnostics(plan),
                Contains(AllOf(HasSubstr("stage 0 recompute of micro-batch 0 starts at"),
                               HasSubstr("but stage 1 backward of micro-batch 0 lets it start at"),
                               HasSubstr("a backward waits for the gradient"))));
    // A correct plan with a certificate of the wrong graph.
    const Plan fastest = must(right.plan(right.min_time()));
    const Certificate certificate = must(wrong.certificate(fastest.iteration_time));
    EXPECT_THAT(diagnostics(fastest, &certificate),
                Contains(HasSubstr("but the graph of the schedule needs")));
  }
}

TEST(VerifySchedule, RefusesEveryTwoNeighboursInAnotherOrder) {
  for (const char* const name : {"1f1b", "zb-h1", "early-recompute-1f1b", "dualpipev"}) {
    const Plan good = frontier_of(named(name)).all_max();
    ASSERT_THAT(diagnostics(good), IsEmpty());
    for (std::size_t stage = 0; stage < good.instructions.size(); ++stage) {
      for (std::size_t i = 0; i + 1 < good.instructions[stage].size(); ++i) {
        Plan bad = good;
        PlannedInstruction& a = bad.instructions[stage][i];
        PlannedInstruction& b = bad.instructions[stage][i + 1];
        const Seconds start = a.start;
        std::swap(a, b);
        a.start = start;
        b.start = a.start + a.time;
        EXPECT_THAT(diagnostics(bad), Contains(AllOf(HasSubstr("stage " + std::to_string(stage)),
                                                     AnyOf(HasSubstr("the schedule has"),
                                                           HasSubstr("the schedule runs as one")))))
            << name;
      }
    }
  }
}

TEST(VerifySchedule, RefusesEveryOtherFusion) {
  for (const char* const name : {"recompute-1f1b", "zb-h1", "dualpipev"}) {
    const Plan good = frontier_of(named(name)).all_max();
    for (std::size_t stage = 0; stage < good.instructions.size(); ++stage) {
      for (std::size_t i = 0; i < good.instructions[stage].size(); ++i) {
        Plan bad = good;
        bad.instructions[stage][i].fused_with_next ^= true;
        EXPECT_THAT(diagnostics(bad), Contains(HasSubstr("\"fused_with_next\" wrong at"))) << name;
      }
    }
  }
}

/// Returns the kind of a dependency, by the message for its absence. Dependencies within a stage
/// other than its order need no class: the order implies them.
Rule class_of(const Pipeline& pipeline, const Dependency& d) {
  const PipelineNode& from = pipeline.nodes()[d.from];
  const PipelineNode& to = pipeline.nodes()[d.to];
  const auto is_message = [](const PipelineNode& node) {
    return node.instruction.kind == InstructionKind::kSend ||
           node.instruction.kind == InstructionKind::kRecv;
  };
  if (from.stage < 0 || to.stage < 0) return Rule::kBlocking;
  if (from.stage == to.stage) return Rule::kOrder;
  if (is_message(from) && is_message(to)) return Rule::kMessage;
  return to.instruction.kind == InstructionKind::kForward &&
                 from.instruction.kind == InstructionKind::kForward
             ? Rule::kActivation
             : Rule::kGradient;
}

/// Returns the plan with every instruction as early as the dependencies in `holds` allow.
Plan started_early(Plan plan, const Pipeline& pipeline,
                   const std::function<bool(const Dependency&)>& holds) {
  std::vector<PlannedInstruction*> entries;
  for (auto& list : plan.instructions) {
    for (auto& i : list) entries.push_back(&i);
  }
  const auto nodes = pipeline.nodes();
  std::vector<Seconds> end(nodes.size());
  Seconds last{0};
  for (const int node : pipeline.order()) {
    const bool is_transfer = nodes[node].stage < 0;
    Seconds start{0};
    for (const Dependency& d : pipeline.dependencies()) {
      if (d.to == node && holds(d)) start = std::max(start, end[d.from] + d.lag);
    }
    end[node] = start + (is_transfer ? nodes[node].transfer_time : entries[node]->time);
    if (!is_transfer) {
      entries[node]->start = start;
      last = std::max(last, end[node]);
    }
  }
  end_at(plan, last);
  return plan;
}

/// Returns true if an instruction starts earlier in `early` than in `plan`, by more than rounding.
bool is_earlier(const Plan& early, const Plan& plan) {
  for (std::size_t stage = 0; stage < plan.instructions.size(); ++stage) {
    for (std::size_t i = 0; i < plan.instructions[stage].size(); ++i) {
      const Seconds start = plan.instructions[stage][i].start;
      if (early.instructions[stage][i].start < start - Seconds{1e-6}) return true;
    }
  }
  return false;
}

Schedule with_sends_and_receives() {
  return must(
      parse_torch_csv("0F0,0SEND_F0,0F1,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
                      "1RECV_F0,1F0,1B0,1SEND_B0,1RECV_F1,1F1,1B1,1SEND_B1\n",
                      "f"));
}

TEST(VerifySchedule, RefusesInPartsWhatTheProfileHasRowsForAsAWhole) {
  struct Fused {
    const char* schedule;
    InstructionKind first, whole;
  };
  for (const auto& [name_of, first, whole] :
       {Fused{"recompute-1f1b", InstructionKind::kRecompute, InstructionKind::kRecomputeBackward},
        Fused{"dualpipev", InstructionKind::kForward, InstructionKind::kForwardBackward}}) {
    SCOPED_TRACE(name_of);
    const Frontier in_parts = frontier_of(named(name_of));
    const Plan plan = must(in_parts.plan(in_parts.min_time() * 1.05));
    const Certificate certificate = must(in_parts.certificate(plan.iteration_time));
    ASSERT_THAT(diagnostics(plan, &certificate), IsEmpty());
    // With rows for the wholes, the schedule needs less than the bound that is proven for parts.
    const Profile parts = parts_profile(plan);
    std::vector<InstructionProfile> entries(parts.entries().begin(), parts.entries().end());
    for (const InstructionProfile& entry : parts.entries()) {
      if (entry.kind != first) continue;
      entries.push_back(entry);
      entries.back().kind = whole;
    }
    const Profile profile(std::move(entries), plan.chunks > 1);
    const Frontier as_wholes = must(characterize(
        in_parts.pipeline(), profile, {.blocking_power = Watts{70}, .gpus_per_stage = 2}));
    EXPECT_LT(must(as_wholes.plan_for_straggler(plan.iteration_time)).iteration_energy,
              in_parts.lower_bound(plan.iteration_time));
    const Verification found = verify_plan(plan, profile, &certificate);
    EXPECT_FALSE(found.proven_bound);
    EXPECT_THAT(found.diagnostics,
                Contains(AllOf(HasSubstr(" is part of a " + std::string(name(whole))),
                               HasSubstr("it has to run as a whole"))));
  }
}

TEST(VerifySchedule, RefusesPlansMadeWithoutAnyClassOfDependencies) {
  std::map<Rule, int> refused;
  const auto expect_refusals = [&](const Schedule& schedule, const Transfers& transfers) {
    SCOPED_TRACE(schedule.name);
    const Frontier frontier = frontier_of(schedule, transfers);
    const Profile profile = parts_profile(schedule);
    const Pipeline& pipeline = frontier.pipeline();
    const Plan good = frontier.all_max();
    ASSERT_THAT(verify_plan(good, schedule, profile, nullptr).diagnostics, IsEmpty());
    for (const Rule rule :
         {Rule::kOrder, Rule::kActivation, Rule::kGradient, Rule::kMessage, Rule::kBlocking}) {
      const Plan early = started_early(
          good, pipeline, [&](const Dependency& d) { return class_of(pipeline, d) != rule; });
      if (!is_earlier(early, good)) continue;
      EXPECT_THAT(verify_plan(early, schedule, profile, nullptr).diagnostics,
                  Contains(HasSubstr(std::string(sentence(rule)))));
      ++refused[rule];
    }
  };
  for (const char* const name :
       {"1f1b", "recompute-1f1b", "early-recompute-1f1b", "zb-h1", "dualpipev", "zb-v"}) {
    const Schedule schedule = named(name);
    expect_refusals(schedule, {});
    expect_refusals(schedule, test_transfers(Transfers::Mode::kOverlapped, schedule.parts()));
    if (schedule.chunks() > 1) continue;
    expect_refusals(schedule, test_transfers(Transfers::Mode::kRendezvous, schedule.parts()));
  }
  expect_refusals(with_sends_and_receives(), {});
  expect_refusals(with_cells(named("gpipe")), test_transfers(Transfers::Mode::kRendezvous, 3));
  EXPECT_GE(refused[Rule::kOrder], 10);
  EXPECT_GE(refused[Rule::kActivation], 10);
  EXPECT_GE(refused[Rule::kGradient], 10);
  EXPECT_GE(refused[Rule::kMessage], 1);
  EXPECT_GE(refused[Rule::kBlocking], 4);
}

TEST(VerifySchedule, RefusesEverySingleDependencyThatIsLeftOut) {
  for (const char* const name : {"1f1b", "recompute-1f1b", "dualpipev"}) {
    const Schedule schedule = named(name, 2, 4);
    for (const auto mode : {Transfers::Mode::kOverlapped, Transfers::Mode::kRendezvous}) {
      if (mode == Transfers::Mode::kRendezvous && schedule.chunks() > 1) continue;
      const Frontier frontier = frontier_of(schedule, test_transfers(mode, schedule.parts()));
      const Pipeline& pipeline = frontier.pipeline();
      const Plan good = frontier.all_max();
      int early_ones = 0;
      for (const Dependency& left_out : pipeline.dependencies()) {
        const Plan early = started_early(good, pipeline, [&](const Dependency& d) {
          return d.from != left_out.from || d.to != left_out.to;
        });
        if (!is_earlier(early, good)) continue;
        EXPECT_THAT(diagnostics(early), Not(IsEmpty()))
            << name << " without " << left_out.from << " -> " << left_out.to;
        ++early_ones;
      }
      EXPECT_GT(early_ones, 8) << name;
    }
  }
}

TEST(VerifySchedule, RefusesEverySingleDependencyThatIsLeftOutBetweenCells) {
  const Schedule schedule = with_cells(named("gpipe", 3, 4));
  const Frontier frontier =
      frontier_of(schedule, test_transfers(Transfers::Mode::kRendezvous, schedule.parts()));
  const Pipeline& pipeline = frontier.pipeline();
  const Plan good = frontier.all_max();
  const Profile profile = without_wholes(test_profile(3));
  ASSERT_THAT(verify_plan(good, schedule, profile, nullptr).diagnostics, IsEmpty());
  int early_ones = 0, between_transfers = 0;
  for (const Dependency& left_out : pipeline.dependencies()) {
    const Plan early = started_early(good, pipeline, [&](const Dependency& d) {
      return d.from != left_out.from || d.to != left_out.to;
    });
    if (!is_earlier(early, good)) continue;
    const bool is_between_transfers =
        pipeline.nodes()[left_out.from].stage < 0 && pipeline.nodes()[left_out.to].stage < 0;
    const auto found = verify_plan(early, schedule, profile, nullptr).diagnostics;
    EXPECT_THAT(found, Not(IsEmpty())) << "without " << left_out.from << " -> " << left_out.to;
    ++early_ones;
    if (!is_between_transfers) continue;
    EXPECT_THAT(found, Contains(HasSubstr(std::string(sentence(Rule::kBlocking)))));
    ++between_transfers;
  }
  EXPECT_GT(early_ones, 20);
  EXPECT_GT(between_transfers, 0);
}

TEST(VerifySchedule, RefusesAnInstructionEarlyByATransfer) {
  const Transfers transfers = test_transfers(Transfers::Mode::kOverlapped, 3);
  const Frontier frontier = frontier_of(named("1f1b"), transfers);
  const Pipeline& pipeline = frontier.pipeline();
  Plan early = started_early(frontier.all_max(), pipeline,
                             [&](const Dependency& d) { return d.lag == Seconds{0}; });
  EXPECT_THAT(diagnostics(early),
              Contains(HasSubstr("stage 1 forward of micro-batch 0 starts at")));
  // The plan of a pipeline without transfers, declared to have transfers.
  const Frontier without = frontier_of(named("1f1b"));
  early = without.all_max();
  early.transfers = transfers;
  EXPECT_THAT(diagnostics(early),
              Contains(HasSubstr("stage 1 forward of micro-batch 0 starts at")));
}

TEST(VerifySchedule, RefusesCertificatesOfOtherGraphs) {
  const Transfers transfers = test_transfers(Transfers::Mode::kOverlapped, 3);
  const Frontier frontier = frontier_of(named("1f1b"), transfers);
  const Plan plan = must(frontier.plan(frontier.min_time() * 1.1));
  const Certificate good = must(frontier.certificate(plan.iteration_time));
  EXPECT_THAT(diagnostics(plan, &good), IsEmpty());
  const Certificate without_transfers =
      must(frontier_of(named("1f1b")).certificate(plan.iteration_time));
  EXPECT_THAT(diagnostics(plan, &without_transfers), Contains(HasSubstr("lets it: a ")));
  const Certificate of_another =
      must(frontier_of(named("gpipe"), transfers).certificate(plan.iteration_time));
  EXPECT_THAT(diagnostics(plan, &of_another), Not(IsEmpty()));
}

TEST(VerifySchedule, TakesTheScheduleOfAFileAndNoOther) {
  Schedule schedule = with_sends_and_receives();
  const Profile profile = without_wholes(test_profile(2));
  const Plan plan = frontier_of(schedule).all_max();
  EXPECT_THAT(verify_plan(plan, schedule, profile, nullptr).diagnostics, IsEmpty());
  EXPECT_THAT(verify_plan(plan, profile, nullptr).diagnostics,
              Contains(HasSubstr("the plan's schedule 'custom' is not known by name")));
  const auto refuses = [&](const char* message, const Schedule& other) {
    EXPECT_THAT(verify_plan(plan, other, profile, nullptr).diagnostics,
                Contains(HasSubstr(message)));
  };
  refuses("runs send of micro-batch 0, where the schedule has forward of micro-batch 1",
          named("1f1b", 2, 2));
  refuses("2 micro-batches, its schedule 4", named("1f1b", 2, 4));
  refuses("2 stages, its schedule 3", named("1f1b", 3, 2));
  refuses("1 chunks a stage, its schedule 2", named("zb-v", 2, 2));
  std::swap(schedule.placement[0], schedule.placement[1]);
  std::swap(schedule.lists[0], schedule.lists[1]);
  refuses("places the parts of the model on other stages", schedule);
  // A schedule that cannot run is refused, too.
  schedule = named("1f1b", 2, 2);
  Plan in_a_circle = frontier_of(schedule).all_max();
  std::swap(schedule.lists[1][0], schedule.lists[1][1]);
  std::swap(in_a_circle.instructions[1][0], in_a_circle.instructions[1][1]);
  EXPECT_THAT(verify_plan(in_a_circle, schedule, profile, nullptr).diagnostics,
              Contains(HasSubstr("wait for each other in a cycle")));
}

TEST(VerifySchedule, KnowsWhatAPlanMayAddToItsSchedule) {
  const Plan good = frontier_of(named("1f1b", 2, 2)).all_max();
  const auto with = [&](std::size_t at, PlannedInstruction added) {
    Plan plan = good;
    added.start = plan.instructions[0][at].start;
    plan.instructions[0].insert(plan.instructions[0].begin() + static_cast<std::ptrdiff_t>(at),
                                added);
    return diagnostics(plan);
  };
  // Stage 0: F0 F1 B0 B1.
  EXPECT_THAT(with(1, {.kind = InstructionKind::kLoad, .micro_batch = 1}), IsEmpty());
  EXPECT_THAT(
      with(2, {.kind = InstructionKind::kLoad, .micro_batch = 0}),
      Contains(HasSubstr("runs load of micro-batch 0, but not directly before its forward")));
  EXPECT_THAT(with(3, {.kind = InstructionKind::kOptimizer}),
              Contains(HasSubstr("runs optimizer before computations")));
  EXPECT_THAT(with(3, {.kind = InstructionKind::kSend, .micro_batch = 1}),
              Contains(HasSubstr("runs send of micro-batch 1, where the schedule has backward")));
  Plan reduced = good;
  reduced.instructions[0].push_back(
      {.kind = InstructionKind::kReduce, .start = good.iteration_time});
  EXPECT_THAT(diagnostics(reduced), IsEmpty());
  reduced.instructions[0].push_back(
      {.kind = InstructionKind::kUnshard, .start = good.iteration_time});
  EXPECT_THAT(diagnostics(reduced),
              Contains(HasSubstr("runs unshard, which the schedule does not have")));
}

}  // namespace
}  // namespace harpe::plan
