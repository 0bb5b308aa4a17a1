// Better plans for the objective of a running job, found in the background.

#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "harpe/training/job/make_plans.h"
#include "harpe/training/job/played_job_testing.h"
#include "harpe/training/job/search_course.h"

namespace harpe::training {
namespace {

constexpr Seconds kNow{1000};

JobSpec spec_of() {
  JobSpec spec = small_spec(3);
  spec.profile = truth_of(spec);
  spec.blocking_power = Watts{80};
  return spec;
}

/// A job that runs quick plans, including one for its objective, and the work of its workers.
struct Searched {
  explicit Searched(JobSpec given = spec_of())
      : spec(std::move(given)), job(*Job::create(spec, kNow)) {
    const PlayedTraining training(spec, *spec.profile, {});
    for (const RankCoordinates coordinates : training.places())
      EXPECT_TRUE(job.register_rank(training.registration(coordinates), kNow).ok());
    request = *job.take_effects().characterize;
  }

  Frontier frontier() const { return *characterize(spec, *planned_pipeline(spec), request); }
  plan::PlanTable quick() const {
    return *make_plans(spec, request, frontier(), Effort::kQuick, 10);
  }
  void run() {
    job.characterized(request.ticket, quick(), kNow);
    (void)job.take_effects();
  }
  /// Returns the result of a search.
  std::shared_ptr<const plan::PlanTable> better() const {
    const CharacterizeRequest wanted = job.search_request();
    return std::make_shared<const plan::PlanTable>(
        plan::PlanTable::merged(*job.plans(), *search_plan(spec, wanted, frontier(), 500, {})));
  }
  const plan::TablePlan& in_force() const {
    return job.plans()->plans()[job.pipelines()[0].plan.plan];
  }

  JobSpec spec;
  Job job;
  CharacterizeRequest request;
};

/// Returns the same table with the energy of its plan for the objective multiplied by `factor`.
std::shared_ptr<const plan::PlanTable> scaled(const plan::PlanTable& table, double factor) {
  nlohmann::json document = nlohmann::json::parse(table.json());
  nlohmann::json& plan = document["plans"][*table.for_objective()];
  plan["energy_j"] = plan["energy_j"].get<double>() * factor;
  return std::make_shared<const plan::PlanTable>(*plan::PlanTable::parse(document.dump(), "table"));
}

TEST(Search, IsForThePlanOfTheObjectiveOnceThatRuns) {
  Searched searched;
  Job& job = searched.job;
  EXPECT_EQ(job.search_ticket(), 0U) << "no plans";
  job.characterized(searched.request.ticket, searched.quick(), kNow, true);
  EXPECT_EQ(job.search_ticket(), 0U) << "a better table comes";
  job.characterized(searched.request.ticket, searched.quick(), kNow);
  EXPECT_NE(job.search_ticket(), 0U);
  EXPECT_TRUE(job.search_request().only_objective);
  EXPECT_EQ(job.search_request().objective, job.plans()->objective());
}

TEST(Search, WhatItFindsIsANewAssignmentAndStored) {
  Searched searched;
  searched.run();
  Job& job = searched.job;
  const std::uint64_t ticket = job.search_ticket(), version = job.version();
  const plan::TablePlan before = searched.in_force();
  const auto better = searched.better();
  ASSERT_TRUE(job.found_better(ticket, better, kNow));
  const JobEffects effects = job.take_effects();
  EXPECT_TRUE(effects.assignments && effects.plans && effects.save);
  EXPECT_TRUE(effects.more_plans.empty() && !effects.characterize);
  ASSERT_EQ(effects.events.size(), 1U);
  EXPECT_NE(effects.events[0].text.find("% less energy"), std::string::npos);
  EXPECT_EQ(job.version(), version + 1);
  EXPECT_EQ(job.search_ticket(), ticket) << "the search goes on";
  EXPECT_TRUE(job.pipelines()[0].for_objective);
  EXPECT_LT(searched.in_force().energy, before.energy);
  EXPECT_EQ(job.plans()->stored_text(), better->stored_text()) << "what the worker has written";
  EXPECT_FALSE(job.found_better(ticket, better, kNow)) << "the same again";
}

TEST(Search, TakesOnlyWhatIsWorthAChange) {
  Searched searched;
  searched.run();
  Job& job = searched.job;
  for (const double share : {-0.01, 0.0, 0.5, 0.99}) {
    const double factor = 1 - share * SearchCourse::kWorthwhile;
    EXPECT_FALSE(job.found_better(job.search_ticket(), scaled(*job.plans(), factor), kNow));
    const JobEffects effects = job.take_effects();
    EXPECT_FALSE(effects.assignments || effects.plans || effects.save) << share;
  }
  const auto better = scaled(*job.plans(), 1 - 1.01 * SearchCourse::kWorthwhile);
  EXPECT_TRUE(job.found_better(job.search_ticket(), better, kNow));
}

TEST(Search, IsAnotherOneWhereTheObjectiveChanges) {
  Searched searched;
  searched.run();
  Job& job = searched.job;
  const std::uint64_t before = job.search_ticket();
  const auto late = searched.better();
  ASSERT_TRUE(job.set_objective({Objective::Kind::kSlowdown, 0.05}, kNow).ok());
  EXPECT_EQ(job.search_ticket(), 0U) << "its plan is being made";
  const CharacterizeRequest request = job.take_effects().more_plans.at(0);
  EXPECT_FALSE(job.found_better(before, late, kNow));
  job.characterized(request.ticket,
                    make_plans(searched.spec, request, searched.frontier(), Effort::kQuick, 10),
                    kNow);
  EXPECT_NE(job.search_ticket(), 0U);
  EXPECT_NE(job.search_ticket(), before);
  EXPECT_FALSE(job.found_better(before, late, kNow));
  EXPECT_EQ(job.search_request().objective->value, 0.05);
}

TEST(Search, IsHaltedWhileAPipelineStraggles) {
  Searched searched;
  searched.run();
  Job& job = searched.job;
  const std::uint64_t ticket = job.search_ticket();
  const auto better = searched.better();
  ASSERT_TRUE(job.set_straggler({.pipeline = 1, .factor = 1.3}, kNow).ok());
  EXPECT_EQ(job.search_ticket(), 0U);
  EXPECT_FALSE(job.found_better(ticket, better, kNow));
  ASSERT_TRUE(job.clear_straggler(1, kNow).ok());
  EXPECT_EQ(job.search_ticket(), ticket) << "goes on where it was";
  EXPECT_TRUE(job.found_better(ticket, better, kNow));
}

TEST(Search, IsMadeWithLateClocksAndNotUnderADwell) {
  for (const bool dwells : {false, true}) {
    JobSpec spec = spec_of();
    if (dwells) spec.min_dwell = Seconds{0.001};
    if (!dwells) spec.switch_latency = Seconds{0.001};
    Searched searched(spec);
    searched.run();
    EXPECT_EQ(searched.job.phase(), JobPhase::kRunning);
    EXPECT_EQ(searched.job.search_ticket() == 0, dwells);
  }
}

// After a restart, the search begins with a plan that is worse than the stored plan.
TEST(Search, NeverPutsAWorsePlanBackAfterARestart) {
  Searched searched;
  searched.run();
  const std::shared_ptr<const plan::PlanTable> before = searched.job.shared_plans();
  ASSERT_TRUE(searched.job.found_better(searched.job.search_ticket(), searched.better(), kNow));
  const Joules energy = searched.in_force().energy;
  Result<plan::PlanTable> stored =
      plan::PlanTable::parse(searched.job.plans()->stored_text(), "plans");
  searched.job = *Job::read(searched.job.texts(), *std::move(stored), kNow);
  EXPECT_EQ(searched.job.search_ticket(), 0U) << "it sleeps";
  searched.job.go_on(kNow);
  EXPECT_EQ(searched.in_force().energy, energy);
  ASSERT_NE(searched.job.search_ticket(), 0U);
  EXPECT_FALSE(searched.job.found_better(searched.job.search_ticket(), before, kNow));
  EXPECT_EQ(searched.in_force().energy, energy);
}

// All ranks adopt the better plan at the same iteration, and it keeps its promise.
TEST(Search, TrainingRunsByWhatItFinds) {
  JobSpec spec = small_spec(2);
  spec.plans = 10;
  Played played(spec);
  ASSERT_TRUE(played.training.register_all(played.job).ok());
  ASSERT_TRUE(played.running());
  played.settle();
  ASSERT_TRUE(
      played.training.run_until(played.job, [&] { return played.job.search_ticket() != 0; }, 200));
  const Joules before = played.job.pipelines()[0].energy;
  const CharacterizeRequest request = played.job.search_request();
  const auto frontier = characterize(spec, *planned_pipeline(spec), request);
  const auto better = std::make_shared<const plan::PlanTable>(plan::PlanTable::merged(
      *played.job.plans(), *search_plan(spec, request, *frontier, 500, {})));
  ASSERT_TRUE(played.job.found_better(request.ticket, better, played.training.now()));
  EXPECT_LT(played.job.pipelines()[0].energy, before);
  played.training.run(played.job, 50);
  EXPECT_EQ(played.job.status().assignments_late, 0);
  EXPECT_FALSE(played.job.status().rolled_back_until);
  EXPECT_EQ(played.job.phase(), JobPhase::kRunning);
}

}  // namespace
}  // namespace harpe::training
