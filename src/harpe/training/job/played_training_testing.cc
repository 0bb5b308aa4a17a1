#include "harpe/training/job/played_training_testing.h"

#include <utility>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/training/job/make_plans.h"

namespace harpe::training {
namespace {

constexpr int kCharacterizeTakes = 3;  // iterations

/// Returns the frontier of the pipeline that the job knows.
Result<Frontier> frontier_of(const Job& job, const CharacterizeRequest& request) {
  const JobSpec& spec = job.spec();
  return characterize(spec, *planned_pipeline(spec), request);
}

}  // namespace

Status PlayedTraining::register_all(Job& job) {
  for (const RankCoordinates coordinates : places()) {
    RankRegistration rank = registration(coordinates);
    change_registration(rank);
    HARPE_TRY(job.register_rank(rank, now()));
  }
  take_effects_of(job);
  return ok_status();
}

void PlayedTraining::run(Job& job, int count) {
  for (int i = 0; i < count; ++i) step(job);
}

bool PlayedTraining::run_until(Job& job, const std::function<bool()>& done, int most) {
  for (int i = 0; i < most; ++i) {
    if (done()) return true;
    step(job);
  }
  return done();
}

void PlayedTraining::step(Job& job) {
  for (IterationReport& one : iterate()) {
    if (lost(one.iteration, one.coordinates)) continue;
    change_report(one);
    (void)job.report(one, now());
  }
  job.tick(now());
  take_effects_of(job);
  answer(job);
  deliver(job);
}

void PlayedTraining::answer(Job& job) {
  if (request_ && --request_wait_ <= 0) respond(job);
  if (!more_requests_.empty() && --more_wait_ <= 0) respond_more(job);
}

void PlayedTraining::take_effects_of(Job& job) {
  JobEffects effects = job.take_effects();
  for (JobEvent& event : effects.events) events.push_back(std::move(event));
  if (effects.save) stored = job.texts();
  if (effects.characterize) {
    request_ = std::move(effects.characterize);
    first_plans_.reset();
    request_wait_ = kCharacterizeTakes;
  }
  for (CharacterizeRequest& request : effects.more_plans) {
    more_requests_.push_back(std::move(request));
    more_wait_ = kCharacterizeTakes;
  }
}

void PlayedTraining::respond(Job& job) {
  const CharacterizeRequest request = *request_;
  const Result<Frontier> frontier = frontier_of(job, request);
  if (!frontier.ok()) {
    request_.reset();
    return job.characterized(request.ticket, frontier.error(), now());
  }
  const JobSpec& own = spec();
  plan::PlanTable plans = *make_plans(own, request, *frontier, Effort::kQuick, own.plans);
  const bool better_follow = better_plans_take > 0 && !first_plans_;
  if (first_plans_) {
    plans = plan::PlanTable::merged(*first_plans_,
                                    *make_plans(own, request, *frontier, Effort::kFull, own.plans));
  }
  first_plans_.reset();
  if (better_follow) {
    first_plans_ = plans;
    request_wait_ = better_plans_take;
  } else {
    request_.reset();
  }
  job.characterized(request.ticket, std::move(plans), now(), better_follow);
  take_effects_of(job);
}

void PlayedTraining::respond_more(Job& job) {
  const CharacterizeRequest request = std::move(more_requests_.front());
  more_requests_.pop_front();
  const Result<Frontier> frontier = frontier_of(job, request);
  Result<plan::PlanTable> plans =
      frontier.ok() ? make_plans(spec(), request, *frontier, Effort::kQuick, spec().plans)
                    : Result<plan::PlanTable>(frontier.error());
  job.characterized(request.ticket, std::move(plans), now());
  take_effects_of(job);
}

void PlayedTraining::deliver(const Job& job) {
  for (const RankCoordinates coordinates : places()) {
    if (unreached(coordinates)) continue;
    take(coordinates, job.assignments(coordinates.data, coordinates.stage));
  }
}

}  // namespace harpe::training
