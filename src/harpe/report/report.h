#pragma once
/// \file
/// Pictures and pages of a planned pipeline, for people. Nothing here plans or decides: what is
/// shown is what the plans say. Every text is complete in itself: no picture or page names another
/// resource. Same input, same bytes. All text of the input is escaped. A page of a synthetic
/// profile says so (`kSyntheticRemark`) in a banner that stays in sight.
///
///   const harpe::ReportInput input{.title = "gpt3", .all_max = frontier.all_max(),
///                                  .points = {{time, energy, bound, plan}}};
///   save("report.html", harpe::report_html(input));
///
/// Thread safety: plain functions of their arguments.

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/units.h"
#include "harpe/plan/frontier/plan.h"

namespace harpe {

/// A point of the frontier that a report shows, with its plan.
struct ReportPoint {
  Seconds time;
  Joules energy;
  Joules lower_bound;
  Plan plan;
  /// A higher bound at that time, see `Frontier::tight_lower_bound`; not above `lower_bound` where
  /// there is none or it was not looked for.
  Joules tight_bound = Joules{0};
};

/// Another way to run the same pipeline, shown for comparison.
struct ReportComparison {
  std::string name;
  Seconds time;
  Joules energy;
};

/// A step that leads from the page to a training: words, and a command if there is one.
struct ReportStep {
  std::string words;
  std::string command = {};
};

/// What made a page, for its footer: one that was handed on can be made again. No time of day, for
/// the same input gives the same bytes.
struct PageSource {
  std::string program = "harpe";  ///< with its version: "harpe 0.9.0"
  std::string command = {};       ///< the command line, without what only says where to write
  /// What was read: a name and its digest ("fnv1a64:..."; empty where there is none).
  std::vector<std::pair<std::string, std::string>> inputs = {};
  std::string documentation = {};  ///< where to read on: a manual page, a file of docs/
};

/// Everything a report shows.
struct ReportInput {
  std::string title = {};     ///< the job
  std::string subtitle = {};  ///< what was read: profile, schedule, GPUs
  Plan all_max = {};          ///< every instruction at its highest clock
  /// If `all_max` waits for a straggler: all-max without that wait. Points that end before
  /// `all_max` do not wait either, and are compared with this one.
  std::optional<Plan> all_max_alone = {};
  std::vector<ReportPoint> points = {};  ///< fastest first; at least one
  std::size_t chosen = 0;                ///< index of the plan the user asked for
  /// The exact frontier of the relaxation: (time, energy) of the lower bound, fastest first.
  std::vector<std::pair<Seconds, Joules>> bound = {};
  /// If the plans shown have late settings: their own lower bound, nowhere below `bound`, which
  /// takes changes as free (`Frontier::tight_bounds_along`).
  std::vector<std::pair<Seconds, Joules>> late_bound = {};
  std::vector<std::pair<std::string, std::string>> facts =
      {};  ///< further rows for the table of figures
  /// Savings and bill of the chosen plan over a longer time: names and values.
  std::vector<std::pair<std::string, std::string>> worth = {};
  std::vector<ReportStep> next = {};  ///< how to run the chosen plan
  std::vector<std::string> premises =
      {};  ///< sentences that must not be overlooked, above all figures
  std::vector<ReportComparison> comparisons = {};
  PageSource source = {};  ///< what the page says of its making
};

/// The frontier with its lower bound, all-max and the chosen point, as one SVG document (light
/// background).
std::string frontier_svg(const ReportInput& input);

/// The pipeline of one plan drawn to scale, one row a stage, blocks coloured by power, as one SVG
/// document. Where blocks would be narrower than a pixel, columns of average power stand for them.
std::string timeline_svg(const Plan& plan);

/// One page that opens offline, light or dark as its reader's other pages: frontier, pipeline, a
/// slider along the frontier that moves the pipeline, savings against all-max, a table to paste. No
/// external resource is named.
///
/// The plan of every point can be drawn as long as they have no more than 500,000 instructions
/// together; beyond, fewer plans are kept (always the first, the last and the chosen one) while
/// chart and table show all points. About 2.5 bytes an instruction and point.
std::string report_html(const ReportInput& input);

/// Chrome/Perfetto trace (JSON) of one iteration: a thread a stage, a counter track for its power
/// (watts per GPU), transfers as asynchronous slices. Of a plan with more than `most` instructions
/// an excerpt: the first, middle and last of them, a third of `most` each, and one slice a stage
/// for what lies between, with its energy. About 300 bytes an instruction.
std::string perfetto_trace(const Plan& plan,
                           std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace harpe
