#pragma once
/// \file
/// A job whose emulated ranks pause when requested, for tests.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "harpe/training/job/played_job_testing.h"
#include "harpe/training/wire/pause_book.h"

namespace harpe::training {

/// Training whose ranks pause when requested, based on the messages each has received over a
/// network with delays.
class Pausing : public Played {
 public:
  explicit Pausing(std::uint32_t seed, Seconds delay = Seconds{0.1},
                   const JobSpec& spec = small_spec(),
                   const EmulatedMachines::Options& options = {})
      : Played(spec, options), random_(seed), delay_(delay) {
    for (const RankCoordinates coordinates : training.places()) {
      EXPECT_TRUE(job.register_rank(training.registration(coordinates), training.now()).ok());
      ranks_.push_back({.coordinates = coordinates});
    }
    training.take_effects_of(job);
  }

  /// Returns true if a rank is cut off from the job, in both directions.
  std::function<bool(std::size_t rank, Seconds at)> is_cut = [](std::size_t, Seconds) {
    return false;
  };
  bool follows = true;
  std::size_t behind = 0;                   ///< reports of each rank that are not sent yet
  std::vector<std::int64_t> paused_before;  ///< iterations
  int disagreements = 0;
  Seconds waited{};

  Status set(bool pause, std::optional<Seconds> resumes = {}) {
    const Status set =
        job.set_pace(pause ? std::optional(Pace{.pause = true, .resumes = resumes, .why = "dirty"})
                           : std::nullopt,
                     training.now());
    tell();
    return set;
  }
  void ask() { EXPECT_TRUE(set(true).ok()); }
  void go_on() { EXPECT_TRUE(set(false).ok()); }

  /// Runs `count` iterations, with the requested pauses between them.
  void iterate(int count) {
    for (int i = 0; i < count; ++i) {
      arrive();
      pause_if_asked();
      step();
    }
  }
  /// Waits. The ranks register again every 20 s, as they do during a pause.
  void wait(Seconds time) {
    for (const Seconds until = training.now() + time; training.now() < until;) {
      training.run_for(Seconds{20});
      for (const Rank& rank : ranks_) {
        RankRegistration says = training.registration(rank.coordinates);
        says.pausing = job.assignments(0, 0).back().pause->number;
        EXPECT_TRUE(job.register_rank(says, training.now()).ok());
      }
      job.tick(training.now());
    }
  }
  /// Called while all ranks wait.
  std::function<void()> while_waiting = [] {};

 private:
  struct Message {
    Seconds at{};
    std::vector<StageAssignment> assignments;
  };
  struct Rank {
    RankCoordinates coordinates;
    PauseBook pauses = {};
    std::uint64_t known = 0;
    std::vector<Message> inbox = {};
    std::vector<IterationReport> unsent = {};
  };

  Seconds some_delay() { return delay_ * std::uniform_real_distribution<double>(0, 1)(random_); }
  /// Sends the job's new assignments to the ranks.
  void tell() {
    training.take_effects_of(job);
    if (job.version() == told_) return;
    told_ = job.version();
    for (Rank& rank : ranks_) {
      rank.inbox.push_back(
          {.at = training.now() + some_delay(),
           .assignments = job.assignments(rank.coordinates.data, rank.coordinates.stage)});
    }
  }
  void arrive() {
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (is_cut(i, training.now())) continue;
      std::erase_if(ranks_[i].inbox, [&](const Message& message) {
        if (message.at > training.now()) return false;
        for (const StageAssignment& one : message.assignments) {
          ranks_[i].known = std::max(ranks_[i].known, one.version);
          ranks_[i].pauses.take(one);
        }
        training.take(ranks_[i].coordinates, message.assignments);
        return true;
      });
    }
  }
  void pause_if_asked() {
    const std::int64_t next = training.next_iteration();
    int asked = 0;
    for (Rank& rank : ranks_) asked += rank.pauses.before(next) ? 1 : 0;
    if (!follows || asked == 0) return;
    paused_before.push_back(next);
    if (asked != static_cast<int>(ranks_.size())) ++disagreements;
    std::vector<std::optional<PauseRequest>> waits;
    for (Rank& rank : ranks_) {
      waits.push_back(rank.pauses.before(next));
      if (!waits.back()) continue;
      rank.pauses.follow(*waits.back());
      RankRegistration says = training.registration(rank.coordinates);
      says.pausing = waits.back()->number;
      EXPECT_TRUE(job.register_rank(says, training.now()).ok());
    }
    tell();
    const Seconds since = training.now();
    while_waiting();
    for (bool any = true; any;) {
      training.run_for(Seconds{0.05});
      job.tick(training.now());
      tell();
      arrive();
      any = false;
      for (std::size_t i = 0; i < ranks_.size(); ++i)
        any = any || (waits[i] && ranks_[i].pauses.lasts(*waits[i], next));
      if (training.now() - since > Seconds{86'400}) {
        ADD_FAILURE() << "ranks wait for ever before iteration " << next;
        break;
      }
    }
    waited += training.now() - since;
  }
  /// Runs one iteration. Ranks that are cut off keep their reports.
  void step() {
    for (IterationReport& one : training.iterate())
      ranks_[job.spec().shape.index(one.coordinates)].unsent.push_back(std::move(one));
    for (std::size_t i = 0; i < ranks_.size(); ++i) {
      if (is_cut(i, training.now())) continue;
      std::vector<IterationReport>& unsent = ranks_[i].unsent;
      for (; unsent.size() > behind; unsent.erase(unsent.begin())) {
        IterationReport& one = unsent.front();
        one.known = ranks_[i].known;
        one.reached = training.next_iteration() - 1;
        EXPECT_TRUE(job.report(one, training.now()).ok());
        tell();
      }
    }
    job.tick(training.now());
    tell();
    training.answer(job);
    tell();
  }

  std::mt19937 random_;
  Seconds delay_;
  std::vector<Rank> ranks_;
  std::uint64_t told_ = 0;
};

}  // namespace harpe::training
