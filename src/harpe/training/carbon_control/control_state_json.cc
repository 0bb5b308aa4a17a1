#include "harpe/base/json_fields.h"
#include "harpe/carbon/carbon_source/cached_series.h"
#include "harpe/training/carbon_control/control_state.h"

namespace harpe::training {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kLatestControl = 1e12;  // s since 1970
constexpr double kMostGrams = 1e18;
constexpr double kMostWork = 1e12;
constexpr double kMostDone = 1e15;

Json decided_json(const DecidedInterval& decided) {
  return {{"from", decided.from.value},
          {"done", decided.done},
          {"speed", decided.speed},
          {"lost_s", decided.lost.value},
          {"power_w", decided.power.value},
          {"weight", decided.weight},
          {"fastest_s", decided.fastest.value},
          {"length_s", decided.length.value}};
}

DecidedInterval read_decided(Fields& fields) {
  DecidedInterval decided;
  read_number(fields, "from", -kLatestControl, kLatestControl, decided.from.value);
  read_number(fields, "done", -kMostDone, kMostDone, decided.done);
  read_number(fields, "speed", 0, 1, decided.speed);
  read_number(fields, "lost_s", 0, kLongestTime, decided.lost.value);
  read_number(fields, "power_w", 0, kMostPower, decided.power.value);
  read_number(fields, "weight", -1, 1, decided.weight);
  read_number(fields, "fastest_s", 0, kLongestTime, decided.fastest.value);
  read_number(fields, "length_s", 0, kLongestTime, decided.length.value);
  return decided;
}

void read_spread(Fields& fields, ControlState& state) {
  const JsonValue* list = fields.any("progress");
  if (list == nullptr) return;
  const auto is_pair = [](const JsonValue& item) {
    return item.type == JsonValue::Type::kArray && item.items.size() == 2 &&
           item.items[0].type == JsonValue::Type::kNumber &&
           item.items[1].type == JsonValue::Type::kNumber && item.items[0].number > 0 &&
           item.items[0].number <= kMostWork && std::abs(item.items[1].number) <= kMostWork;
  };
  if (list->type != JsonValue::Type::kArray ||
      list->items.size() > ProgressSpread::kMostIntervals ||
      !std::ranges::all_of(list->items, is_pair)) {
    return fields.error("progress", "expected pairs of seconds planned and lost");
  }
  for (const JsonValue& item : list->items) {
    state.spread.add({.planned = item.items[0].number, .lost = item.items[1].number});
  }
}

void read_state(Fields& fields, Diagnostics& diagnostics, ControlState& state) {
  read_number(fields, "begun", 0, kLatestControl, state.begun.value);
  read_number(fields, "deadline", 0, kLatestControl, state.deadline.value);
  read_number(fields, "done_at_begin", -kMostDone, kMostDone, state.done_at_begin);
  state.source = fields.text("source").value_or("");
  const auto kind = carbon::kind_of_word(fields.text("kind").value_or("unstated"));
  if (!kind) fields.error("kind", "is no kind of intensity");
  state.kind = kind.value_or(IntensityKind::kUnstated);
  state.pauses_ignored = fields.boolean("pauses_ignored").value_or(false);
  state.is_paused = fields.boolean("paused").value_or(false);
  read_number(fields, "switched", 0, kLatestControl, state.switched.value);
  read_number(fields, "spent_g", -kMostGrams, kMostGrams, state.spent);
  read_number(fields, "static_spent_g", -kMostGrams, kMostGrams, state.static_spent);
  read_number(fields, "elapsed_s", 0, kLatestControl, state.elapsed.value);
  read_number(fields, "worked_s", 0, kMostDone, state.worked);
  if (const JsonValue* decided = fields.object("decided")) {
    Fields members(*decided, "decided", diagnostics);
    state.decided = read_decided(members);
  }
  read_spread(fields, state);
}

}  // namespace

std::string control_state_json(const ControlState& state) {
  Json json = {{"begun", state.begun.value},
               {"deadline", state.deadline.value},
               {"done_at_begin", state.done_at_begin},
               {"source", state.source},
               {"kind", carbon::kind_word(state.kind)},
               {"paused", state.is_paused},
               {"pauses_ignored", state.pauses_ignored},
               {"switched", state.switched.value},
               {"spent_g", state.spent},
               {"static_spent_g", state.static_spent},
               {"elapsed_s", state.elapsed.value},
               {"worked_s", state.worked}};
  if (state.decided) json["decided"] = decided_json(*state.decided);
  Json progress = Json::array();
  for (const ProgressSpread::Interval& one : state.spread.intervals()) {
    progress.push_back({one.planned, one.lost});
  }
  json["progress"] = std::move(progress);
  return json_line(json);
}

Result<ControlState> parse_control_state(std::string_view text) {
  const std::string what = "carbon control";
  const JsonValue document = HARPE_TRY(parse_json(text, what));
  ControlState state;
  Status read = read_object(
      document, what, what, Unknown::kIgnored,
      [&](Fields& fields, Diagnostics& diagnostics) { read_state(fields, diagnostics, state); });
  if (!read.ok()) return std::move(read).error();
  return state;
}

}  // namespace harpe::training
