#pragma once
/// \file
/// Slowdown and heat of each pipeline of an emulated cluster over time: permanent stragglers,
/// recurring ones, and those of a trace.
///
///   Stragglers stragglers(16, {.recurring = {{.slowdown = 1.2, .between = day, .lasts = day}}});
///   stragglers.advance(iteration, now);
///   use(stragglers.slowdowns()[pipeline], stragglers.held_to()[pipeline]);
///
/// Deterministic: the same seed and the same times give the same stragglers. Not thread-safe.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe::lab {

/// The slow pipelines of a file, over iterations or over time.
struct StragglerTrace {
  /// One state of one pipeline, from `begin` up to but not including `end`.
  struct State {
    int pipeline = 0;
    double begin = 0, end = 0;  ///< iterations from 0, or seconds from the start
    double slowdown = 1;        ///< at least 1; 1: healthy
    int line = 0;               ///< of the file
    friend bool operator==(const State&, const State&) = default;
  };
  bool in_seconds = false;
  std::vector<State> states = {};  ///< by pipeline, then time
};

/// Reads CSV with the columns `pipeline,begin_iteration,end_iteration,slowdown`, or
/// `pipeline,begin_s,end_s,slowdown`, rows in any order, pipelines from 0. A pipeline is healthy
/// before its first row and after its last one. In between, its rows must follow each other without
/// gaps or overlaps, so that no state is ambiguous: a healthy time between two slow ones is a row
/// with slowdown 1. Reports all diagnostics at once, each with its line.
Result<StragglerTrace> parse_straggler_trace(std::string_view text, const std::string& file);

/// A permanent or recurring straggler, or one whose GPUs are throttled by heat.
struct RecurringStraggler {
  double slowdown = 1.2;  ///< factor of time and energy of its computations, at least 1
  /// The slow pipeline; nullopt: a random one for each slow period.
  std::optional<int> pipeline = {};
  /// Time from the end of a slow period to the start of the next one; 0: the straggler is
  /// permanent.
  Seconds between{0};
  Seconds lasts{0};        ///< length of a slow period
  bool is_random = false;  ///< `between` is the mean of an exponential distribution
  Megahertz held_to{0};    ///< highest clock of its GPUs while it is slow; 0: not throttled
  friend bool operator==(const RecurringStraggler&, const RecurringStraggler&) = default;
};

struct StragglerTerms {
  std::vector<RecurringStraggler> recurring = {};
  StragglerTrace trace = {};
};

/// Fails if a term names a pipeline that the cluster lacks, or is out of its range. Errors of the
/// trace carry their line.
/// \param trace_file  named in diagnostics
Status check_stragglers(const StragglerTerms& terms, int pipelines, const std::string& trace_file);

/// Returns the slowdowns above 1 that can occur, each once, rising.
std::vector<double> possible_slowdowns(const StragglerTerms& terms);
/// Returns the clocks to which GPUs can be throttled, each once, rising.
std::vector<Megahertz> possible_throttles(const StragglerTerms& terms);

class Stragglers {
 public:
  /// \pre `check_stragglers` passes
  Stragglers(int pipelines, StragglerTerms terms, std::uint64_t seed);

  /// Advances to the iteration that begins at `now`. Neither argument may decrease. Returns true if
  /// a slowdown or a clock has changed.
  bool advance(std::int64_t iteration, Seconds now);

  /// Returns the slowdown of each pipeline, at least 1: the largest of all terms.
  std::span<const double> slowdowns() const { return slowdowns_; }
  /// Returns the highest clock of each pipeline: the lowest of all terms; 0: not throttled.
  std::span<const Megahertz> held_to() const { return held_to_; }

 private:
  /// The current or next slow period of a recurring straggler.
  struct Course {
    Seconds begin{0}, end{0};
    int pipeline = 0;
    std::uint64_t number = 0;
  };
  void begin_next(std::size_t which);

  StragglerTerms terms_;
  std::uint64_t seed_;
  std::vector<Course> courses_;
  std::vector<StragglerTrace::State> by_begin_;
  std::size_t next_state_ = 0;                  ///< in `by_begin_`
  std::vector<StragglerTrace::State> current_;  ///< states of the trace that have begun
  std::vector<double> slowdowns_, previous_;
  std::vector<Megahertz> held_to_, previously_held_to_;
};

}  // namespace harpe::lab
