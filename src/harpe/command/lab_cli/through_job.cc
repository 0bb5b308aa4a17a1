#include "harpe/command/lab_cli/through_job.h"

#include <deque>
#include <utility>

#include "harpe/training/emulated_training/emulation.h"
#include "harpe/training/job/make_plans.h"

namespace harpe::command {
namespace {

/// Returns the mean: the emulated GPUs all have one blocking power.
Watts mean(const std::vector<Watts>& powers) {
  Watts sum{0};
  for (const Watts power : powers) sum += power;
  return sum / static_cast<double>(powers.size());
}

/// The job, its training, and the part of a server that connects them.
class Course {
 public:
  Course(const JobTraining& training, training::Job job)
      : terms_(training),
        job_(std::move(job)),
        training_(training.spec, *training.spec.profile,
                  {.blocking_power = mean(training.spec.blocking_power->values),
                   .overhead = training.shape.overhead,
                   .noise = training.shape.noise,
                   .seed = training.shape.seed,
                   .switch_latency = training.spec.switch_latency.longest()}),
        stragglers_(training.shape.pipelines, training.stragglers, training.shape.seed) {
    result_.begin = training_.now();
    training_.slowness = [this](std::int64_t, int pipeline, int) {
      return stragglers_.slowdowns()[static_cast<std::size_t>(pipeline)];
    };
  }

  Status register_ranks() {
    for (const RankCoordinates rank : training_.places())
      HARPE_TRY(job_.register_rank(training_.registration(rank), training_.now()));
    return take_effects();
  }

  Status iterate() {
    stragglers_.advance(training_.next_iteration(), training_.now() - result_.begin);
    throttle();
    for (const training::IterationReport& report : training_.iterate())
      HARPE_TRY(job_.report(report, training_.now()));
    const training::EmulatedMachines::Iteration& last = training_.last();
    ++result_.iterations;
    result_.time += last.time;
    result_.energy += last.energy;
    result_.all_max_time += last.all_max_time;
    result_.all_max_energy += last.all_max_energy;
    job_.tick(training_.now());
    HARPE_TRY(take_effects());
    for (const RankCoordinates rank : training_.places())
      training_.take(rank, job_.assignments(rank.data, rank.stage));
    return ok_status();
  }

  JobTrainingResult take_result() {
    const training::JobStatus status = job_.status();
    const int gpus = terms_.shape.gpus_per_stage;
    result_.claimed = status.saved * gpus;
    result_.claimed_error = status.saved_error * gpus;
    result_.energy = result_.energy * gpus;
    result_.all_max_energy = result_.all_max_energy * gpus;
    return std::move(result_);
  }

 private:
  /// Holds the GPUs of throttled pipelines to their clocks.
  void throttle() {
    training_.held.clear();
    for (int pipeline = 0; pipeline < terms_.shape.pipelines; ++pipeline) {
      const Megahertz clock = stragglers_.held_to()[static_cast<std::size_t>(pipeline)];
      if (clock == Megahertz{0}) continue;
      for (int stage = 0; stage < terms_.spec.shape.stages; ++stage)
        training_.held[{pipeline, stage}] = clock;
    }
  }

  /// Makes the plans that the job requests. A server plans in parallel with the training; here the
  /// training waits for the plans.
  Status take_effects() {
    for (int round = 0; round < kMostRounds; ++round) {
      training::JobEffects effects = job_.take_effects();
      for (training::JobEvent& event : effects.events) result_.events.push_back(std::move(event));
      std::deque<training::CharacterizeRequest> requests(effects.more_plans.begin(),
                                                         effects.more_plans.end());
      if (effects.characterize) requests.push_front(std::move(*effects.characterize));
      if (requests.empty()) break;
      for (const training::CharacterizeRequest& request : requests)
        job_.characterized(request.ticket, plans_for(request), training_.now());
    }
    return ok_status();
  }

  Result<plan::PlanTable> plans_for(const training::CharacterizeRequest& request) const {
    const Pipeline pipeline = HARPE_TRY(training::planned_pipeline(job_.spec()));
    const Frontier frontier = HARPE_TRY(training::characterize(job_.spec(), pipeline, request));
    return training::make_plans(job_.spec(), request, frontier, Effort::kQuick, job_.spec().plans);
  }

  static constexpr int kMostRounds = 8;  ///< of plans that lead to new requests

  const JobTraining& terms_;
  training::Job job_;
  training::EmulatedTraining training_;
  lab::Stragglers stragglers_;
  JobTrainingResult result_;
};

}  // namespace

Result<JobTrainingResult> train_through_job(const JobTraining& training) {
  HARPE_TRY(validate(training.spec));
  training::Job job = HARPE_TRY(training::Job::create(training.spec, Seconds{1.8e9}));
  Course course(training, std::move(job));
  HARPE_TRY(course.register_ranks());
  for (std::int64_t i = 0; i < training.iterations; ++i) {
    HARPE_TRY(course.iterate());
    if (training.progress)
      training.progress(static_cast<double>(i + 1) / static_cast<double>(training.iterations));
  }
  return course.take_result();
}

}  // namespace harpe::command
