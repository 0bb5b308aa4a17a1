#include "harpe/command/cli/carbon_control_view.h"

#include <algorithm>
#include <cmath>

#include "harpe/base/quantity_text.h"
#include "harpe/base/text.h"
#include "harpe/command/cli/status_fields.h"

namespace harpe::command {
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
  return row("carbon", shortest(*grams / kilograms, 3) + " kg CO2eq to come; " +
                           shortest(*other / kilograms, 3) + " kg at the best steady pace (" +
                           shortest(100 * number_in(decision, "gain").value_or(0), 1) +
                           " % are saved)");
}

std::string next_row(const Json& decision) {
  return row("next", "decided upon by " + text_in(decision, "valid_until"));
}

}  // namespace

std::string carbon_control_line(std::string_view control) {
  const Json json = parsed(control);
  if (!json.is_object()) return {};
  const Json& decision = member(json, "decision");
  if (!decision.is_object()) return "by " + text_in(json, "source") + ": nothing is decided yet";
  std::string line = mode_line(decision);
  if (const auto gain = number_in(decision, "gain")) {
    line += "; " + shortest(100 * *gain, 1) + " % below a static plan";
  }
  return line;
}

std::string carbon_control_view(std::string_view control) {
  const Json json = parsed(control);
  if (!json.is_object()) return "it does not move with its grid\n";
  const Json& terms = member(json, "terms");
  std::string view = row("source", text_in(json, "source").empty()
                                       ? "none that this server offers"
                                       : text_in(json, "source") + ", " + text_in(json, "kind"));
  const auto iterations = number_in(terms, "iterations"), slack = number_in(terms, "slack_s");
  view +=
      row("iterations", shortest(number_in(json, "iterations_done").value_or(0)) +
                            (iterations ? " of " + shortest(*iterations) + " are done"
                                        : std::string(" are done, of a number that is not known")));
  const Json& decision = member(json, "decision");
  if (!decision.is_object()) return view + row("now", "nothing is decided yet");
  view += row("now", mode_line(decision));
  if (slack) {
    const double behind = number_in(decision, "behind_s").value_or(0);
    view += row("slack", duration_text(Seconds{std::min(std::abs(behind), 1e9)}) +
                             (behind < 0 ? " ahead" : " behind") + ", of " +
                             duration_text(Seconds{std::min(*slack, 1e9)}) +
                             " that it may be behind a pace " +
                             shortest(number_in(terms, "deadline_factor").value_or(1)) +
                             " times slower than the fastest plan");
    return view + carbon_row(decision) + next_row(decision);
  }
  view += row("deadline", text_in(decision, "deadline") + " with a probability of " +
                              shortest(number_in(terms, "probability").value_or(0)));
  const bool in_time = member(decision, "in_time") == true;
  view += row("expected", "ready at " + text_in(decision, "finish") +
                              (in_time ? std::string() : std::string(", after the deadline")) +
                              "; at the fastest plan at " + text_in(decision, "earliest"));
  if (const std::string guard = text_in(decision, "guard"); !guard.empty()) {
    view += row("guard", guard);
  }
  return view + carbon_row(decision) + next_row(decision);
}

}  // namespace harpe::command
