#pragma once
/// \file
/// The screen of `harpe job watch` on a terminal. Pure functions of the server's responses.

#include <deque>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/clock.h"
#include "harpe/base/units.h"

namespace harpe::command {

/// The recent history of a job. Not thread-safe.
class JobTrend {
 public:
  /// \param status  in the form of `job_status_json`
  void add(std::string_view status, Instant now);

  /// Returns the mean power over the last half minute or some iterations, whichever is longer, that
  /// ranks have reported since their last assignment of clocks; nullopt if there were too few
  /// reports, or none recently.
  std::optional<Watts> power() const;
  /// Returns one iteration time for each reading with a new iteration, oldest first.
  const std::deque<double>& iteration_times() const { return times_; }

 private:
  struct Look {
    Instant at;
    double iteration = 0, joules = 0;
  };
  std::deque<Look> looks_;  ///< readings with new values
  std::deque<double> times_;
  std::optional<double> version_;  ///< of the assignment
  double settled_from_ = 0;        ///< first iteration that follows it on all ranks
  double iteration_ = -1;          ///< last reported
  Instant newest_{};
};

struct DashboardLook {
  std::string status, log;  ///< from the server; empty: none received yet
  std::string trouble;      ///< why there is no newer response; empty: none
  std::string time_of_day;
};

/// Returns the screen, with at most `columns` columns and `lines` lines (0: any). If there is no
/// room, old events are left out first.
std::string job_dashboard(const DashboardLook& look, const JobTrend& trend, int columns, int lines,
                          bool coloured);

/// Returns a line such as "▁▃█": the newest values that fit, scaled between their minimum and
/// maximum; all low if they differ by at most 1 %.
std::string sparkline(const std::deque<double>& values, std::size_t columns);

}  // namespace harpe::command
