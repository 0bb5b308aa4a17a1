#pragma once
/// \file
/// Pictures and pages that show a planned pipeline to people. Nothing here plans or decides: all
/// figures come from the given plans. Every document is self-contained: no picture or page links
/// to another resource. The same input gives the same bytes. All text of the input is escaped. A
/// page of a synthetic profile shows `kSyntheticRemark` in a banner that stays visible.
///
///   const harpe::ReportInput input{.title = "gpt3", .all_max = frontier.all_max(),
///                                  .points = {{time, energy, bound, plan}}};
///   save("report.html", harpe::report_html(input));
///
/// Thread safety: pure functions of their arguments.

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
  /// A higher bound at the same time, see `Frontier::tight_lower_bound`; at most `lower_bound` if
  /// there is none or it was not computed.
  Joules tight_bound = Joules{0};
};

/// Another way to run the same pipeline, shown for comparison.
struct ReportComparison {
  std::string name;
  Seconds time;
  Joules energy;
};

/// A step from the page to a training run: text, and a command if there is one.
struct ReportStep {
  std::string words;
  std::string command = {};
};

/// Program, command and inputs that made a page, printed in its footer so that a reader can make it
/// again. Has no time of day, because the same input must give the same bytes.
struct PageSource {
  std::string program = "harpe";  ///< name and version: "harpe 0.9.0"
  std::string command = {};       ///< command line without the options that only set output paths
  /// Inputs: name and digest ("fnv1a64:..."; empty if there is none).
  std::vector<std::pair<std::string, std::string>> inputs = {};
  std::string documentation = {};  ///< further reading: a manual page, a file of docs/
};

/// The contents of a report.
struct ReportInput {
  std::string title = {};     ///< the job
  std::string subtitle = {};  ///< inputs: profile, schedule, GPUs
  Plan all_max = {};          ///< every instruction at its highest clock
  /// If `all_max` waits for a straggler: all-max without that wait. Points with a shorter iteration
  /// than `all_max` do not wait either and are compared with this plan.
  std::optional<Plan> all_max_alone = {};
  std::vector<ReportPoint> points = {};  ///< fastest first; at least one
  std::size_t chosen = 0;                ///< index of the plan the user asked for
  /// The exact frontier of the relaxation: (time, energy) of the lower bound, fastest first.
  std::vector<std::pair<Seconds, Joules>> bound = {};
  /// If the plans shown have late settings: the lower bound for such plans, nowhere below `bound`,
  /// which assumes that changes of settings cost nothing (`Frontier::tight_bounds_along`).
  std::vector<std::pair<Seconds, Joules>> late_bound = {};
  std::vector<std::pair<std::string, std::string>> facts =
      {};  ///< additional rows of the table of figures
  /// Savings and cost of the chosen plan over a longer time: names and values.
  std::vector<std::pair<std::string, std::string>> worth = {};
  std::vector<ReportStep> next = {};  ///< how to run the chosen plan
  std::vector<std::string> premises =
      {};  ///< sentences that the reader must not miss, shown above all figures
  std::vector<ReportComparison> comparisons = {};
  PageSource source = {};  ///< origin of the page, for its footer
};

/// Draws the frontier with its lower bound, all-max and the chosen point as one SVG document, on a
/// light background.
std::string frontier_svg(const ReportInput& input);

/// Draws the pipeline of one plan to scale as one SVG document: one row per stage, blocks coloured
/// by power. Draws columns of average power instead if blocks would be narrower than a pixel.
std::string timeline_svg(const Plan& plan);

/// Returns one HTML page that works offline, in the reader's light or dark theme: frontier,
/// pipeline, a slider that moves the pipeline along the frontier, savings against all-max, a table
/// to paste. The page links to no external resource.
///
/// The page has the plan of every point if the plans have at most 500,000 instructions together.
/// Above that limit it has fewer plans, always including the first, the last and the chosen one,
/// while chart and table still show all points. Size: about 2.5 bytes per instruction and point.
std::string report_html(const ReportInput& input);

/// Returns a Chrome/Perfetto trace (JSON) of one iteration: one thread per stage, a counter track
/// of its power (watts per GPU), transfers as asynchronous slices. For a plan with more than `most`
/// instructions the trace is an excerpt: the first, middle and last instructions, a third of `most`
/// each, and one slice per stage for each gap between them, with the energy of the gap. About 300
/// bytes per instruction.
std::string perfetto_trace(const Plan& plan,
                           std::size_t most = std::numeric_limits<std::size_t>::max());

}  // namespace harpe
