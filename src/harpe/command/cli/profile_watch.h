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
    Seconds between{60};      ///< time between two lines of progress
    Seconds unheard_for{60};  ///< then, without any rank, a hint says how ranks register
    double slowdown_limit = 0.2;
    bool as_is = false;  ///< no clock is set
  };
  enum class State : unsigned char { kNoRank, kGathering, kProfiling, kDone };

  ProfileWatch(Options options, Instant start);

  /// Returns new lines about the job.
  /// \param status  from the server; empty if it knows no job
  std::vector<std::string> look(std::string_view status, Instant now);
  /// Returns the warnings of the job's log that were not returned before, such as an agent's
  /// refusal.
  std::vector<std::string> warnings(std::string_view log);

  State state() const { return state_; }
  /// True if ranks could not set their clocks lately, so that profiling makes no progress.
  bool clocks_are_refused() const { return not_set_ > 0; }
  /// True if profiling would be complete after more iterations.
  bool needs_longer() const {
    return state_ == State::kProfiling && !(was_refused_ && clocks_left_ == clocks_);
  }
  /// "5 of 24 clocks are measured, some 140 iterations more were needed"; of a job without ranks,
  /// or whose ranks are not all there, that.
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
  std::int64_t events_ = 0;  ///< sequence of the newest that was looked at
};

/// What a training script has to do to take part, as lines.
std::string how_ranks_take_part();

/// Whether each of so many stages has what a plan needs at all: two clocks of each instruction.
bool can_be_planned(const Profile& profile, int stages);

/// "2 stages, 4 instructions, 24 clocks from 1410 to 540 MHz".
std::string profile_summary(const Profile& profile);

/// Stages whose waiting GPUs seem to draw nothing, or nearly what computing ones do; and noise with
/// which there is little to plan.
std::vector<std::string> doubts_of(const Profile& profile,
                                   const std::vector<Watts>& blocking_power);

/// The words of the `harpe plan` that takes the profile with what the job says of its pipeline.
/// \param schedule  what `--schedule` names: a generator, or the file with the job's own
std::vector<std::string> plan_words(const JobSpec& spec, const std::string& schedule,
                                    const std::string& profile,
                                    const std::vector<Watts>& blocking_power);

}  // namespace harpe::command
