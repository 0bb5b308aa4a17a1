#include "harpe/wire/knobs_json.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>

#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"

namespace harpe {
namespace {

constexpr double kLowestLimit = 1e-3, kHighestLimit = 1e6;  // W

Knobs read_setting(const JsonValue& object, Faults& faults) {
  Fields fields(object, "a setting", faults);
  Knobs knobs;
  if (const auto clock = fields.integer("memory_frequency_mhz", 1, kHighestClock))
    knobs.memory_clock.value = static_cast<int>(*clock);
  if (const auto limit = fields.number("power_limit_w", kLowestLimit, kHighestLimit))
    knobs.power_limit.value = *limit;
  if (const auto text = fields.text("label")) {
    if (const auto label = Label::of(*text)) {
      knobs.label = *label;
    } else {
      fields.fault("label", "expected 1 to " + std::to_string(Label::kMostBytes) +
                                " letters, digits or any of _-.:+/");
    }
  }
  fields.finish();
  return knobs;
}

void append_setting(std::string& text, const Knobs& knobs) {
  const char* before = "{";
  const auto member = [&](std::string_view name, std::string_view value) {
    text.append(before).append("\"").append(name).append("\":").append(value);
    before = ",";
  };
  if (knobs.memory_clock.value > 0)
    member("memory_frequency_mhz", std::to_string(knobs.memory_clock.value));
  if (knobs.power_limit.value > 0) member("power_limit_w", shortest(knobs.power_limit.value));
  // A label holds nothing that JSON would escape.
  if (!knobs.label.empty()) member("label", "\"" + std::string(knobs.label.text()) + "\"");
  text.append(knobs.empty() ? "{}" : "}");
}

}  // namespace

std::vector<Knobs> read_knobs(Fields& fields, Faults& faults, std::size_t clocks) {
  std::vector<Knobs> settings;
  for (const JsonValue* object : fields.objects("knobs"))
    settings.push_back(read_setting(*object, faults));
  const JsonValue* of = fields.any("knobs_of");
  if (settings.empty() && of == nullptr) return {};
  if (of == nullptr || of->type != JsonValue::Type::kArray || of->items.size() != clocks) {
    fields.fault("knobs_of", "expected a position in knobs for each of clocks_mhz");
    return {};
  }
  std::vector<Knobs> knobs;
  knobs.reserve(clocks);
  for (const JsonValue& item : of->items) {
    if (!item.is_integer || item.integer < 0 ||
        item.integer >= static_cast<std::int64_t>(settings.size())) {
      fields.fault("knobs_of", "has an entry that is no position in knobs");
      return {};
    }
    knobs.push_back(settings[static_cast<std::size_t>(item.integer)]);
  }
  if (std::ranges::all_of(knobs, &Knobs::empty)) return {};
  return knobs;
}

void append_knobs(std::string& text, const std::vector<Knobs>& knobs) {
  if (std::ranges::all_of(knobs, &Knobs::empty)) return;
  std::map<Knobs, std::size_t> positions;
  std::string list;
  text += ",\"knobs\":[";
  for (const Knobs& one : knobs) {
    const auto [at, is_new] = positions.emplace(one, positions.size());
    if (is_new) {
      if (at->second > 0) text += ',';
      append_setting(text, one);
    }
    list.append(list.empty() ? "" : ",").append(std::to_string(at->second));
  }
  text.append("],\"knobs_of\":[").append(list).append("]");
}

}  // namespace harpe
