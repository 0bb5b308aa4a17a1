#pragma once
/// \file
/// How long the search for a better plan of a job goes on, by the work it has done. Pure.
///
/// A plan is made once and runs for weeks, so it pays to go on searching after it was handed out.
/// The search comes in slices. Each begins anew and tries twice as many windows
/// (`PlanOptions::search_windows`) as the one before, so that it finds what that one found and
/// more; what it has found is handed out when it ends, and other jobs get their turn. All slices
/// together try at most thrice as many as the longest.
///
/// It ends when as much work again as had been done until the last gain has brought none, and
/// `SearchLimits::least` windows at least; when the plan is proven to be the best; or when the time
/// that it may take is over. But for the last, where it ends depends on the job alone.

#include <algorithm>
#include <cstdint>

#include "harpe/base/units.h"

namespace harpe::training {

struct SearchLimits {
  Seconds time{0};  ///< that all slices together may take; 0: nothing is searched for
  // Windows: of the first slice, of a search in vain, and of the longest slice.
  std::int64_t first = 10'000, least = 40'000, most = std::int64_t{1} << 30;
};

class SearchCourse {
 public:
  explicit SearchCourse(const SearchLimits& limits) : limits_(limits), slice_(limits.first) {}

  /// Of the energy of an iteration: less is not worth a change of plans.
  static constexpr double kWorthwhile = 5e-5;

  bool ended() const { return ended_; }
  /// That the next slice tries, or the one that runs.
  std::int64_t slice() const { return slice_; }
  /// Tried for the plan that there is, by the longest slice.
  std::int64_t windows() const { return windows_; }
  Seconds spent() const { return spent_; }  ///< by slices that have ended

  void begin_slice();
  /// Told how the slice comes on; false ends it.
  /// \param energy  of the best plan so far; \param bound  no plan needs less
  /// \param taken  by this slice
  bool goes_on(std::int64_t windows, Joules energy, Joules bound, Seconds taken);
  /// It has tried all it was to, or was told to end.
  void end_slice(Seconds taken);
  /// It was ended from outside, and what it tried does not count.
  void give_up_slice(Seconds taken);

 private:
  bool is_in_vain(std::int64_t windows) const {
    return windows >= std::max(limits_.least, 2 * gained_at_);
  }

  SearchLimits limits_;
  Seconds spent_{};
  std::int64_t slice_, windows_ = 0;
  bool ended_ = false;
  // Of the slice that runs:
  bool has_begun_ = false;
  Joules least_{};              ///< energy at the last gain
  std::int64_t gained_at_ = 0;  ///< windows until then
};

}  // namespace harpe::training
