#include "harpe/lab/emulation/straggler_trace.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <tuple>
#include <utility>

#include "harpe/base/csv_table.h"
#include "harpe/base/text.h"
#include "harpe/plan/policy/plan_choice.h"

namespace harpe {
namespace {

constexpr int kMostPipelines = 1'000'000;

enum Column : std::size_t { kPipeline, kBegin, kEnd, kSlowdown };

StragglerTrace::State read_state(CsvTable& table, bool in_seconds) {
  StragglerTrace::State state{.line = table.line()};
  const double pipeline = table.number(kPipeline, 0);
  if (pipeline > kMostPipelines || pipeline != std::floor(pipeline)) {
    table.refuse(kPipeline, "expected a whole number from 0 to " + std::to_string(kMostPipelines));
  } else {
    state.pipeline = static_cast<int>(pipeline);
  }
  state.begin = table.number(kBegin, 0);
  state.end = table.number(kEnd, 0);
  for (const auto& [column, value] : {std::pair(kBegin, state.begin), std::pair(kEnd, state.end)})
    if (!in_seconds && value != std::floor(value)) table.refuse(column, "expected a whole number");
  if (!(state.end > state.begin)) table.refuse(kEnd, "expected more than the begin of the row");
  state.slowdown = table.number(kSlowdown, 1);
  if (state.slowdown > kMostStragglerFactor)
    table.refuse(kSlowdown, "expected at most " + shortest(kMostStragglerFactor));
  return state;
}

/// Reports two rows of one pipeline that overlap, or leave a gap.
void check_order(const StragglerTrace& trace, Diagnostics& diagnostics) {
  for (std::size_t i = 1; i < trace.states.size(); ++i) {
    const StragglerTrace::State &before = trace.states[i - 1], &state = trace.states[i];
    if (state.pipeline != before.pipeline || state.begin == before.end) continue;
    const std::string unit = trace.in_seconds ? " s" : "";
    const std::string pipeline = "pipeline " + std::to_string(state.pipeline);
    if (state.begin < before.end) {
      diagnostics.add(state.line, 0,
                      "begins at " + shortest(state.begin) + unit + ", before line " +
                          std::to_string(before.line) + " of " + pipeline + " ends, at " +
                          shortest(before.end) + unit);
    } else {
      diagnostics.add(state.line, 0,
                      "a gap: nothing says how slow " + pipeline + " is from " +
                          shortest(before.end) + unit + " (line " + std::to_string(before.line) +
                          ") to " + shortest(state.begin) + unit +
                          "; a row with slowdown 1 says that it is healthy");
    }
  }
}

}  // namespace

Result<StragglerTrace> parse_straggler_trace(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  StragglerTrace trace;
  const std::string_view heading = text.substr(0, text.find('\n', text.find("pipeline")));
  trace.in_seconds = heading.find("begin_s") != std::string_view::npos;
  if (trace.in_seconds && heading.find("begin_iteration") != std::string_view::npos)
    diagnostics.add("it has begin_s and begin_iteration: expected one of them");
  const std::array<const char*, 4> columns =
      trace.in_seconds ? std::array{"pipeline", "begin_s", "end_s", "slowdown"}
                       : std::array{"pipeline", "begin_iteration", "end_iteration", "slowdown"};
  CsvTable table(text, columns, diagnostics);
  table.each([&] { trace.states.push_back(read_state(table, trace.in_seconds)); });
  if (diagnostics.empty() && trace.states.empty())
    diagnostics.add("it has no row with a straggler");
  if (diagnostics.empty()) {
    std::ranges::sort(trace.states, {}, [](const StragglerTrace::State& state) {
      return std::tuple(state.pipeline, state.begin, state.end, state.line);
    });
    check_order(trace, diagnostics);
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return trace;
}

}  // namespace harpe
