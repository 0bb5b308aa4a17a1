#pragma once
/// \file
/// Stragglers of a cluster from a file: which pipeline is slow when.

#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"

namespace harpe {

/// Slow pipelines over iterations, or over time.
struct StragglerTrace {
  /// One state of one pipeline, from `begin` to `end`, without it.
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
/// `pipeline,begin_s,end_s,slowdown`, rows in any order, pipelines from 0. Before the first and
/// after the last row of a pipeline it is healthy; in between its rows must follow each other
/// without a gap or an overlap, so that nothing is left to guess: a healthy time between two slow
/// ones is a row with slowdown 1. All diagnostics at once, each with its line.
Result<StragglerTrace> parse_straggler_trace(std::string_view text, const std::string& file);

}  // namespace harpe
