#include "harpe/lab/replay/limit_replay.h"

#include <utility>

#include "harpe/base/csv.h"
#include "harpe/base/possible_energy.h"
#include "harpe/base/text.h"

namespace harpe::lab {
namespace {

/// Returns the time and energy of a number of steps under a setting.
zeus::Measurement recorded(const RecordedRun& run, std::size_t setting, std::int64_t steps) {
  zeus::Measurement one = run.measurements[setting];
  const double share = static_cast<double>(steps) / kRecordedSteps;
  one.time = one.time * share;
  one.energy = one.energy * share;
  return one;
}

/// A loop of simulated steps that carries out the actions of an optimizer.
template <class Optimizer>
class ReplayLoop {
 public:
  ReplayLoop(const RecordedRun& run, Optimizer& optimizer) : run_(run), optimizer_(optimizer) {}

  /// Carries out actions at the beginning or end of `step`; `begun` is the first step after them.
  void carry_out(const zeus::KnobActions& actions, std::int64_t step, std::int64_t begun) {
    for (const zeus::KnobAction& action : actions) {
      switch (action.kind) {
        case zeus::KnobAction::Kind::kSet:
          setting_ = action.setting;
          replay_.set_calls.push_back({step, action.setting});
          break;
        case zeus::KnobAction::Kind::kOpenWindow:
          opened_ = begun;
          break;
        case zeus::KnobAction::Kind::kCloseWindow: {
          const zeus::Measurement took = recorded(run_, setting_, begun - opened_);
          carry_out(optimizer_.on_window(took.time, took.energy), step, begun);
          break;
        }
        case zeus::KnobAction::Kind::kCancelWindow:
          break;
      }
    }
  }

  /// Runs up to `most` steps until the optimizer is done. `begin` notifies it of the beginning of a
  /// step, `end` of the end of an epoch.
  template <class Begin, class End>
  ProfilingReplay run(int steps_per_epoch, std::int64_t most, Begin begin, End end) {
    carry_out(optimizer_.start(), 0, 0);
    std::int64_t step = 0;
    while (!optimizer_.done() && step < most) {
      ++step;
      carry_out(begin(now_), step, step);
      now_ += recorded(run_, setting_, 1).time;
      if (optimizer_.done()) break;
      if (steps_per_epoch > 0 && step % steps_per_epoch == 0) {
        carry_out(end(now_), step, step + 1);
      }
    }
    replay_.choice = optimizer_.choice();
    replay_.done_step = step;
    return std::move(replay_);
  }

 private:
  const RecordedRun& run_;
  Optimizer& optimizer_;
  ProfilingReplay replay_;
  std::size_t setting_ = 0;
  std::int64_t opened_ = 0;  ///< first step of the window
  Seconds now_{};
};

/// Returns more steps than any optimizer needs: each epoch finishes a setting, or
/// windows outlast epochs.
std::int64_t most_steps(const RecordedRun& run, std::int64_t a_setting, int steps_per_epoch) {
  return (static_cast<std::int64_t>(run.knob.size()) + 3) * (a_setting + steps_per_epoch + 2);
}

/// Positions of the columns.
struct RunColumns {
  std::size_t window = 0, time = 0;
  std::vector<std::size_t> energy;
};

std::optional<RunColumns> find_columns(const CsvRow& heading, Diagnostics& diagnostics) {
  std::optional<std::size_t> window, time;
  RunColumns columns;
  for (std::size_t i = 0; i < heading.cells.size(); ++i) {
    const std::string& name = heading.cells[i].text;
    if (name == "window_name") window = i;
    if (name == "elapsed_time") time = i;
    if (name.starts_with("gpu") && name.ends_with("_energy")) columns.energy.push_back(i);
  }
  if (!window || !time || columns.energy.empty()) {
    diagnostics.add(heading.line, 1,
                    "expected the columns window_name, elapsed_time and gpu0_energy");
    return std::nullopt;
  }
  columns.window = *window;
  columns.time = *time;
  return columns;
}

/// Returns the watts at the end of a window's name ("..._250", also "..._250W").
std::optional<double> limit_of(std::string_view name) {
  const std::size_t underscore = name.rfind('_');
  if (underscore == std::string_view::npos) return std::nullopt;
  std::string_view digits = name.substr(underscore + 1);
  if (digits.ends_with('W')) digits.remove_suffix(1);
  return parse_number(digits);
}

double positive(const CsvRow& row, std::size_t column, Diagnostics& diagnostics) {
  const CsvCell& cell = row.cells[column];
  const auto value = parse_number(cell.text);
  if (value && *value > 0) return *value;
  diagnostics.add(row.line, cell.column,
                  "expected a number above 0, found " + in_quotes(cell.text));
  return 1;
}

}  // namespace

Result<ProfilingReplay> replay_zeus(const RecordedRun& run, const ZeusOptions& options,
                                    int steps_per_epoch) {
  ZeusOptimizer optimizer = HARPE_TRY(ZeusOptimizer::make(run.knob, options));
  const std::int64_t a_setting =
      std::int64_t{options.wait_steps} + options.warmup_steps + options.profile_steps;
  ReplayLoop loop(run, optimizer);
  ProfilingReplay replay = loop.run(
      steps_per_epoch, most_steps(run, a_setting, steps_per_epoch),
      [&](Seconds) { return optimizer.on_step_begin(); },
      [&](Seconds) { return optimizer.on_epoch_end(); });
  for (std::size_t i = 0; i < optimizer.measurements().size(); ++i) replay.order.push_back(i);
  return replay;
}

Result<ProfilingReplay> replay_profiler(const RecordedRun& run, zeus::ProfilerOptions options,
                                        int window_steps, int steps_per_epoch) {
  options.min_steps = options.max_steps = window_steps;
  zeus::SettingProfiler optimizer = HARPE_TRY(zeus::SettingProfiler::make(run.knob, options));
  ReplayLoop loop(run, optimizer);
  ProfilingReplay replay = loop.run(
      steps_per_epoch,
      most_steps(run, std::int64_t{options.warmup_steps} + window_steps, steps_per_epoch),
      [&](Seconds now) { return optimizer.on_step_begin(now); },
      [&](Seconds now) { return optimizer.on_epoch_end(now); });
  replay.order = optimizer.order();
  return replay;
}

Result<RecordedRun> parse_recorded_run(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  const std::vector<CsvRow> rows = split_csv(text, diagnostics);
  if (rows.empty()) diagnostics.add("the run is empty");
  const std::optional<RunColumns> columns =
      rows.empty() ? std::nullopt : find_columns(rows.front(), diagnostics);
  if (!columns) return Error::invalid(std::move(diagnostics));
  RecordedRun run{.knob = {}, .measurements = {}, .gpus = static_cast<int>(columns->energy.size())};
  std::vector<double> limits;
  for (std::size_t i = 1; i < rows.size(); ++i) {
    const CsvRow& row = rows[i];
    if (!has_cells_of(rows.front(), row, diagnostics)) continue;
    const std::optional<double> limit = limit_of(row.cells[columns->window].text);
    if (!limit) continue;
    if (*limit <= 0 || (!limits.empty() && *limit >= limits.back())) {
      diagnostics.add(row.line, row.cells[columns->window].column,
                      "power limits must descend and be above 0, found " + shortest(*limit) +
                          (limits.empty() ? "" : " after " + shortest(limits.back())));
      continue;
    }
    zeus::Measurement one{
        .setting = *limit, .time = {positive(row, columns->time, diagnostics)}, .energy = {}};
    for (const std::size_t column : columns->energy) {
      const Joules energy{positive(row, column, diagnostics)};
      const std::string impossible =
          why_impossible(energy, Joules{0}, one.time, Watts{*limit * kMostOverLimit});
      if (!impossible.empty()) diagnostics.add(row.line, row.cells[column].column, impossible);
      one.energy += energy;
    }
    limits.push_back(*limit);
    run.measurements.push_back(one);
  }
  if (limits.empty() && diagnostics.empty()) {
    diagnostics.add("the run has no window whose name ends in _ and a power limit in W");
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  run.knob = HARPE_TRY(zeus::Knob::make(zeus::KnobKind::kPowerLimit, std::move(limits)));
  return run;
}

}  // namespace harpe::lab
