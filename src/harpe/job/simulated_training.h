#pragma once
/// \file
/// Training played against a job, for tests: ranks on GPUs whose true costs are known. Simulated.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harpe/frontier/frontier.h"
#include "harpe/job/job.h"
#include "harpe/job/make_plans.h"
#include "harpe/job/simulated_machines.h"

namespace harpe {

class SimulatedTraining : public SimulatedMachines {
 public:
  SimulatedTraining(const JobSpec& spec, Profile truth, const Options& options)
      : SimulatedMachines(spec, std::move(truth), options),
        books_(static_cast<std::size_t>(spec.shape.ranks())) {}

  int better_plans_take = 0;  ///< iterations after the first plans; 0: none follow

  // What may go wrong beside what machines do.
  std::function<bool(std::int64_t, RankCoordinates)> lost = [](std::int64_t, RankCoordinates) {
    return false;
  };
  /// Whether the assignments do not reach a rank after this iteration.
  std::function<bool(RankCoordinates)> unreached = [](RankCoordinates) { return false; };
  std::function<void(IterationReport&)> change_report = [](IterationReport&) {};

  std::string session(RankCoordinates coordinates) const {
    return run_ + "-" + std::to_string(spec_.shape.index(coordinates));
  }
  RankRegistration registration(RankCoordinates coordinates) const {
    return {.coordinates = coordinates,
            .session = session(coordinates),
            .run = run_,
            .gpu = "simulated",
            .clocks = clocks(coordinates.stage)};
  }
  Status register_all(Job& job) {
    for (const RankCoordinates coordinates : places()) {
      HARPE_TRY(job.register_rank(registration(coordinates), now_));
    }
    take_effects(job);
    return ok_status();
  }
  /// Training starts again, with other processes, at this iteration.
  void start_again(const std::string& run, std::int64_t iteration) {
    run_ = run;
    iteration_ = iteration;
    for (auto& book : books_) book.clear();
  }

  Seconds now() const { return now_; }
  /// Time passes without training.
  void run_for(Seconds time) { now_ += time; }
  void take_effects_of(Job& job) { take_effects(job); }
  std::int64_t next_iteration() const { return iteration_; }
  const std::vector<Iteration>& iterations() const { return iterations_; }
  const Iteration& last() const { return iterations_.back(); }
  std::vector<Notice> notices;
  JobTexts stored;  ///< the newest snapshot that the job has asked for

  void run(Job& job, int count) {
    for (int i = 0; i < count; ++i) step(job);
  }
  /// At most `most` iterations. \returns whether it came true
  bool run_until(Job& job, const std::function<bool()>& done, int most) {
    for (int i = 0; i < most; ++i) {
      if (done()) return true;
      step(job);
    }
    return done();
  }

 private:
  static constexpr int kCharacterizeTakes = 3;  ///< iterations

  const StageAssignment* assignments_of(RankCoordinates coordinates) const {
    const StageAssignment* found = nullptr;
    for (const auto& [version, assignments] : books_[spec_.shape.index(coordinates)])
      if (assignments.from_iteration <= iteration_) found = &assignments;
    return found;
  }

  /// One iteration of all pipelines, then all reports.
  void step(Job& job) {
    auto [done, reports] = play(
        iteration_, [this](RankCoordinates coordinates) { return assignments_of(coordinates); });
    now_ += done.time;
    for (IterationReport& one : reports) one.session = session(one.coordinates);
    iterations_.push_back(std::move(done));
    std::ranges::shuffle(reports, random_);
    for (IterationReport& one : reports) {
      if (lost(iteration_, one.coordinates)) continue;
      change_report(one);
      (void)job.report(one, now_);
    }
    ++iteration_;
    job.tick(now_);
    take_effects(job);
    if (request_ && --request_wait_ <= 0) answer(job);
    if (!more_requests_.empty() && --more_wait_ <= 0) answer_more(job);
    deliver(job);
  }

  void take_effects(Job& job) {
    JobEffects effects = job.take_effects();
    for (Notice& notice : effects.notices) notices.push_back(std::move(notice));
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
  /// By what the job knows of its pipeline.
  static Result<Frontier> frontier_of(const Job& job, const CharacterizeRequest& request) {
    const JobSpec& spec = job.spec();
    return characterize(spec, *planned_pipeline(spec), request);
  }
  void answer(Job& job) {
    const CharacterizeRequest request = *request_;
    const Result<Frontier> frontier = frontier_of(job, request);
    if (!frontier.ok()) {
      request_.reset();
      return job.characterized(request.ticket, frontier.error(), now_);
    }
    PlanTable plans = *make_plans(spec_, request, *frontier, Effort::kQuick, spec_.plans);
    const bool better_follow = better_plans_take > 0 && !first_plans_;
    if (first_plans_) {
      plans = PlanTable::merged(*first_plans_,
                                *make_plans(spec_, request, *frontier, Effort::kFull, spec_.plans));
    }
    first_plans_.reset();
    if (better_follow) {
      first_plans_ = plans;
      request_wait_ = better_plans_take;
    } else {
      request_.reset();
    }
    job.characterized(request.ticket, std::move(plans), now_, better_follow);
    take_effects(job);
  }
  void answer_more(Job& job) {
    const CharacterizeRequest request = std::move(more_requests_.front());
    more_requests_.pop_front();
    const Result<Frontier> frontier = frontier_of(job, request);
    Result<PlanTable> plans =
        frontier.ok() ? make_plans(spec_, request, *frontier, Effort::kQuick, spec_.plans)
                      : Result<PlanTable>(frontier.error());
    job.characterized(request.ticket, std::move(plans), now_);
    take_effects(job);
  }
  void deliver(const Job& job) {
    for (const RankCoordinates coordinates : places()) {
      if (unreached(coordinates)) continue;
      for (StageAssignment& assignments : job.assignments(coordinates.data, coordinates.stage))
        books_[spec_.shape.index(coordinates)][assignments.version] = std::move(assignments);
    }
  }

  std::string run_ = "first";
  std::int64_t iteration_ = 0;
  Seconds now_{1.8e9};
  std::vector<std::map<std::uint64_t, StageAssignment>> books_;  ///< of each rank, by version
  std::optional<CharacterizeRequest> request_;
  std::deque<CharacterizeRequest> more_requests_;
  int request_wait_ = 0, more_wait_ = 0;
  std::optional<PlanTable> first_plans_;  ///< better ones are being made
  std::vector<Iteration> iterations_;
};

}  // namespace harpe
