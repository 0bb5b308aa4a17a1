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

/// A job as it was seen so far. Not thread-safe.
class JobTrend {
 public:
  /// \param status  as `job_status_json` gives it
  void add(std::string_view status, Instant now);

  /// Mean over the last half minute or some iterations, whatever is longer, of what ranks reported
  /// since they were assigned other clocks; none: too little was seen, or nothing was lately.
  std::optional<Watts> power() const;
  /// One of each look at which another iteration had been reported, oldest first.
  const std::deque<double>& iteration_times() const { return times_; }

 private:
  struct Look {
    Instant at;
    double iteration = 0, joules = 0;
  };
  std::deque<Look> looks_;  ///< those that brought something new
  std::deque<double> times_;
  std::optional<double> version_;  ///< of what ranks are assigned
  double settled_from_ = 0;        ///< the iteration from which all follow it
  double iteration_ = -1;          ///< that was reported last
  Instant newest_{};
};

struct DashboardLook {
  std::string status, log;  ///< of the server; empty: not heard of yet
  std::string trouble;      ///< why there is nothing newer; empty: none
  std::string time_of_day;
};

/// In at most so many columns, and so many lines (0: any): what does not fit are old events first.
std::string job_dashboard(const DashboardLook& look, const JobTrend& trend, int columns, int lines,
                          bool coloured);

/// "▁▃█": the newest values that fit, between their least and their greatest; all low where they
/// are within 1 %.
std::string sparkline(const std::deque<double>& values, std::size_t columns);

}  // namespace harpe::command
