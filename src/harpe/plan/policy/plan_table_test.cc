#include "harpe/plan/policy/plan_table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

#include "harpe/plan/profile/synth.h"

namespace harpe::plan {
namespace {

Frontier frontier_of(int stages = 4, int micro_batches = 8) {
  const Profile profile = *synthesize({.stages = stages, .imbalance = 1.3, .noise = 0});
  return *characterize(one_f_one_b({.stages = stages, .micro_batches = micro_batches}), profile,
                       {.blocking_power = Watts{80}});
}

PlanTable table_of(const Frontier& frontier, int plans = 40) {
  const auto table =
      PlanTable::build(frontier, {.plans = plans, .plan = {.effort = Effort::kQuick}});
  EXPECT_TRUE(table.ok());
  return *table;
}

TEST(PlanTable, RunsFromTheFastestPlanToTheSlowestThatSaves) {
  const Frontier frontier = frontier_of();
  const PlanTable table = table_of(frontier);
  ASSERT_GT(table.plans().size(), 20U);
  EXPECT_NEAR(table.plans().front().time.value, frontier.min_time().value, 1e-6);
  EXPECT_LE(table.plans().back().time, frontier.max_time() * (1 + 1e-9));
  EXPECT_GT(table.plans().back().time, frontier.max_time() * 0.97);
  for (std::size_t i = 1; i < table.plans().size(); ++i)
    EXPECT_LT(table.plans()[i - 1].time, table.plans()[i].time);
}

TEST(PlanTable, TimesAndEnergiesAreThoseOfItsClocks) {
  const Frontier frontier = frontier_of();
  const PlanTable table = table_of(frontier);
  const Pipeline& pipeline = frontier.pipeline();
  for (const TablePlan& plan : table.plans()) {
    std::vector<Seconds> durations, compute(4);
    Joules energy{0};
    for (const PipelineNode& node : pipeline.nodes()) {
      const Megahertz clock = plan.clocks[node.stage][node.position];
      const auto points = frontier.profile().points(node.stage, node.chunk, node.instruction.kind);
      const auto point = std::ranges::find(points, clock, &OperatingPoint::clock);
      ASSERT_NE(point, points.end());
      durations.push_back(point->time);
      compute[node.stage] += point->time;
      energy += point->energy - Watts{80} * point->time;
    }
    const Seconds time = pipeline.earliest(durations).makespan;
    EXPECT_NEAR(time.value, plan.time.value, 1e-9);
    EXPECT_NEAR((energy + Watts{4 * 80} * time).value, plan.energy.value, 1e-6);
    for (int stage = 0; stage < 4; ++stage)
      EXPECT_NEAR(compute[stage].value, plan.compute_time[stage].value, 1e-9);
  }
}

TEST(PlanTable, LooksUpWhatASearchThroughAllPlansFinds) {
  const PlanTable table = table_of(frontier_of());
  const std::vector<TablePlan>& plans = table.plans();
  std::mt19937_64 random(7);
  std::uniform_real_distribution<double> times(plans.front().time.value * 0.9,
                                               plans.back().time.value * 1.1);
  for (int i = 0; i < 1000; ++i) {
    const Seconds time{times(random)};
    std::size_t least = 0, waiting = 0, slowest = 0;
    const auto waited = [&](const TablePlan& plan) {
      return plan.energy + table.waiting_power() * (time - plan.time);
    };
    for (std::size_t k = 0; k < plans.size() && plans[k].time <= time; ++k) {
      if (plans[k].energy < plans[least].energy) least = k;
      if (waited(plans[k]) < waited(plans[waiting])) waiting = k;
      slowest = k;
    }
    EXPECT_EQ(table.for_deadline(time), least);
    EXPECT_EQ(table.for_waiting_until(time), waiting);
    EXPECT_EQ(waiting, slowest);
  }
  std::uniform_real_distribution<double> powers(100, 2000);
  for (int i = 0; i < 1000; ++i) {
    const Watts cap{powers(random)};
    std::size_t fastest = plans.size() - 1;
    for (std::size_t k = plans.size(); k-- > 0;)
      if (plans[k].energy / plans[k].time <= cap) fastest = k;
    EXPECT_EQ(table.for_power_cap(cap), fastest);
  }
}

TEST(PlanTable, MergedIsNowhereWorseThanEither) {
  const Frontier frontier = frontier_of(3, 4);
  const PlanTable quick = table_of(frontier, 30);
  const PlanTable full = *PlanTable::build(frontier, {.plans = 7, .plan = {}});
  const PlanTable merged = PlanTable::merged(quick, full);
  EXPECT_EQ(PlanTable::merged(full, quick).json(), merged.json());
  EXPECT_EQ(PlanTable::merged(merged, quick).json(), merged.json());
  for (int i = -5; i <= 105; ++i) {
    const Seconds time =
        frontier.min_time() + (frontier.max_time() - frontier.min_time()) * 0.01 * i;
    const auto waiting = [&](const PlanTable& table) {
      const TablePlan& plan = table.plans()[table.for_waiting_until(time)];
      return plan.energy + table.waiting_power() * (time - plan.time);
    };
    const auto deadline = [&](const PlanTable& table) {
      return table.plans()[table.for_deadline(time)].energy;
    };
    for (const PlanTable* one : {&quick, &full}) {
      if (time >= one->plans().front().time) {
        EXPECT_LE(waiting(merged), waiting(*one));
        EXPECT_LE(deadline(merged), deadline(*one));
      }
      const Watts cap = Watts{300.0 + 8.0 * i};
      const auto capped = [&](const PlanTable& table) {
        return table.plans()[table.for_power_cap(cap)];
      };
      if (capped(*one).energy / capped(*one).time <= cap) {
        EXPECT_LE(capped(merged).time, capped(*one).time);
      }
    }
  }
}

TEST(PlanTable, KeepsThePlanForItsObjectiveAndOneOnly) {
  const Frontier frontier = frontier_of(3, 4);
  const auto table_for = [&](const Objective& objective, int plans) {
    return *PlanTable::build(
        frontier, {.plans = plans, .objective = objective, .plan = {.effort = Effort::kQuick}});
  };
  const auto made_for = [](const PlanTable& table) {
    return std::ranges::count(table.plans(), true, &TablePlan::for_objective);
  };
  const Objective deadline{Objective::Kind::kDeadline, frontier.min_time().value * 1.0713};
  const PlanTable table = table_for(deadline, 20);
  ASSERT_TRUE(table.for_objective());
  const TablePlan& plan = table.plans()[*table.for_objective()];
  const Plan expected = *frontier.plan(Seconds{deadline.value}, {.effort = Effort::kQuick});
  EXPECT_EQ(plan.time, expected.iteration_time);
  EXPECT_EQ(plan.energy, expected.iteration_energy);
  EXPECT_NEAR(*plan.gap, expected.gap(), 1e-9);
  EXPECT_NEAR(plan.lower_bound()->value, expected.lower_bound.value, 1e-6);

  const Objective slowdown{Objective::Kind::kSlowdown, 0.0311};
  const PlanTable merged = PlanTable::merged(table, table_for(slowdown, 0));
  EXPECT_EQ(merged.objective(), slowdown);
  EXPECT_EQ(made_for(merged), 1);
  EXPECT_LE(merged.plans().size(), table.plans().size() + 2) << "old ones do not pile up";
  EXPECT_EQ(PlanTable::merged(merged, table_of(frontier)).objective(), slowdown);
  for (const std::string& text : {merged.json(), merged.stored_text()}) {
    const auto read = PlanTable::parse(text, "table");
    ASSERT_TRUE(read.ok()) << read.error().text();
    EXPECT_EQ(read->objective(), slowdown);
    EXPECT_EQ(read->for_objective(), merged.for_objective());
  }

  const PlanTable none = table_for({Objective::Kind::kDeadline, frontier.min_time().value / 2}, 5);
  EXPECT_TRUE(none.objective());
  EXPECT_FALSE(none.for_objective()) << "no plan meets it";
}

TEST(PlanTable, StopsWhereItIsNotWantedAnyMore) {
  int asked = 0;
  const auto table = PlanTable::build(
      frontier_of(),
      {.plans = 40, .plan = {.effort = Effort::kQuick}, .wanted = [&] { return ++asked < 3; }});
  ASSERT_FALSE(table.ok());
  EXPECT_EQ(table.error().code, ErrorCode::kUnavailable);
  EXPECT_EQ(asked, 3);
}

TEST(PlanTable, ReadsBackTheSame) {
  const PlanTable table = table_of(frontier_of(), 10);
  const std::string text = table.json();
  const auto read = PlanTable::parse(text, "table");
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_EQ(read->json(), text);
  EXPECT_EQ(read->of_least_energy(), table.of_least_energy());
}

/// Returns the frontier of points that are faster than those in `frontier_of` but need more energy,
/// and of both kinds of points if `plain_too`.
Frontier frontier_with_knobs(bool plain_too) {
  const Profile profile = *synthesize({.stages = 4, .imbalance = 1.3, .noise = 0});
  std::vector<InstructionProfile> entries(profile.entries().begin(), profile.entries().end());
  for (InstructionProfile& entry : entries) {
    const std::vector<OperatingPoint> points = entry.points;
    if (!plain_too) entry.points.clear();
    for (OperatingPoint point : points) {
      point.knobs = {.power_limit = {300}, .label = *Label::of("overlap")};
      point.time.value *= 0.97;
      point.energy.value *= 1.01;
      entry.points.push_back(point);
    }
  }
  return *characterize(one_f_one_b({.stages = 4, .micro_batches = 8}), Profile(entries),
                       {.blocking_power = Watts{80}});
}

TEST(PlanTable, CarriesTheKnobsOfItsPlans) {
  const Frontier frontier = frontier_with_knobs(true);
  const PlanTable table = table_of(frontier);
  EXPECT_TRUE(table.all_max().knobs.empty());
  EXPECT_TRUE(std::ranges::any_of(table.plans(),
                                  [](const TablePlan& plan) { return !plan.knobs.empty(); }));
  for (const std::string& text : {table.json(), table.stored_text()}) {
    const auto again = PlanTable::parse(text, "t");
    ASSERT_TRUE(again.ok()) << again.error().text();
    EXPECT_EQ(again->json(), table.json());
    for (std::size_t i = 0; i < table.plans().size(); ++i) {
      EXPECT_EQ(again->plans()[i].knobs, table.plans()[i].knobs);
    }
  }
  PlanTable recounted = table;
  recounted.recount(frontier.pipeline().schedule(), frontier.profile());
  for (std::size_t i = 0; i < table.plans().size(); ++i) {
    for (std::size_t stage = 0; stage < 4; ++stage) {
      EXPECT_NEAR(recounted.plans()[i].compute_time[stage].value,
                  table.plans()[i].compute_time[stage].value, 1e-9);
    }
  }
  EXPECT_EQ(table_of(frontier_of()).json().find("knob"), std::string::npos);
}

TEST(PlanTable, CarriesOneClockForAllGpusWithoutKnobs) {
  const Frontier frontier = frontier_with_knobs(true);
  std::vector<OneSettingPoint> expected = frontier.one_setting();
  std::erase_if(expected, [](const auto& point) { return !point.setting.knobs.empty(); });
  ASSERT_GT(expected.size(), 1U);
  const PlanTable table = table_of(frontier);
  for (const std::string& text : {table.json(), table.stored_text()}) {
    const auto again = PlanTable::parse(text, "t");
    ASSERT_TRUE(again.ok()) << again.error().text();
    ASSERT_EQ(again->one_clock().size(), expected.size());
    for (std::size_t i = 0; i < expected.size(); ++i) {
      EXPECT_EQ(again->one_clock()[i].setting, expected[i].setting);
      EXPECT_EQ(again->one_clock()[i].iteration_time, expected[i].iteration_time);
      EXPECT_EQ(again->one_clock()[i].iteration_energy, expected[i].iteration_energy);
    }
  }
  // Tables of earlier versions have no `one_clock`.
  std::string earlier = table.stored_text();
  const std::size_t begin = earlier.find(",\"one_clock\""), end = earlier.find(",\"all_max\"");
  ASSERT_LT(begin, end);
  earlier.erase(begin, end - begin);
  const auto read = PlanTable::parse(earlier, "t");
  ASSERT_TRUE(read.ok()) << read.error().text();
  EXPECT_TRUE(read->one_clock().empty());
}

TEST(PlanTable, ReadsKnobsThatSetNothingAsNone) {
  std::string text = table_of(frontier_of(), 4).stored_text();
  const std::string clocks = "\"clocks_mhz\":\"1410x16;1410x16;1410x16;1410x16\"";
  ASSERT_NE(text.find(clocks), std::string::npos);
  text.replace(text.find(clocks), clocks.size(), clocks + ",\"knobs_of\":\"0x16;1x16;0x16;0x16\"");
  text.insert(text.size() - 1, ",\"knobs\":[{},{}]");
  const auto table = PlanTable::parse(text, "t");
  ASSERT_TRUE(table.ok()) << table.error().text();
  EXPECT_TRUE(table->all_max().knobs.empty());
}

TEST(PlanTable, KnobsThatAreNoneAreRefused) {
  const PlanTable table = table_of(frontier_with_knobs(false), 4);
  for (const std::string& text : {table.json(), table.stored_text()}) {
    const auto refused = [&](const std::string& old, const std::string& now) {
      std::string changed = text;
      changed.replace(changed.find(old), old.size(), now);
      const auto read = PlanTable::parse(changed, "t");
      return read.ok() ? std::string() : read.error().text();
    };
    EXPECT_NE(refused("overlap", "over lap").find("a label has"), std::string::npos);
    EXPECT_NE(refused("\"knobs\":[{}, ", "\"knobs\":[").find("places in the table's"),
              std::string::npos);
    const bool stored = text.find("plan_table/2") != std::string::npos;
    EXPECT_NE(refused(stored ? "knobs_of\":\"1x16" : "knobs_of\":[[1,",
                      stored ? "knobs_of\":\"1x15" : "knobs_of\":[[")
                  .find("as many as there are clocks"),
              std::string::npos);
  }
}

TEST(PlanTable, DamagedOnesAreRefusedWithTheirPlace) {
  const std::string text = table_of(frontier_of(2, 2), 3).json();
  const auto damaged = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    const std::size_t at = changed.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    changed.replace(at, from.size(), to);
    const auto read = PlanTable::parse(changed, "table");
    return read.ok() ? std::string() : read.error().text();
  };
  EXPECT_NE(damaged("harpe.plan_table/1", "harpe.plan_table/9"), "");
  EXPECT_NE(damaged("\"time_s\":", "\"time\":"), "");
  EXPECT_NE(damaged("1410", "-1"), "");
  EXPECT_NE(damaged("\"plans\":[", "\"plans\":[{},"), "");
  EXPECT_FALSE(PlanTable::parse(text.substr(0, text.size() / 2), "table").ok());
}

TEST(PlanTable, SearchesOnForThePlanOfTheObjectiveAlone) {
  const Frontier frontier = frontier_of();
  int told = 0;
  PlanTable::Options options{.plans = 5,
                             .plan = {.search_windows = 100, .go_on = [&](const SearchProgress&) {
                                        ++told;
                                        return true;
                                      }}};
  const PlanTable without = *PlanTable::build(frontier, options);
  EXPECT_EQ(told, 0);
  options.objective = Objective{Objective::Kind::kSlowdown, 0.03};
  const PlanTable with = *PlanTable::build(frontier, options);
  EXPECT_GT(told, 0);
  options.plan = {};
  const PlanTable usual = *PlanTable::build(frontier, options);
  EXPECT_GE(objective_gain(usual, with), 0);
  EXPECT_EQ(with.plans().size(), usual.plans().size());
}

TEST(PlanTable, AGainIsOfThePlanForTheSameObjective) {
  const Frontier frontier = frontier_of();
  const auto table = [&](const Objective& objective, Effort effort) {
    return *PlanTable::build(frontier,
                             {.plans = 0, .objective = objective, .plan = {.effort = effort}});
  };
  const double time = frontier.min_time().value * 1.2;
  for (const Objective& objective :
       {Objective{Objective::Kind::kSlowdown, 0.01}, Objective{Objective::Kind::kDeadline, time},
        Objective{Objective::Kind::kStragglerTime, time},
        Objective{Objective::Kind::kLeastEnergy, 0}}) {
    const PlanTable quick = table(objective, Effort::kQuick),
                    full = table(objective, Effort::kFull);
    const TablePlan& worse = quick.plans()[*quick.for_objective()];
    const TablePlan& better = full.plans()[*full.for_objective()];
    const double gain = objective_gain(quick, full);
    EXPECT_GE(gain, 0);
    EXPECT_LE(objective_gain(full, quick), 0);
    EXPECT_EQ(objective_gain(full, full), 0);
    if (!objective.is_straggler()) {
      EXPECT_NEAR(gain, 1 - better.energy / worse.energy, 1e-12);
    } else {  // both wait until `time`
      const auto waited = [&](const TablePlan& plan) {
        return plan.energy + full.waiting_power() * (Seconds{time} - plan.time);
      };
      EXPECT_NEAR(gain, (waited(worse) - waited(better)) / worse.energy, 1e-12);
    }
  }
  const PlanTable one = table({Objective::Kind::kSlowdown, 0.01}, Effort::kQuick);
  const PlanTable other = table({Objective::Kind::kSlowdown, 0.10}, Effort::kFull);
  EXPECT_EQ(objective_gain(one, other), 0);
  EXPECT_EQ(objective_gain(one, table_of(frontier)), 0) << "it has none";
}

}  // namespace
}  // namespace harpe::plan
