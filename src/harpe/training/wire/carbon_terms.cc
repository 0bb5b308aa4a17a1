#include "harpe/training/wire/carbon_terms.h"

#include <cmath>
#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/carbon/carbon/intensity.h"

namespace harpe::training {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostIterations = 1'000'000'000'000;
constexpr double kMostFactor = 100;
constexpr double kLongestPauseCost = 86'400;  // s
constexpr double kLowestProbability = 0.5, kHighestProbability = 0.9999;
constexpr double kMostGuard = 10;
constexpr double kMostPowerOfAGpu = 1e5;  // W
constexpr double kMostTokens = 1e12;

CarbonPause read_pause(Fields& fields) {
  CarbonPause pause;
  read_number(fields, "stop_s", 0, kLongestPauseCost, pause.stop.value);
  read_number(fields, "start_s", 0, kLongestPauseCost, pause.start.value);
  read_number(fields, "min_dwell_s", 0, 7 * kLongestPauseCost, pause.min_dwell.value);
  if (const auto idle = fields.number("idle_power_w", 0, kMostPowerOfAGpu)) {
    pause.idle_power = Watts{*idle};
  }
  return pause;
}

/// Reads "pause": true, or an object with the costs of a pause.
std::optional<CarbonPause> read_pause_member(Fields& parent, Diagnostics& diagnostics,
                                             Unknown unknown) {
  const JsonValue* given = parent.any("pause");
  if (given == nullptr) return std::nullopt;
  if (given->type == JsonValue::Type::kBool) {
    return given->boolean ? std::optional(CarbonPause{}) : std::nullopt;
  }
  if (given->type != JsonValue::Type::kObject) {
    parent.error("pause", "expected true, false, or an object");
    return std::nullopt;
  }
  Fields fields(*given, "pause", diagnostics);
  const CarbonPause pause = read_pause(fields);
  if (unknown == Unknown::kRefused) fields.finish();
  return pause;
}

/// Reads the length of the run, or the slack of a run of unknown length.
void read_length(Fields& fields, CarbonTerms& terms) {
  const bool has_count = fields.any("iterations") != nullptr;
  const bool has_slack = fields.any("slack_s") != nullptr;
  if (!has_count && !has_slack) {
    fields.error(
        "iterations",
        "is missing: the number of iterations of the whole run, because the pace depends on "
        "the remaining ones; for a run of unknown length give \"slack_s\", how far it may "
        "fall behind");
  }
  if (has_count && has_slack) {
    fields.error("slack_s",
                 "cannot be used with \"iterations\": it is for a run of unknown length");
  }
  terms.iterations = fields.integer("iterations", 1, kMostIterations);
  if (const auto slack = fields.number("slack_s", 0, CarbonTerms::kLongestSlack.value)) {
    terms.slack = Seconds{*slack};
  }
}

void refuse_of_unknown_length(Fields& fields, const char* key, const char* because) {
  if (fields.any(key) != nullptr) {
    fields.error(key, std::string("cannot be used with \"slack_s\": ") + because);
  }
}

void read_open_end(Fields& fields, CarbonTerms& terms) {
  terms.deadline_factor = fields.number("deadline_factor", 1, kMostFactor);
  if (fields.any("deadline_factor") == nullptr) {
    fields.error(
        "deadline_factor",
        "is missing: how much slower the run may be than at the fastest plan, such as 1.25");
  }
  refuse_of_unknown_length(fields, "deadline", "a run of unknown length has no deadline");
  refuse_of_unknown_length(fields, "probability", "a probability needs a deadline");
  refuse_of_unknown_length(fields, "guard", "a guard needs a deadline");
}

void read_deadline(Fields& fields, CarbonTerms& terms) {
  terms.deadline_factor = fields.number("deadline_factor", 1, kMostFactor);
  if (const auto text = fields.text("deadline")) {
    terms.deadline = carbon::parse_utc(*text);
    if (!terms.deadline) {
      fields.error("deadline", "expected a time in UTC such as \"2026-12-01T06:00:00Z\"");
    }
  }
  const bool has_time = fields.any("deadline") != nullptr;
  const bool has_factor = fields.any("deadline_factor") != nullptr;
  if (has_time && has_factor) {
    fields.error("deadline_factor", "give either \"deadline\" or \"deadline_factor\"");
  }
  if (!has_time && !has_factor) {
    fields.error("deadline", "is missing: a time in UTC, or \"deadline_factor\", such as 1.25");
  }
}

Json pause_json(const CarbonPause& pause) {
  Json json = {{"stop_s", pause.stop.value},
               {"start_s", pause.start.value},
               {"min_dwell_s", pause.min_dwell.value}};
  if (pause.idle_power) json["idle_power_w"] = pause.idle_power->value;
  return json;
}

}  // namespace

CarbonTerms read_carbon_terms(Fields& fields, Diagnostics& diagnostics, Unknown unknown) {
  CarbonTerms terms;
  terms.source = short_text(fields, "source");
  terms.zone = short_text(fields, "zone");
  read_length(fields, terms);
  terms.iterations_done = fields.integer("iterations_done", 0, kMostIterations);
  const bool is_open_ended = fields.any("slack_s") != nullptr;
  is_open_ended ? read_open_end(fields, terms) : read_deadline(fields, terms);
  read_number(fields, "probability", kLowestProbability, kHighestProbability, terms.probability);
  terms.pause = read_pause_member(fields, diagnostics, unknown);
  if (const auto guard = fields.number("guard", 0, kMostGuard)) {
    if (*guard > 0) terms.guard = guard;
  }
  if (fields.any("guard_confidence") != nullptr && fields.any("guard") == nullptr) {
    fields.error("guard_confidence", "needs \"guard\", the most that may be risked");
  }
  read_number(fields, "guard_confidence", kLowestProbability, 1, terms.guard_confidence);
  terms.embodied = short_text(fields, "embodied");
  if (!terms.embodied.empty()) {
    const Result<EmbodiedCarbon> embodied = parse_embodied(terms.embodied);
    if (!embodied.ok()) fields.error("embodied", embodied.error().text());
  }
  read_number(fields, "host_power_w", 0, kMostPowerOfAGpu, terms.host_power.value);
  terms.tokens_per_iteration = fields.number("tokens_per_iteration", 0, kMostTokens);
  return terms;
}

Result<CarbonTerms> parse_carbon_terms(std::string_view text) {
  return read_document<CarbonTerms>(
      text, "the carbon terms", [](Fields& fields, Diagnostics& diagnostics, CarbonTerms& terms) {
        terms = read_carbon_terms(fields, diagnostics);
      });
}

std::string carbon_terms_json(const CarbonTerms& terms) {
  Json json = Json::object();
  if (!terms.source.empty()) json["source"] = terms.source;
  if (!terms.zone.empty()) json["zone"] = terms.zone;
  if (terms.iterations) json["iterations"] = *terms.iterations;
  if (terms.slack) json["slack_s"] = terms.slack->value;
  if (terms.iterations_done) json["iterations_done"] = *terms.iterations_done;
  if (terms.deadline) json["deadline"] = carbon::utc_text(*terms.deadline);
  if (terms.deadline_factor) json["deadline_factor"] = *terms.deadline_factor;
  if (!terms.is_open_ended()) json["probability"] = terms.probability;
  if (terms.pause) json["pause"] = pause_json(*terms.pause);
  if (terms.guard) {
    json["guard"] = *terms.guard;
    json["guard_confidence"] = terms.guard_confidence;
  }
  if (!terms.embodied.empty()) json["embodied"] = terms.embodied;
  if (terms.host_power.value != 0) json["host_power_w"] = terms.host_power.value;
  if (terms.tokens_per_iteration) json["tokens_per_iteration"] = *terms.tokens_per_iteration;
  return json_line(json);
}

Status validate(const CarbonTerms& terms) {
  Result<CarbonTerms> read = parse_carbon_terms(carbon_terms_json(terms));
  if (!read.ok()) return std::move(read).error();
  return ok_status();
}

}  // namespace harpe::training
