#pragma once
/// \file
/// By what terms a job may move along its frontier with the carbon intensity of its grid: how much
/// it has to do, by when, and what a pause costs it.
///
///   const auto terms = harpe::training::parse_carbon_terms(
///       R"({"zone": "DE", "iterations": 50000, "deadline_factor": 1.25, "pause": true})");
///
/// A run whose length is not known has terms of its own: `slack_s` in place of `iterations`, which
/// says how far it may fall behind (pacing/open_ended_job.h). It has no deadline, and so neither a
/// probability nor a guard.
///
/// Where intensities come from is the server's business: terms name a zone or a source among those
/// that it offers, never a file, an address or a token.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/base/fields.h"
#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/carbon/carbon/utc_time.h"

namespace harpe::training {

/// What a pause costs. A job pauses where the terms have these, and training does what it is asked.
struct CarbonPause {
  Seconds stop{60};                      ///< to write a checkpoint and stop
  Seconds start{180};                    ///< until the first new iteration
  Seconds min_dwell{3600};               ///< running or paused, at least
  std::optional<Watts> idle_power = {};  ///< of a GPU meanwhile; none: a fifth of what it draws
  friend bool operator==(const CarbonPause&, const CarbonPause&) = default;
};

struct CarbonTerms {
  // Either may be empty where the other, or what the server offers, leaves one source.
  std::string source = {};  ///< "electricity-maps:DE", as the server lists it
  std::string zone = {};    ///< "DE"
  // One of them: how much is left decides how fast to go.
  /// Of the whole run, as ranks count them.
  std::optional<std::int64_t> iterations = {};
  /// Of a run of unknown length: how far it may be behind one that is slower than the fastest plan
  /// by the deadline factor all along.
  std::optional<Seconds> slack = {};
  /// That were done when these terms begin to hold; none: as many as ranks have counted.
  std::optional<std::int64_t> iterations_done = {};
  // One of them; of a run of unknown length the factor.
  std::optional<carbon::UtcTime> deadline = {};
  /// Of what the rest of the run takes at the fastest plan, from when control begins.
  std::optional<double> deadline_factor = {};
  double probability = 0.95;  ///< with which the deadline is to hold
  std::optional<CarbonPause> pause = {};
  /// How far above the best steady pace it may end, a fraction (pacing/paced_job.h).
  std::optional<double> guard = {};
  /// Of the errors that earlier forecasts made, with how many that is to hold. 1: whatever comes
  /// within the range of the forecast.
  double guard_confidence = 0.99;
  std::string embodied = {};  ///< of a GPU, "150kg/5y" (carbon/intensity.h); empty: left out
  Watts host_power{};         ///< drawn beside each GPU
  /// For reports alone.
  std::optional<double> tokens_per_iteration = {};
  friend bool operator==(const CarbonTerms&, const CarbonTerms&) = default;

  bool is_open_ended() const { return slack.has_value(); }
  static constexpr Seconds kUsualSlack{12.0 * 3600};
  static constexpr Seconds kLongestSlack{7.0 * 86'400};  ///< beyond that no grid is foreseen
};

/// Diagnostics with line and column for everything that is wrong.
Result<CarbonTerms> parse_carbon_terms(std::string_view text);
/// The same of an object in a larger document; the errors go to those of `fields`.
CarbonTerms read_carbon_terms(Fields& fields, Diagnostics& diagnostics,
                              Unknown unknown = Unknown::kRefused);
/// On one line; reads back the same.
std::string carbon_terms_json(const CarbonTerms& terms);

/// What no text could say: for terms that were made in C++.
Status validate(const CarbonTerms& terms);

}  // namespace harpe::training
