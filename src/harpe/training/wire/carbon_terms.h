#pragma once
/// \file
/// The terms by which a job can move along its frontier with the carbon intensity of its grid: its
/// length, its deadline and the cost of a pause.
///
///   const auto terms = harpe::training::parse_carbon_terms(
///       R"({"zone": "DE", "iterations": 50000, "deadline_factor": 1.25, "pause": true})");
///
/// A run of unknown length has `slack_s` in place of `iterations`: the time by which it may fall
/// behind (pacing/open_ended_job.h). It has no deadline, so neither a probability nor a guard.
///
/// The server chooses the sources of intensities. Terms name a zone or a source that the server
/// offers, never a file, an address or a token.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/fields.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::training {

/// The cost of a pause. A job pauses if its terms have this and training follows the request.
struct CarbonPause {
  Seconds stop{60};                      ///< to write a checkpoint and stop
  Seconds start{180};                    ///< until the first new iteration
  Seconds min_dwell{3600};               ///< least time of running or of a pause
  std::optional<Watts> idle_power = {};  ///< of a paused GPU; nullopt: a fifth of its usual power
  friend bool operator==(const CarbonPause&, const CarbonPause&) = default;
};

struct CarbonTerms {
  // Either can be empty if the other, or the offer of the server, leaves one source.
  std::string source = {};  ///< "electricity-maps:DE", as the server lists it
  std::string zone = {};    ///< "DE"
  // Exactly one of `iterations` and `slack` is set.
  /// Iterations of the whole run, as ranks count them.
  std::optional<std::int64_t> iterations = {};
  /// For a run of unknown length: the time by which it may be behind a run that is always slower
  /// than the fastest plan by the deadline factor.
  std::optional<Seconds> slack = {};
  /// Iterations done when these terms begin to hold. Nullopt: as counted by the ranks.
  std::optional<std::int64_t> iterations_done = {};
  // Exactly one is set; for a run of unknown length, the factor.
  std::optional<carbon::UtcTime> deadline = {};
  /// Allowed time for the rest of the run when control begins, over its time at the fastest plan.
  std::optional<double> deadline_factor = {};
  double probability = 0.95;  ///< with which the deadline must hold
  std::optional<CarbonPause> pause = {};
  /// Fraction by which the job may end above the best steady pace (pacing/paced_job.h).
  std::optional<double> guard = {};
  /// Share of the errors of earlier forecasts for which the guard must hold. 1: it must hold for
  /// all intensities within the range of the forecast.
  double guard_confidence = 0.99;
  std::string embodied = {};  ///< of a GPU, "150kg/5y" (carbon/intensity.h); empty if not counted
  Watts host_power{};         ///< of the host, per GPU
  /// Only for reports.
  std::optional<double> tokens_per_iteration = {};
  friend bool operator==(const CarbonTerms&, const CarbonTerms&) = default;

  bool is_open_ended() const { return slack.has_value(); }
  static constexpr Seconds kUsualSlack{12.0 * 3600};
  static constexpr Seconds kLongestSlack{7.0 * 86'400};  ///< no forecast of a grid is longer
};

/// Parses terms. Fails with a diagnostic, with line and column, for each error.
Result<CarbonTerms> parse_carbon_terms(std::string_view text);
/// Reads terms from an object of a larger document. Errors are added to those of `fields`.
CarbonTerms read_carbon_terms(Fields& fields, Diagnostics& diagnostics,
                              Unknown unknown = Unknown::kRefused);
/// Returns the terms on one line, which `parse_carbon_terms` reads back unchanged.
std::string carbon_terms_json(const CarbonTerms& terms);

/// Checks terms that were made in C++. Fails if `parse_carbon_terms` would reject them.
Status validate(const CarbonTerms& terms);

}  // namespace harpe::training
