#pragma once
/// \file
/// What `harpe profile measure` says while a job is profiled, and at its end. Pure: it is handed
/// what the server responds, and the time.

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/training/wire/job_spec.h"

namespace harpe {

class ProfileWatch {
 public:
  struct Options {
    Seconds between{60};      ///< two lines of progress
    Seconds unheard_for{60};  ///< how long no rank may come before it is said how one does
    double slowdown_limit = 0.2;
    bool as_is = false;  ///< no clock is set
  };
  enum class State : unsigned char { kNoRank, kGathering, kProfiling, kDone };

  ProfileWatch(Options options, Instant start);

  /// What there is to say of a job's status as the server has it; empty: it knows no job.
  std::vector<std::string> look(std::string_view status, Instant now);
  /// Warnings of the job's log that were not said yet, such as what an agent refuses and why.
  std::vector<std::string> warnings(std::string_view log);

  State state() const { return state_; }
  /// Whether ranks could not set their clocks lately, so that nothing is learnt.
  bool clocks_are_refused() const { return not_set_ > 0; }
  /// Whether more iterations alone would have got there.
  bool needs_longer() const {
    return state_ == State::kProfiling && !(was_refused_ && clocks_left_ == clocks_);
  }
  /// "5 of 24 clocks are measured, some 140 iterations more were needed"; of a job without ranks,
  /// or whose ranks are not all there, that.
  std::string so_far() const;
  /// When every rank had come; none: not yet.
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

}  // namespace harpe
