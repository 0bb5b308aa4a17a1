#pragma once
/// \file
/// Emulated training that reports to a job, for tests.

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <vector>

#include "harpe/training/emulated_training/emulation.h"
#include "harpe/training/job/job.h"

namespace harpe::training {

class PlayedTraining : public EmulatedTraining {
 public:
  using EmulatedTraining::EmulatedTraining;

  int better_plans_take = 0;  ///< iterations from the first to better plans; 0: no better plans

  // Faults in addition to faults of the machines.
  std::function<bool(std::int64_t, RankCoordinates)> lost = [](std::int64_t, RankCoordinates) {
    return false;
  };
  /// Returns true if the assignments do not reach a rank after this iteration.
  std::function<bool(RankCoordinates)> unreached = [](RankCoordinates) { return false; };
  std::function<void(IterationReport&)> change_report = [](IterationReport&) {};
  std::function<void(RankRegistration&)> change_registration = [](RankRegistration&) {};

  Status register_all(Job& job);
  void run(Job& job, int count);
  /// Runs until `done()`, at most `most` iterations. Returns `done()`.
  bool run_until(Job& job, const std::function<bool()>& done, int most);
  void take_effects_of(Job& job);
  /// Responds with the plans that are due.
  void answer(Job& job);

  std::vector<JobEvent> events;
  JobTexts stored;  ///< the newest snapshot that the job requested

 private:
  /// Runs one iteration of all pipelines, then sends all reports.
  void step(Job& job);
  void respond(Job& job);
  void respond_more(Job& job);
  void deliver(const Job& job);

  std::optional<CharacterizeRequest> request_;
  std::deque<CharacterizeRequest> more_requests_;
  int request_wait_ = 0, more_wait_ = 0;
  std::optional<plan::PlanTable> first_plans_;  ///< better plans are being made
};

}  // namespace harpe::training
