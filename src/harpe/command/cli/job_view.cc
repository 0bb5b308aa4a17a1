#include "harpe/command/cli/job_view.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <optional>
#include <vector>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/status_fields.h"
#include "harpe/command/command/console.h"
#include "harpe/command/command/json_output.h"
#include "harpe/command/command/text_layout.h"
#include "harpe/plan/objective/objective.h"

namespace harpe::command {

namespace {

/// Returns the phase of a job; the activity of a job that does not train.
std::string phase(const Json& status) {
  std::string activity = text_in(status, "activity");
  // A list has only the state of the pause, a job's status has more.
  const Json& pause = member(status, "pause");
  const std::string paused = pause.is_object() ? text_in(pause, "state") : text_in(status, "pause");
  if (activity == "ended") return paused == "paused" ? "ended for a pause" : activity;
  std::string name = text_in(status, "phase");
  auto fraction = number_in(member(status, "profiling"), "fraction");
  if (!fraction) fraction = number_in(status, "profiling_fraction");
  if (fraction) name += " " + fixed(100 * *fraction, 0) + " %";
  if (member(status, "rolled_back") == true) name += ", rolled back";
  // Absent in a list.
  if (number_in(status, "rolled_back_until"))
    name += " to all-max until iteration " + whole_in(status, "rolled_back_until");
  if (paused == "paused") name += ", paused";
  if (paused == "asked") name += ", pause requested";
  return activity == "idle" ? "idle (" + name + ")" : name;
}

std::string ranks(const Json& status) {
  return whole_in(status, "ranks_registered") + "/" + whole_in(status, "ranks");
}

void add_stragglers(const Json& status, std::string& view) {
  for (const Json& one : member(status, "stragglers")) {
    view += "  straggler   pipeline " + whole_in(one, "pipeline") + ", " +
            shortest(number_in(one, "factor").value_or(1), 3) + " times slower, " +
            (member(one, "detected") == true ? "detected" : "declared");
    if (const std::string until = time_text(one, "until"); !until.empty())
      view += " until " + until;
    if (const auto seen = number_in(one, "seen"))
      view +=
          "; at all-max it takes " + shortest(*seen, 2) + " times as long as a healthy pipeline";
    view += '\n';
  }
  for (const Json& one : member(status, "slow_stages")) {
    const double factor = number_in(one, "factor").value_or(1);
    view += std::string(factor < 1 ? "  fast stage  " : "  slow stage  ") + "stage " +
            whole_in(one, "stage") + " on all pipelines takes " + shortest(factor, 3) +
            " times as long as predicted\n";
  }
  for (const Json& one : member(status, "slow_workers")) {
    view += "  slow GPUs   stage " + whole_in(one, "stage") + " of pipeline " +
            whole_in(one, "pipeline") + ", " + shortest(number_in(one, "factor").value_or(1), 3) +
            " times slower than this stage on other pipelines\n";
  }
}

/// Returns the work and the waiting of a stage in an iteration:
/// "works 0.9 s (74 %) at 1410 MHz, waits 0.3 s (26 %)".
std::string work_and_waiting(const Json& stage) {
  const double work = number_in(stage, "work_s").value_or(0);
  const double waiting = number_in(stage, "waiting_s").value_or(0);
  const auto share = [&](double part) {
    return work + waiting > 0 ? " (" + fixed(100 * part / (work + waiting), 0) + " %)" : "";
  };
  std::string text = "works " + seconds_text(work) + share(work);
  if (number_in(stage, "clock_mhz")) text += " at " + whole_in(stage, "clock_mhz") + " MHz";
  text += ", waits " + seconds_text(waiting) + share(waiting);
  if (const auto power = number_in(stage, "waiting_power_w"))
    text += " at " + fixed(*power, 0) + " W a GPU";
  return text;
}

/// Returns the saving that plans would bring in training that is only observed.
std::string estimated_saving(const Json& observed) {
  const Json& range = member(observed, "estimated_saving_percent");
  const std::string by = text_in(observed, "estimated_by");
  if (range.is_array() && range.size() == 2 && range[0].is_number() && range[1].is_number()) {
    const double least = std::floor(range[0].get<double>());
    const double most = std::max(least + 1, std::ceil(range[1].get<double>()));
    return fixed(least, 0) + " to " + fixed(most, 0) +
           " % of the energy without slowdown: an estimate (" + by + "), not measured";
  }
  return by.empty() ? "not known yet" : "not known: " + by;
}

void add_observed(const Json& status, std::string& view) {
  const Json& observed = member(status, "observed");
  if (!observed.is_object()) return;
  view += "  observed    " + counted(count_of(observed, "iterations"), "iteration") + " of " +
          seconds_in(observed, "iteration_time_s") +
          " at the present clocks of the GPUs; no clock is set\n";
  const auto longest = number_in(observed, "longest_stage");
  for (const Json& stage : member(observed, "stages")) {
    std::string label = "stage " + whole_in(stage, "stage");
    label.resize(std::max<std::size_t>(label.size() + 1, 12), ' ');
    view += "  " + label + work_and_waiting(stage) +
            (longest && longest == number_in(stage, "stage") ? ": the longest\n" : "\n");
  }
  view += "  would save  " + estimated_saving(observed) + "\n";
}

std::string profiling_line(const Json& status) {
  const Json& profiling = member(status, "profiling");
  if (!profiling.is_object()) return {};
  // Without a time, the number of iterations at all-max between clocks is still unknown.
  const Seconds left{number_in(profiling, "time_left_s").value_or(0)};
  const bool is_known = left > Seconds{0};
  return std::string("  profiling   ") + (is_known ? "about " : "at least ") +
         whole_in(profiling, "iterations_left") + " iterations" +
         (is_known ? " (" + rough_time(left) + ")" : "") + " left; iterations took " +
         fixed(100 * number_in(profiling, "slowdown").value_or(0), 1) + " % longer so far\n";
}

/// Returns the plan's time and energy compared with other plans.
std::string comparison(const Json& plan) {
  const auto slowdown = number_in(plan, "slowdown");
  const auto to_all_max = number_in(plan, "slowdown_to_all_max");
  const auto gap = number_in(plan, "gap");
  if (!slowdown || !to_all_max) return {};
  std::string text = "; " + change_text(*slowdown) + " time against the fastest, " +
                     change_text(*to_all_max) + " against all-max";
  if (gap) text += "; at most " + fixed(100 * *gap, 3) + " % above the least energy for this time";
  return text;
}

/// Adds the plans of the job's frontier, and the own plans of stragglers.
void add_plans(const Json& status, std::string& view) {
  for (const Json& plan : member(status, "plans")) {
    const auto pipelines = static_cast<std::size_t>(number_in(plan, "pipelines").value_or(0));
    if (number_in(plan, "pipeline")) {
      view += std::string("  plan        ") +
              (member(plan, "all_max") == true ? "all-max" : "from own costs") + " on pipeline " +
              whole_in(plan, "pipeline");
    } else {
      view += "  plan        " + whole_in(plan, "plan") + " on " + counted(pipelines, "pipeline");
    }
    view += ": " + seconds_in(plan, "time_s") + ", " +
            short_energy(number_in(plan, "energy_j").value_or(0)) + " an iteration each" +
            comparison(plan) + "\n";
  }
}

/// Returns the predicted iteration time, and its measured part beyond the time of the slowest plan.
std::string predicted(const Json& status) {
  constexpr double kShown = 5e-4;  // of an iteration
  std::string text = seconds_in(status, "predicted_time_s") + " predicted";
  const auto time = number_in(status, "predicted_time_s");
  if (!number_in(status, "iteration_time_s")) return text;  // no iteration was measured
  double slowest = 0;
  for (const Json& plan : member(status, "plans"))
    slowest = std::max(slowest, number_in(plan, "time_s").value_or(0));
  if (!time || slowest <= 0 || *time - slowest < kShown * *time) return text;
  return text + " (" + seconds_text(*time - slowest) +
         " of it outside of the planned computations, as measured)";
}

/// Returns the iteration time at all-max. A declared straggler is assumed until it is observed.
std::string at_all_max(const Json& status) {
  const char* const time =
      number_in(status, "all_max_time_s") ? "all_max_time_s" : "measured_all_max_time_s";
  const Json& stragglers = member(status, "stragglers");
  const bool is_believed = std::ranges::any_of(stragglers, [](const Json& one) {
    return member(one, "detected") != true && !number_in(one, "seen");
  });
  return seconds_in(status, time) + " at all-max" +
         (is_believed ? ", if the straggler is as slow as declared" : "");
}

/// Returns the state of the background search for a better plan; empty if there is none.
std::string search_of(const Json& status) {
  const Json& search = member(status, "search");
  const std::string state = text_in(search, "state");
  if (state.empty()) return {};
  std::string text = state == "searching" ? "searching for a better plan"
                     : state == "ended"   ? "the search for a better plan has ended"
                                          : "will search for a better plan";
  if (state == "halted") text += " when this plan is in force again";
  const double gained = number_in(search, "gained").value_or(0);
  if (gained > 0) text += ": " + fixed(100 * gained, 3) + " % less energy";
  return text;
}

void add_missing(const Json& status, std::string& view) {
  const Json& missing = member(status, "ranks_missing");
  if (!missing.is_array() || missing.empty()) return;
  view += "  missing    ";
  for (const Json& place : missing)
    view += " (data " + whole_in(place, "data") + ", stage " + whole_in(place, "stage") +
            ", tensor " + whole_in(place, "tensor") + ")";
  const double all = number_in(status, "ranks").value_or(0) -
                     number_in(status, "ranks_registered").value_or(0) -
                     static_cast<double>(missing.size());
  view += all > 0 ? " and " + fixed(all, 0) + " more\n" : "\n";
}

/// Adds the refused clients and the reasons.
void add_refused(const Json& status, std::string& view, bool coloured) {
  for (const Json& one : member(status, "refused")) {
    const double count = number_in(one, "count").value_or(1);
    view += "  refused     " +
            painted(text_in(one, "who") + ": " + text_in(one, "why") +
                        (count > 1 ? " (" + fixed(count, 0) + " times)" : std::string()),
                    Paint::kRed, coloured) +
            "\n";
  }
}

std::string pause_of(const Json& status) {
  const Json& pause = member(status, "pause");
  if (!pause.is_object()) return {};
  std::string said = text_in(pause, "state");
  if (said == "not_followed") said = "requested, but training continues";
  if (member(pause, "ended") == true) {
    said = "all ranks have ended, to be restarted later";
  } else if (said == "paused") {
    said = whole_in(pause, "ranks_waiting") + " ranks wait";
  }
  said += ", since " + time_text(pause, "since");
  if (const std::string end = time_text(pause, "resumes"); !end.empty()) said += ", until " + end;
  if (const std::string why = text_in(pause, "why"); !why.empty()) said += " (" + why + ")";
  return said;
}

/// Returns the pace that was set from outside the job; empty if there is none.
std::string pace_of(const Json& status) {
  const Json& pace = member(status, "pace");
  if (!number_in(pace, "iteration_time_s")) return {};
  const std::string why = text_in(pace, "why");
  return seconds_in(pace, "iteration_time_s") + " an iteration" +
         (why.empty() ? why : " (" + why + ")");
}

std::string objective_text(const Json& objective) {
  const Result<Objective> known = parse_objective(objective.dump());
  return known.ok() ? text_of(*known) : std::string("-");
}

std::string synthetic_line(const Json& status, bool coloured) {
  if (member(status, "synthetic") != true) return {};
  return "  synthetic   " +
         painted("figures of a synthetic profile or simulated GPUs, not of real ones", Paint::kBold,
                 coloured) +
         "\n";
}

}  // namespace

std::string warning_text(std::string_view response) {
  const Json json = parsed(response);
  const std::string event = text_in(json, "warning");
  std::string lines = event.empty() ? event : "note: " + event + "\n";
  if (const double unheard = number_in(json, "ranks_unheard").value_or(0); unheard > 0) {
    lines += "note: " + counted(static_cast<std::size_t>(unheard), "rank") +
             " without a recent report may not know this yet\n";
  }
  return lines;
}

std::string plans_text(std::string_view response) {
  std::string view;
  add_plans(parsed(response), view);
  return view;
}

std::string jobs_table(std::string_view jobs, bool coloured, std::string_view none, int columns) {
  const Json response = parsed(jobs);
  const Json& list = member(response, "jobs");
  std::string missing;
  for (const Json& what : member(response, "unreachable")) {
    if (what.is_string()) missing += "did not respond: " + what.get<std::string>() + "\n";
  }
  if (!list.is_array() || list.empty()) {
    return missing + std::string(none) + "\n";
  }
  Table table{.columns = {{.heading = "JOB", .align = Align::kLeft, .narrowest = 12},
                          {.heading = "PHASE", .align = Align::kLeft},
                          {.heading = "REPORTED", .rank = 3},
                          {.heading = "RANKS", .rank = 4},
                          {.heading = "ITERATION", .rank = 1},
                          {.heading = "TIME"},
                          {.heading = "PREDICTED", .rank = 5},
                          {.heading = "STRAGGLERS", .rank = 2},
                          {.heading = "SAVED"}}};
  std::string remarks;
  for (const Json& job : list) {
    const std::string amount = saved_amount(job), all = saved_text(job);
    if (all != amount) remarks += wrapped_text("* " + text_in(job, "id") + ": " + all, columns);
    table.add({text_in(job, "id"), phase(job), time_text(job, "heard_at"), ranks(job),
               whole_in(job, "newest_iteration"), seconds_in(job, "iteration_time_s"),
               seconds_in(job, "predicted_time_s"), whole_in(job, "straggling"),
               amount + (all == amount ? "" : " *")});
  }
  return table.text(coloured, columns) + remarks + missing;
}

std::string job_view(std::string_view given, bool coloured) {
  const Json status = parsed(given);
  std::string view = painted(text_in(status, "id"), Paint::kBold, coloured);
  if (!text_in(status, "name").empty()) view += "  " + text_in(status, "name");
  view += '\n';
  view += synthetic_line(status, coloured);
  view += "  phase       " + phase(status) + "\n";
  if (const std::string ended = time_text(status, "ended_at"); !ended.empty()) {
    view += "  ended       " + ended + ", after it was " + text_in(status, "phase") + "\n";
  } else if (const std::string heard = time_text(status, "heard_at"); !heard.empty()) {
    view += "  last report " + heard + "\n";
  }
  view += profiling_line(status);
  view += "  shape       " + counted(count_of(status, "data"), "pipeline") + " x " +
          counted(count_of(status, "stages"), "stage") + " x " +
          counted(count_of(status, "tensor"), "tensor shard") + ", " + text_in(status, "schedule") +
          ", " + whole_in(status, "micro_batches") + " micro-batches\n";
  view += "  ranks       " + ranks(status) + " registered, newest iteration " +
          whole_in(status, "newest_iteration") + "\n";
  if (const auto unset = number_in(status, "ranks_not_set"); unset && *unset > 0) {
    view += "  clocks      " +
            painted("not set on " + counted(static_cast<std::size_t>(*unset), "rank") +
                        ": their agents are missing or refuse to set clocks",
                    Paint::kRed, coloured) +
            "\n";
  }
  add_missing(status, view);
  add_refused(status, view, coloured);
  add_observed(status, view);
  if (member(status, "observed").is_object()) {
    add_stragglers(status, view);
    return view;
  }
  view += "  objective   " + objective_text(member(status, "objective")) + "\n";
  if (const std::string carbon = carbon_control_line(member(status, "carbon").dump());
      !carbon.empty()) {
    view += "  carbon      " + carbon + "\n";
  }
  if (const std::string paced = pace_of(status); !paced.empty())
    view += "  pace        " + paced + "\n";
  if (const std::string paused = pause_of(status); !paused.empty())
    view += "  pause       " + paused + "\n";
  add_stragglers(status, view);
  add_plans(status, view);
  if (const std::string search = search_of(status); !search.empty())
    view += "  search      " + search + "\n";
  view += "  iteration   " + seconds_in(status, "iteration_time_s") + " measured, " +
          predicted(status) + ", " + at_all_max(status) + "\n";
  view += "  saved       " +
          painted(saving_text(status), Paint::kGreen, coloured && is_claimed(status)) + "\n";
  return view;
}

std::string end_of_job(std::string_view text) {
  const Json status = parsed(text);
  if (phase(status) != "ended") return {};
  std::string at = time_text(status, "ended_at");
  std::string end = text_in(status, "id") + " has ended";
  if (!at.empty()) {
    end += ", " + at + ", after it was " + text_in(status, "phase");
  } else if (at = time_text(status, "heard_at"); !at.empty()) {
    end += ": no report from a rank since " + at;
  }
  if (number_in(status, "newest_iteration"))
    end += "; newest iteration " + whole_in(status, "newest_iteration");
  end += '\n';
  return saved_amount(status) == "-" ? end : end + "saved " + saving_text(status) + "\n";
}

std::string pause_text(std::string_view status) {
  return pause_of(parsed(status));
}

std::string event_line(std::string_view event, std::string_view data,
                       std::string_view time_of_day) {
  const Json json = parsed(data);
  const std::string start = std::string(time_of_day) + "  ";
  if (event == "log") {
    const bool warning = text_in(json, "level") == "warning";
    return start + (warning ? "warning: " : "") + text_in(json, "text");
  }
  if (event == "phase") return start + "now " + text_in(json, "phase");
  return {};
}

std::string phase_of_event(std::string_view data) {
  return text_in(parsed(data), "phase");
}

std::string log_text(std::string_view log) {
  const Json json = parsed(log);
  const auto events = json.find("events");
  if (events == json.end() || !events->is_array() || events->empty()) return "nothing yet\n";
  std::string lines;
  for (const Json& event : *events) lines += event_text(event, "%F %T  ") + "\n";
  return lines;
}

namespace {

std::string mode_line(const Json& decision) {
  std::string line = text_in(decision, "mode");
  if (const auto time = number_in(decision, "iteration_time_s")) {
    line += ", " + shortest(*time, 4) + " s an iteration";
  }
  if (const std::string end = text_in(decision, "resumes"); !end.empty()) line += " until " + end;
  if (const std::string why = text_in(decision, "why"); !why.empty()) line += " (" + why + ")";
  return line;
}

std::string row(const char* name, const std::string& value) {
  std::string text = "  " + std::string(name);
  text.resize(16, ' ');
  return text + value + "\n";
}

std::string carbon_row(const Json& decision) {
  const auto grams = number_in(decision, "expected_g"), other = number_in(decision, "static_g");
  if (!grams || !other) return {};
  const double kilograms = 1000;
  return row("carbon", shortest(*grams / kilograms, 3) + " kg CO2eq expected from now on; " +
                           shortest(*other / kilograms, 3) + " kg at the best steady pace (" +
                           shortest(100 * number_in(decision, "gain").value_or(0), 1) +
                           " % saved)");
}

std::string next_row(const Json& decision) {
  return row("next", "new decision by " + text_in(decision, "valid_until"));
}

}  // namespace

std::string carbon_control_line(std::string_view control) {
  const Json json = parsed(control);
  if (!json.is_object()) return {};
  const Json& decision = member(json, "decision");
  if (!decision.is_object()) return "by " + text_in(json, "source") + ": no decision yet";
  std::string line = mode_line(decision);
  if (const auto gain = number_in(decision, "gain")) {
    line += "; " + shortest(100 * *gain, 1) + " % below a static plan";
  }
  return line;
}

std::string carbon_control_view(std::string_view control) {
  const Json json = parsed(control);
  if (!json.is_object()) return "the job does not adapt to the carbon intensity of its grid\n";
  const Json& terms = member(json, "terms");
  std::string view = row("source", text_in(json, "source").empty()
                                       ? "none that this server offers"
                                       : text_in(json, "source") + ", " + text_in(json, "kind"));
  const auto iterations = number_in(terms, "iterations"), slack = number_in(terms, "slack_s");
  view += row("iterations", shortest(number_in(json, "iterations_done").value_or(0)) +
                                (iterations ? " of " + shortest(*iterations) + " are done"
                                            : std::string(" are done, of an unknown number")));
  const Json& decision = member(json, "decision");
  if (!decision.is_object()) return view + row("now", "no decision yet");
  view += row("now", mode_line(decision));
  if (slack) {
    const double behind = number_in(decision, "behind_s").value_or(0);
    view += row("slack", duration_text(Seconds{std::min(std::abs(behind), 1e9)}) +
                             (behind < 0 ? " ahead" : " behind") + "; allowed: " +
                             duration_text(Seconds{std::min(*slack, 1e9)}) + " behind a pace " +
                             shortest(number_in(terms, "deadline_factor").value_or(1)) +
                             " times slower than the fastest plan");
    return view + carbon_row(decision) + next_row(decision);
  }
  view += row("deadline", text_in(decision, "deadline") + " with a probability of " +
                              shortest(number_in(terms, "probability").value_or(0)));
  const bool in_time = member(decision, "in_time") == true;
  view += row("expected", "ready at " + text_in(decision, "finish") +
                              (in_time ? std::string() : std::string(", after the deadline")) +
                              "; with the fastest plan at " + text_in(decision, "earliest"));
  if (const std::string guard = text_in(decision, "guard"); !guard.empty()) {
    view += row("guard", guard);
  }
  return view + carbon_row(decision) + next_row(decision);
}

}  // namespace harpe::command
