// Messages between ranks and their job as JSON, in both directions.

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/fields.h"
#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"
#include "harpe/plan/instruction/knobs.h"
#include "harpe/plan/instruction/knobs_json.h"
#include "harpe/training/wire/wire.h"

namespace harpe::training {
namespace {

/// Reads "data", "stage" and "tensor", each 0 if absent.
RankCoordinates read_coordinates(Fields& fields) {
  constexpr int kHighestCoordinate = 1'000'000;
  RankCoordinates coordinates;
  coordinates.data = static_cast<int>(fields.integer("data", 0, kHighestCoordinate).value_or(0));
  coordinates.stage = static_cast<int>(fields.integer("stage", 0, kHighestCoordinate).value_or(0));
  coordinates.tensor =
      static_cast<int>(fields.integer("tensor", 0, kHighestCoordinate).value_or(0));
  return coordinates;
}

using Json = nlohmann::ordered_json;

/// Returns the members that identify the rank of a message: its coordinates and its session.
Json from_rank(const RankCoordinates& coordinates, const std::string& session) {
  return {{"data", coordinates.data},
          {"stage", coordinates.stage},
          {"tensor", coordinates.tensor},
          {"session", session}};
}

// Knobs: "knobs" lists each distinct setting once; "knobs_of" has its position for each
// instruction.

/// Returns one setting for each of `clocks`, or an empty list if no setting sets anything.
std::vector<Knobs> read_knobs(Fields& fields, Diagnostics& diagnostics, std::size_t clocks) {
  const std::vector<Knobs> settings = plan::read_knob_list(fields, "knobs", diagnostics);
  const JsonValue* of = fields.any("knobs_of");
  if (settings.empty() && of == nullptr) return {};
  if (of == nullptr || of->type != JsonValue::Type::kArray || of->items.size() != clocks) {
    fields.error("knobs_of", "expected a position in knobs for each of clocks_mhz");
    return {};
  }
  std::vector<Knobs> knobs;
  knobs.reserve(clocks);
  for (const JsonValue& item : of->items) {
    if (!item.is_integer || item.integer < 0 ||
        item.integer >= static_cast<std::int64_t>(settings.size())) {
      fields.error("knobs_of", "has an entry that is not a position in knobs");
      return {};
    }
    knobs.push_back(settings[static_cast<std::size_t>(item.integer)]);
  }
  if (std::ranges::all_of(knobs, &Knobs::empty)) return {};
  return knobs;
}

/// Appends `,"knobs":[...],"knobs_of":[...]`, or nothing if there are no knobs.
void append_knobs(std::string& text, const std::vector<Knobs>& knobs) {
  if (std::ranges::all_of(knobs, &Knobs::empty)) return;
  plan::KnobNumbers numbers;
  std::string list;
  for (const Knobs& one : knobs)
    list.append(list.empty() ? "" : ",").append(std::to_string(numbers.number(one)));
  text.append(",\"knobs\":").append(numbers.json()).append(",\"knobs_of\":[").append(list) += ']';
}

using Type = JsonValue::Type;

constexpr std::size_t kMostClocks = 4096;
constexpr std::size_t kMostKinds = 4096;
constexpr double kMostLimit = 1e5;                             // W
constexpr double kLatestPause = 1e12;                          // s since 1970
constexpr std::int64_t kLargestCount = 9'000'000'000'000'000;  // maximum of a count

/// Reads an epoch, a version or a similar number.
std::uint64_t read_ordinal(Fields& fields, const char* name, std::uint64_t where_absent = 0) {
  const auto number = fields.integer(name, 0, kLargestCount);
  return number ? static_cast<std::uint64_t>(*number) : where_absent;
}

void append_number(std::string& text, std::uint64_t number) {
  std::array<char, 24> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), number);
  text.append(digits.data(), end.ptr);
}

InstructionTotals read_totals(const JsonValue& object, Diagnostics& diagnostics) {
  Fields fields(object, "an instruction", diagnostics);
  InstructionTotals totals;
  const std::string kind_name = needed(fields, "name", fields.text("name"));
  const auto kind = instruction_kind(kind_name);
  if (kind) {
    totals.kind = *kind;
  } else if (fields.any("name") != nullptr) {
    fields.error("name", "unknown instruction '" + kind_name.substr(0, 40) + "'");
  }
  read_count(fields, "chunk", 0, kMaxInstructions, totals.chunk);
  totals.count =
      static_cast<int>(needed(fields, "count", fields.integer("count", 1, kMaxInstructions)));
  totals.time.value = needed(fields, "time_s", fields.number("time_s", 0, kLongestTime));
  totals.energy.value = number_or_null(fields, "energy_j", -kMostEnergy, kMostEnergy);
  read_number(fields, "energy_error_j", 0, kMostEnergy, totals.energy_error.value);
  fields.finish();
  return totals;
}

PauseRequest read_pause(const JsonValue& object, Diagnostics& diagnostics) {
  Fields fields(object, "a pause", diagnostics);
  PauseRequest pause;
  pause.number = static_cast<std::uint64_t>(
      needed(fields, "number", fields.integer("number", 1, kLargestCount)));
  if (const auto until = fields.number("until", 0, kLatestPause)) pause.until = Seconds{*until};
  pause.why = short_text(fields, "why").substr(0, PauseRequest::kLongestWhy);
  fields.finish();
  return pause;
}

void append_pause(std::string& text, const PauseRequest& pause) {
  text += ",\"pause\":{\"number\":";
  append_number(text, pause.number);
  if (pause.until) text += ",\"until\":" + shortest(pause.until->value);
  if (!pause.why.empty()) {
    text += ",\"why\":" + json_line(Json(pause.why));
  }
  text += '}';
}

StageAssignment read_stage_assignment(const JsonValue& object, Diagnostics& diagnostics) {
  Fields fields(object, "an assignment", diagnostics);
  StageAssignment assignment;
  assignment.version = static_cast<std::uint64_t>(
      needed(fields, "version", fields.integer("version", 0, kLargestCount)));
  assignment.from_iteration =
      needed(fields, "from_iteration", fields.integer("from_iteration", 0, kLargestCount));
  if (const auto purpose = fields.word("purpose", {"all_max", "profile", "plan"}))
    assignment.purpose = static_cast<StageAssignment::Purpose>(*purpose);
  assignment.clocks = read_clocks(fields, "clocks_mhz", kMaxInstructions);
  if (assignment.clocks.empty()) fields.error("clocks_mhz", "expected at least one clock");
  assignment.knobs = read_knobs(fields, diagnostics, assignment.clocks.size());
  if (const JsonValue* pause = fields.object("pause"))
    assignment.pause = read_pause(*pause, diagnostics);
  fields.finish();
  return assignment;
}

}  // namespace

const char* name_of(StageAssignment::Purpose purpose) {
  constexpr std::array kNames = {"all_max", "profile", "plan"};
  return kNames.at(static_cast<std::size_t>(purpose));
}

Result<RankRegistration> parse_rank_registration(std::string_view text) {
  return read_document<RankRegistration>(
      text, "the rank", [](Fields& fields, Diagnostics&, RankRegistration& rank) {
        rank.coordinates = read_coordinates(fields);
        rank.session = short_text(fields, "session");
        if (rank.session.empty()) {
          fields.error("session", "expected a text that only this process uses");
        }
        rank.run = short_text(fields, "run");
        rank.gpu = short_text(fields, "gpu");
        rank.clocks = read_clocks(fields, "clocks_mhz", kMostClocks, 1);
        rank.simulated = fields.boolean("simulated").value_or(false);
        rank.power_limit.value = fields.number("power_limit_w", 1, kMostLimit).value_or(0);
        rank.specification = short_text(fields, "specification");
        rank.incarnation = short_text(fields, "incarnation");
        rank.start = read_ordinal(fields, "start");
        rank.take_over = fields.boolean("take_over").value_or(false);
        rank.asks_ahead = fields.boolean("asks_ahead").value_or(false);
        rank.pausing = read_ordinal(fields, "pausing");
      });
}

std::string rank_registration_json(const RankRegistration& rank) {
  Json json = from_rank(rank.coordinates, rank.session);
  json["run"] = rank.run;
  json["gpu"] = rank.gpu;
  json["clocks_mhz"] = clocks_json(rank.clocks);
  if (rank.simulated) json["simulated"] = true;
  if (rank.power_limit > Watts{0}) json["power_limit_w"] = rank.power_limit.value;
  if (!rank.specification.empty()) json["specification"] = rank.specification;
  if (!rank.incarnation.empty()) json["incarnation"] = rank.incarnation;
  if (rank.start > 0) json["start"] = rank.start;
  if (rank.take_over) json["take_over"] = true;
  if (rank.asks_ahead) json["asks_ahead"] = true;
  if (rank.pausing > 0) json["pausing"] = rank.pausing;
  return json_line(json);
}

Result<RankEnd> parse_rank_end(std::string_view text) {
  return read_document<RankEnd>(text, "the rank", [](Fields& fields, Diagnostics&, RankEnd& end) {
    end.coordinates = read_coordinates(fields);
    end.session = short_text(fields, "session");
    if (end.session.empty()) fields.error("session", "expected the session of the rank");
  });
}

std::string rank_end_json(const RankEnd& end) {
  return json_line(from_rank(end.coordinates, end.session));
}

Result<IterationReport> parse_iteration_report(std::string_view text) {
  return read_document<IterationReport>(
      text, "the report", [](Fields& fields, Diagnostics& diagnostics, IterationReport& report) {
        report.coordinates = read_coordinates(fields);
        report.session = short_text(fields, "session");
        report.incarnation = short_text(fields, "incarnation");
        report.epoch = read_ordinal(fields, "epoch");
        report.iteration =
            needed(fields, "iteration", fields.integer("iteration", 0, kLargestCount));
        report.version = read_ordinal(fields, "version");
        report.known = read_ordinal(fields, "known", report.version);
        report.reached = fields.integer("reached", 0, kLargestCount).value_or(-1);
        report.time.value = needed(fields, "time_s", fields.number("time_s", 1e-9, kLongestTime));
        report.energy.value = number_or_null(fields, "energy_j", -kMostEnergy, kMostEnergy);
        read_number(fields, "energy_error_j", 0, kMostEnergy, report.energy_error.value);
        report.throttled = fields.boolean("throttled").value_or(false);
        read_count(fields, "clock_mhz", 0, kHighestClock, report.clock.value);
        report.refusal = short_text(fields, "refusal");
        const auto instructions = fields.objects("instructions");
        if (instructions.size() > kMostKinds) {
          return fields.error("instructions", "has more than 4096 entries");
        }
        for (const JsonValue* item : instructions)
          report.instructions.push_back(read_totals(*item, diagnostics));
      });
}

std::string iteration_report_json(const IterationReport& report) {
  Json instructions = Json::array();
  for (const InstructionTotals& totals : report.instructions) {
    instructions.push_back({{"name", name(totals.kind)},
                            {"chunk", totals.chunk},
                            {"count", totals.count},
                            {"time_s", totals.time.value},
                            {"energy_j", null_if_nan(totals.energy.value)},
                            {"energy_error_j", totals.energy_error.value}});
  }
  Json json = from_rank(report.coordinates, report.session);
  json["iteration"] = report.iteration;
  json["version"] = report.version;
  json["known"] = report.known;
  json["time_s"] = report.time.value;
  json["energy_j"] = null_if_nan(report.energy.value);
  json["energy_error_j"] = report.energy_error.value;
  json["throttled"] = report.throttled;
  json["instructions"] = std::move(instructions);
  if (!report.incarnation.empty()) json["incarnation"] = report.incarnation;
  if (report.epoch > 0) json["epoch"] = report.epoch;
  if (report.reached >= 0) json["reached"] = report.reached;
  if (report.clock > Megahertz{0}) json["clock_mhz"] = report.clock.value;
  if (!report.refusal.empty()) json["refusal"] = report.refusal;
  return json_line(json);
}

std::string assignments_json(const std::vector<StageAssignment>& assignments) {
  // Without a JSON library, for speed: a server writes this text to tens of thousands of ranks at a
  // time, some with a clock for each of thousands of instructions.
  std::string text = "[";
  for (const StageAssignment& one : assignments) {
    if (text.size() > 1) text += ',';
    text += "{\"version\":";
    append_number(text, one.version);
    text += ",\"from_iteration\":";
    append_number(text, static_cast<std::uint64_t>(one.from_iteration));
    text.append(",\"purpose\":\"").append(name_of(one.purpose)).append("\",\"clocks_mhz\":[");
    for (std::size_t i = 0; i < one.clocks.size(); ++i) {
      if (i > 0) text += ',';
      append_number(text, static_cast<std::uint64_t>(one.clocks[i].value));
    }
    text += ']';
    if (!one.knobs.empty()) append_knobs(text, one.knobs);
    if (one.pause) append_pause(text, *one.pause);
    text += '}';
  }
  return text + ']';
}

std::string rank_response_json(const RankResponse& response, std::string_view assignments) {
  std::string text = "{";
  const auto member = [&text](std::string_view name, std::string_view value) {
    if (text.size() > 1) text += ',';
    text.append("\"").append(name).append("\":").append(value);
  };
  if (response.rank) member("rank", std::to_string(*response.rank));
  if (response.version) member("version", std::to_string(*response.version));
  if (!response.incarnation.empty()) member("incarnation", json_line(Json(response.incarnation)));
  if (response.epoch > 0) member("epoch", std::to_string(response.epoch));
  if (response.start > 0) member("start", std::to_string(response.start));
  if (!response.specification.empty()) {
    member("specification", json_line(Json(response.specification)));
  }
  if (!response.energy_refused.empty())
    member("energy_refused", json_line(Json(response.energy_refused)));
  if (!assignments.empty()) member("assignments", assignments);
  return text + '}';
}

Result<RankResponse> parse_rank_response(std::string_view text) {
  JsonValue document = HARPE_TRY(parse_json(text, "the response"));
  Diagnostics diagnostics("the response");
  RankResponse response;
  if (document.type != Type::kObject) return Error::invalid("the response: expected an object");
  const auto member = [&](const char* name) { return document.find(name); };
  const auto text_of = [&](const char* name) {
    const JsonValue* value = member(name);
    if (value == nullptr || value->type == Type::kNull) return std::string();
    if (value->type != Type::kString || value->string.size() > kLongestText) {
      diagnostics.add(value->line, value->column, std::string(name) + ": expected a short text");
      return std::string();
    }
    return value->string;
  };
  const auto count_of = [&](const char* name) {
    const JsonValue* value = member(name);
    if (value == nullptr || value->type == Type::kNull) return std::uint64_t{0};
    if (!value->is_integer || value->integer < 0 || value->integer > kLargestCount) {
      diagnostics.add(value->line, value->column, std::string(name) + ": expected a count");
      return std::uint64_t{0};
    }
    return static_cast<std::uint64_t>(value->integer);
  };
  if (const JsonValue* rank = member("rank"); rank != nullptr) {
    if (!rank->is_integer || rank->integer < 0 || rank->integer >= kMaxRanks) {
      diagnostics.add(rank->line, rank->column, "rank: expected a number from 0");
    } else {
      response.rank = static_cast<int>(rank->integer);
    }
  }
  if (member("version") != nullptr) response.version = count_of("version");
  response.incarnation = text_of("incarnation");
  response.epoch = count_of("epoch");
  response.start = count_of("start");
  response.specification = text_of("specification");
  response.energy_refused = text_of("energy_refused");
  const JsonValue* list = member("assignments");
  if (list != nullptr && list->type != Type::kArray) {
    diagnostics.add(list->line, list->column, "expected a list of assignments");
  } else if (list != nullptr) {
    for (const JsonValue& item : list->items) {
      response.assignments.push_back(read_stage_assignment(item, diagnostics));
      response.assignments.back().epoch = response.epoch;
    }
  }
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return response;
}

}  // namespace harpe::training
