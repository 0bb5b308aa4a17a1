#pragma once
/// \file
/// Messages of `harpe profile measure` while a job is profiled, and at its end. Pure: the caller
/// passes the server's responses and the time.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe::command {

class ProfileWatch {
 public:
  struct Options {
    Seconds between{60};      ///< interval between two lines of progress
    Seconds unheard_for{60};  ///< then, without any rank, a hint explains how ranks register
    double slowdown_limit = 0.2;
    bool as_is = false;  ///< no clocks are set
  };
  enum class State : unsigned char { kNoRank, kGathering, kProfiling, kDone };

  ProfileWatch(Options options, Instant start);

  /// Returns new lines about the job.
  /// \param status  from the server; empty if the server knows no job
  std::vector<std::string> look(std::string_view status, Instant now);
  /// Returns the new warnings of the job's log, such as an agent's refusal.
  std::vector<std::string> warnings(std::string_view log);

  State state() const { return state_; }
  /// True if ranks could not set their clocks lately, so that profiling makes no progress.
  bool clocks_are_refused() const { return not_set_ > 0; }
  /// True if profiling would be complete after more iterations.
  bool needs_longer() const {
    return state_ == State::kProfiling && !(was_refused_ && clocks_left_ == clocks_);
  }
  /// Returns the progress: "5 of 24 clocks are measured, some 140 iterations more are needed". If
  /// ranks are missing, returns a sentence about that instead.
  std::string so_far() const;
  /// The time at which all ranks had registered; nullopt before.
  std::optional<Instant> gathered() const { return gathered_; }

 private:
  std::string progress_line(std::string_view iteration) const;

  Options options_;
  Instant start_;
  State state_ = State::kNoRank;
  std::optional<Instant> gathered_, said_;
  bool hinted_ = false, was_refused_ = false;
  int ranks_ = 0, registered_ = 0, not_set_ = 0;
  int clocks_ = 0, clocks_left_ = 0, iterations_left_ = 0;
  Seconds time_left_{};
  double slowdown_ = 0;
  std::int64_t events_ = 0;  ///< sequence number of the newest event seen
};

/// Returns the steps by which a training script takes part, as lines.
std::string how_ranks_take_part();

/// Returns true if each of these stages has the minimum for a plan: two clocks of each instruction.
bool can_be_planned(const Profile& profile, int stages);

/// Returns, for example, "2 stages, 4 instructions, 24 clocks from 1410 to 540 MHz".
std::string profile_summary(const Profile& profile);

/// Returns warnings of stages whose waiting GPUs seem to draw no power, or nearly that of computing
/// ones, and of noise that leaves little to plan.
std::vector<std::string> doubts_of(const Profile& profile,
                                   const std::vector<Watts>& blocking_power);

/// Returns the words of the `harpe plan` command for the profile and the job's pipeline.
/// \param schedule  value of `--schedule`: a generator, or the file with the job's own schedule
std::vector<std::string> plan_words(const JobSpec& spec, const std::string& schedule,
                                    const std::string& profile,
                                    const std::vector<Watts>& blocking_power);

}  // namespace harpe::command
