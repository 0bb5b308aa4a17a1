#include "harpe/cli/carbon_control_view.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "harpe/base/text.h"
#include "harpe/command/quantity_text.h"

namespace harpe {
namespace {

using ControlJson = nlohmann::json;

const ControlJson& control_member(const ControlJson& object, const char* key) {
  static const ControlJson kNull;
  const auto found = object.is_object() ? object.find(key) : object.end();
  return object.is_object() && found != object.end() ? *found : kNull;
}

std::string words(const ControlJson& object, const char* key) {
  const ControlJson& value = control_member(object, key);
  return value.is_string() ? value.get<std::string>() : std::string();
}

std::optional<double> figure(const ControlJson& object, const char* key) {
  const ControlJson& value = control_member(object, key);
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;
}

std::string mode_line(const ControlJson& decision) {
  std::string line = words(decision, "mode");
  if (const auto time = figure(decision, "iteration_time_s")) {
    line += ", " + shortest(*time, 4) + " s an iteration";
  }
  if (const std::string end = words(decision, "resumes"); !end.empty()) line += " until " + end;
  if (const std::string why = words(decision, "why"); !why.empty()) line += " (" + why + ")";
  return line;
}

std::string row(const char* name, const std::string& value) {
  std::string text = "  " + std::string(name);
  text.resize(16, ' ');
  return text + value + "\n";
}

std::string carbon_row(const ControlJson& decision) {
  const auto grams = figure(decision, "expected_g"), other = figure(decision, "static_g");
  if (!grams || !other) return {};
  const double kilograms = 1000;
  return row("carbon", shortest(*grams / kilograms, 3) + " kg CO2eq to come; " +
                           shortest(*other / kilograms, 3) + " kg at the best steady pace (" +
                           shortest(100 * figure(decision, "gain").value_or(0), 1) +
                           " % are saved)");
}

std::string next_row(const ControlJson& decision) {
  return row("next", "decided upon by " + words(decision, "valid_until"));
}

}  // namespace

std::string carbon_control_line(std::string_view control) {
  const ControlJson json = ControlJson::parse(control, nullptr, false);
  if (!json.is_object()) return {};
  const ControlJson& decision = control_member(json, "decision");
  if (!decision.is_object()) return "by " + words(json, "source") + ": nothing is decided yet";
  std::string line = mode_line(decision);
  if (const auto gain = figure(decision, "gain")) {
    line += "; " + shortest(100 * *gain, 1) + " % below a static plan";
  }
  return line;
}

std::string carbon_control_view(std::string_view control) {
  const ControlJson json = ControlJson::parse(control, nullptr, false);
  if (!json.is_object()) return "it does not move with its grid\n";
  const ControlJson& terms = control_member(json, "terms");
  std::string view = row("source", words(json, "source").empty()
                                       ? "none that this server offers"
                                       : words(json, "source") + ", " + words(json, "kind"));
  const auto iterations = figure(terms, "iterations"), slack = figure(terms, "slack_s");
  view +=
      row("iterations", shortest(figure(json, "iterations_done").value_or(0)) +
                            (iterations ? " of " + shortest(*iterations) + " are done"
                                        : std::string(" are done, of a number that is not known")));
  const ControlJson& decision = control_member(json, "decision");
  if (!decision.is_object()) return view + row("now", "nothing is decided yet");
  view += row("now", mode_line(decision));
  if (slack) {
    const double behind = figure(decision, "behind_s").value_or(0);
    view += row("slack", duration_text(Seconds{std::min(std::abs(behind), 1e9)}) +
                             (behind < 0 ? " ahead" : " behind") + ", of " +
                             duration_text(Seconds{std::min(*slack, 1e9)}) +
                             " that it may be behind a pace " +
                             shortest(figure(terms, "deadline_factor").value_or(1)) +
                             " times slower than the fastest plan");
    return view + carbon_row(decision) + next_row(decision);
  }
  view += row("deadline", words(decision, "deadline") + " with a probability of " +
                              shortest(figure(terms, "probability").value_or(0)));
  const bool in_time = control_member(decision, "in_time") == true;
  view += row("expected", "ready at " + words(decision, "finish") +
                              (in_time ? std::string() : std::string(", after the deadline")) +
                              "; at the fastest plan at " + words(decision, "earliest"));
  if (const std::string guard = words(decision, "guard"); !guard.empty()) {
    view += row("guard", guard);
  }
  return view + carbon_row(decision) + next_row(decision);
}

}  // namespace harpe
