#include "harpe/lab/emulation/stragglers.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "harpe/base/csv_table.h"
#include "harpe/base/hashed_random.h"
#include "harpe/base/text.h"
#include "harpe/plan/policy/plan_choice.h"

namespace harpe::lab {
namespace {

constexpr std::uint64_t kGapDraws = 0x676170, kPipelineDraws = 0x706970;
constexpr Seconds kForGood{std::numeric_limits<double>::infinity()};

std::string pipelines_words(int pipelines) {
  return "the cluster has pipelines 0 to " + std::to_string(pipelines - 1);
}

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
  if (state.slowdown > plan::kMostStragglerFactor)
    table.refuse(kSlowdown, "expected at most " + shortest(plan::kMostStragglerFactor));
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
                      "a gap: the slowdown of " + pipeline + " is unknown from " +
                          shortest(before.end) + unit + " (line " + std::to_string(before.line) +
                          ") to " + shortest(state.begin) + unit +
                          "; a row with slowdown 1 states that it is healthy");
    }
  }
}

}  // namespace

Status check_stragglers(const StragglerTerms& terms, int pipelines, const std::string& trace_file) {
  Diagnostics diagnostics(trace_file);
  for (const StragglerTrace::State& state : terms.trace.states) {
    if (state.pipeline < pipelines) continue;
    diagnostics.add(state.line, 0,
                    "pipeline " + std::to_string(state.pipeline) +
                        " does not exist: " + pipelines_words(pipelines));
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  for (const RecurringStraggler& one : terms.recurring) {
    if (!(one.slowdown >= 1 && one.slowdown <= plan::kMostStragglerFactor)) {
      return Error::invalid("a straggler's slowdown must be from 1 to " +
                            shortest(plan::kMostStragglerFactor) + ", found " +
                            shortest(one.slowdown));
    }
    if (one.held_to < Megahertz{0}) {
      return Error::invalid("a throttled GPU needs a clock above 0 MHz, found " +
                            std::to_string(one.held_to.value) + " MHz");
    }
    if (one.pipeline && (*one.pipeline < 0 || *one.pipeline >= pipelines)) {
      return Error::invalid("pipeline " + std::to_string(*one.pipeline) +
                            " does not exist: " + pipelines_words(pipelines));
    }
    const bool is_time = one.between >= Seconds{0} && one.lasts >= Seconds{0};
    if (!is_time || (one.between > Seconds{0}) != (one.lasts > Seconds{0})) {
      return Error::invalid(
          "a recurring straggler needs the time between slow periods and their length, both "
          "above 0");
    }
  }
  return ok_status();
}

std::vector<double> possible_slowdowns(const StragglerTerms& terms) {
  std::vector<double> all;
  for (const RecurringStraggler& one : terms.recurring) all.push_back(one.slowdown);
  for (const StragglerTrace::State& state : terms.trace.states) all.push_back(state.slowdown);
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  std::erase(all, 1.0);
  return all;
}

std::vector<Megahertz> possible_throttles(const StragglerTerms& terms) {
  std::vector<Megahertz> all;
  for (const RecurringStraggler& one : terms.recurring)
    if (one.held_to > Megahertz{0}) all.push_back(one.held_to);
  std::ranges::sort(all);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  return all;
}

Stragglers::Stragglers(int pipelines, StragglerTerms terms, std::uint64_t seed)
    : terms_(std::move(terms)),
      seed_(seed),
      slowdowns_(static_cast<std::size_t>(pipelines), 1.0),
      held_to_(slowdowns_.size()) {
  courses_.resize(terms_.recurring.size());
  for (std::size_t i = 0; i < courses_.size(); ++i) begin_next(i);
  by_begin_ = terms_.trace.states;
  std::ranges::sort(by_begin_, {}, [](const StragglerTrace::State& state) {
    return std::pair(state.begin, state.pipeline);
  });
}

void Stragglers::begin_next(std::size_t which) {
  const RecurringStraggler& term = terms_.recurring[which];
  Course& course = courses_[which];
  const std::uint64_t number = course.number++;
  course.pipeline = term.pipeline.value_or(
      static_cast<int>(mixed(seed_, kPipelineDraws + (which << 32), number) % slowdowns_.size()));
  if (term.between == Seconds{0}) {
    course.end = kForGood;
    return;
  }
  double gaps = 1;
  if (term.is_random) gaps = -std::log1p(-uniform(mixed(seed_, kGapDraws + (which << 32), number)));
  course.begin = course.end + gaps * term.between;
  course.end = course.begin + term.lasts;
}

bool Stragglers::advance(std::int64_t iteration, Seconds now) {
  const double at = terms_.trace.in_seconds ? now.value : static_cast<double>(iteration);
  previous_ = slowdowns_;
  previously_held_to_ = held_to_;
  std::ranges::fill(slowdowns_, 1.0);
  std::ranges::fill(held_to_, Megahertz{0});
  for (std::size_t i = 0; i < courses_.size(); ++i) {
    while (courses_[i].end <= now) begin_next(i);
    if (courses_[i].begin > now) continue;
    const auto pipeline = static_cast<std::size_t>(courses_[i].pipeline);
    const RecurringStraggler& term = terms_.recurring[i];
    slowdowns_[pipeline] = std::max(slowdowns_[pipeline], term.slowdown);
    if (term.held_to == Megahertz{0}) continue;
    Megahertz& clock = held_to_[pipeline];
    clock = clock == Megahertz{0} ? term.held_to : std::min(clock, term.held_to);
  }
  std::erase_if(current_, [&](const StragglerTrace::State& state) { return state.end <= at; });
  for (; next_state_ < by_begin_.size() && by_begin_[next_state_].begin <= at; ++next_state_)
    if (by_begin_[next_state_].end > at) current_.push_back(by_begin_[next_state_]);
  for (const StragglerTrace::State& state : current_) {
    double& slowdown = slowdowns_[static_cast<std::size_t>(state.pipeline)];
    slowdown = std::max(slowdown, state.slowdown);
  }
  return slowdowns_ != previous_ || held_to_ != previously_held_to_;
}

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

}  // namespace harpe::lab
