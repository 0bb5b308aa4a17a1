// Clients that request the clocks of a job, and the latency that plans count for them.

#include <gtest/gtest.h>

#include <string>

#include "harpe/training/job/make_plans.h"
#include "harpe/training/job/played_job_testing.h"

namespace harpe::training {
namespace {

constexpr Seconds kNow{1000};

JobSpec spec_of(Seconds latency = Seconds{0.01}) {
  JobSpec spec = small_spec(2, 2);
  spec.profile = truth_of(spec);
  spec.blocking_power = Watts{80};
  spec.switch_latency = latency;
  return spec;
}

/// Registers all ranks. \param others  number of ranks, from the first, that do not ask ahead
void register_all(Job& job, const std::string& run, int others, bool take_over = false) {
  const PlayedTraining training(job.spec(), *job.spec().profile, {});
  int rank = 0;
  for (const RankCoordinates coordinates : training.places()) {
    RankRegistration registration = training.registration(coordinates);
    registration.session += run;
    registration.run = run;
    registration.take_over = take_over;
    registration.asks_ahead = rank++ >= others;
    EXPECT_TRUE(job.register_rank(registration, kNow).ok());
  }
}

plan::ClockClient planned_for(Job& job) {
  const auto request = job.take_effects().characterize;
  EXPECT_TRUE(request);
  return request ? request->client : plan::ClockClient::kAny;
}

void make_plans_for(Job& job) {
  const CharacterizeRequest request = *job.take_effects().characterize;
  const Frontier frontier = *characterize(job.spec(), *planned_pipeline(job.spec()), request);
  job.characterized(request.ticket, *make_plans(job.spec(), request, frontier, Effort::kQuick, 5),
                    kNow);
  (void)job.take_effects();
}

TEST(ClockClient, IsHarpesWhereAllRanksAskAhead) {
  Job all = *Job::create(spec_of(), kNow);
  register_all(all, "first", 0);
  EXPECT_EQ(planned_for(all), plan::ClockClient::kHarpe);
  Job mixed = *Job::create(spec_of(), kNow);
  register_all(mixed, "first", 1);
  EXPECT_EQ(planned_for(mixed), plan::ClockClient::kAny) << "one of them leaves the whole latency";
  Job free = *Job::create(spec_of(Seconds{0}), kNow);
  register_all(free, "first", 0);
  EXPECT_EQ(planned_for(free), plan::ClockClient::kAny) << "no clock is late";
}

TEST(ClockClient, PlansCountWhatItLeavesOfTheLatency) {
  const JobSpec spec = spec_of();
  const auto counted = [&](plan::ClockClient client) {
    CharacterizeRequest request;
    request.client = client;
    return plan_options(spec, request, *spec.profile).switch_latency.longest();
  };
  EXPECT_EQ(counted(plan::ClockClient::kAny), Seconds{0.01});
  EXPECT_DOUBLE_EQ(counted(plan::ClockClient::kHarpe).value, 0.003);
}

TEST(ClockClient, AnotherOneHasPlansMadeAnew) {
  Job job = *Job::create(spec_of(), kNow);
  register_all(job, "first", 0);
  make_plans_for(job);
  EXPECT_EQ(job.search_request().client, plan::ClockClient::kHarpe);
  register_all(job, "second", 0, true);
  EXPECT_FALSE(job.take_effects().characterize) << "the same client: the plans stay";
  register_all(job, "third", 1, true);
  EXPECT_EQ(planned_for(job), plan::ClockClient::kAny);
}

TEST(ClockClient, OfOneRankMayChangeWhileTheOthersTrain) {
  Job job = *Job::create(spec_of(), kNow);
  register_all(job, "first", 0);
  make_plans_for(job);
  const PlayedTraining training(job.spec(), *job.spec().profile, {});
  RankRegistration other = training.registration(training.places().front());
  other.session = "other";
  other.run = "first";
  EXPECT_TRUE(job.register_rank(other, kNow + 2 * Job::kSilence).ok());
  EXPECT_EQ(planned_for(job), plan::ClockClient::kAny);
}

TEST(ClockClient, MayChangeWhilePlansAreMade) {
  Job job = *Job::create(spec_of(), kNow);
  register_all(job, "first", 0);
  const CharacterizeRequest before = *job.take_effects().characterize;
  const PlayedTraining training(job.spec(), *job.spec().profile, {});
  RankRegistration other = training.registration(training.places().front());
  other.session = "other";
  other.run = "first";
  EXPECT_TRUE(job.register_rank(other, kNow + 2 * Job::kSilence).ok());
  const auto request = job.take_effects().characterize;
  ASSERT_TRUE(request);
  EXPECT_EQ(request->client, plan::ClockClient::kAny);
  EXPECT_NE(request->ticket, before.ticket) << "the plans that are being made do not count";
}

TEST(ClockClient, IsStored) {
  Job job = *Job::create(spec_of(), kNow);
  register_all(job, "first", 0);
  make_plans_for(job);
  Result<plan::PlanTable> stored = plan::PlanTable::parse(job.plans()->stored_text(), "plans");
  Job again = *Job::read(job.texts(), *std::move(stored), kNow);
  again.go_on(kNow);
  EXPECT_EQ(again.search_request().client, plan::ClockClient::kHarpe);
  const PlayedTraining training(again.spec(), *again.spec().profile, {});
  RankRegistration same = training.registration(training.places().front());
  same.session += "first";
  same.run = "first";
  same.asks_ahead = true;
  EXPECT_TRUE(again.register_rank(same, kNow).ok());
  EXPECT_FALSE(again.take_effects().characterize) << "nothing has changed";
}

}  // namespace
}  // namespace harpe::training
