#pragma once
/// \file
/// The course of a search for a better plan of a job: its slices and its end. Pure.
///
/// A plan is made once and runs for weeks, so it pays to continue the search while the plan runs.
/// The search has slices. Each slice begins again and tries twice as many windows
/// (`PlanOptions::search_windows`) as the slice before, so that it finds the same plans and better
/// ones. At its end its best plan is passed to the job, and other jobs get their turn. All slices
/// together try at most three times as many windows as the longest.
///
/// The search ends when the work since the last gain equals the work until that gain, and at least
/// `SearchLimits::least` windows were tried; when the plan is proven to be the best; or when the
/// time limit is over. Without the time limit, its end depends only on the job.

#include <algorithm>
#include <cstdint>

#include "harpe/base/units.h"

namespace harpe::training {

struct SearchLimits {
  Seconds time{0};  ///< of all slices together; 0: no search
  // Windows: of the first slice, of the shortest search without a gain, and of the longest slice.
  std::int64_t first = 10'000, least = 40'000, most = std::int64_t{1} << 30;
};

class SearchCourse {
 public:
  explicit SearchCourse(const SearchLimits& limits) : limits_(limits), slice_(limits.first) {}

  /// Least saving that is worth a change of plans, as a fraction of the energy of an iteration.
  static constexpr double kWorthwhile = 5e-5;

  bool ended() const { return ended_; }
  /// Returns the windows of the running slice, or of the next one.
  std::int64_t slice() const { return slice_; }
  /// Returns the most windows that a slice has tried for the present plan.
  std::int64_t windows() const { return windows_; }
  Seconds spent() const { return spent_; }  ///< by slices that have ended

  void begin_slice();
  /// Notes the progress of the slice. Returns false if the slice must end.
  /// \param energy  of the best plan so far
  /// \param bound   lower bound on the energy of every plan
  /// \param taken   time of this slice so far
  bool goes_on(std::int64_t windows, Joules energy, Joules bound, Seconds taken);
  /// Ends a slice that has tried all its windows, or that `goes_on` has ended.
  void end_slice(Seconds taken);
  /// Ends a slice that was cancelled from outside: its windows do not count.
  void give_up_slice(Seconds taken);

 private:
  bool is_in_vain(std::int64_t windows) const {
    return windows >= std::max(limits_.least, 2 * gained_at_);
  }

  SearchLimits limits_;
  Seconds spent_{};
  std::int64_t slice_, windows_ = 0;
  bool ended_ = false;
  // Of the running slice:
  bool has_begun_ = false;
  Joules least_{};              ///< energy at the last gain
  std::int64_t gained_at_ = 0;  ///< windows until then
};

}  // namespace harpe::training
