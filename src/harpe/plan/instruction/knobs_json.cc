#include "harpe/plan/instruction/knobs_json.h"

#include <utility>

#include "harpe/base/json_fields.h"
#include "harpe/base/text.h"

namespace harpe::plan {

std::string knobs_members(const Knobs& knobs) {
  std::string text;
  const char* separator = "";
  const auto add = [&](const char* key, const std::string& value) {
    text.append(std::exchange(separator, ", ")).append(key).append(": ").append(value);
  };
  if (knobs.memory_clock != Megahertz{0}) {
    add("\"memory_frequency_mhz\"", std::to_string(knobs.memory_clock.value));
  }
  if (knobs.power_limit != Watts{0}) add("\"power_limit_w\"", shortest(knobs.power_limit.value));
  // No character of a label needs an escape.
  if (!knobs.label.empty()) add("\"label\"", '"' + std::string(knobs.label.text()) + '"');
  return text;
}

Knobs read_knobs(Fields& fields) {
  Knobs knobs;
  read_count(fields, "memory_frequency_mhz", 1, kHighestClock, knobs.memory_clock.value);
  read_number(fields, "power_limit_w", kLeastPowerLimit, kMostPowerLimit, knobs.power_limit.value);
  if (const auto text = fields.text("label")) {
    const auto label = Label::of(*text);
    if (!label) {
      fields.error("label", "a label has 1 to " + std::to_string(Label::kMostBytes) +
                                " letters, digits and _-.:+/");
    }
    knobs.label = label.value_or(Label{});
  }
  return knobs;
}

std::size_t KnobNumbers::number(const Knobs& knobs) {
  const auto [found, is_new] = numbers_.try_emplace(knobs, list_.size());
  if (is_new) list_.push_back(knobs);
  return found->second;
}

std::string KnobNumbers::json() const {
  std::string text = "[";
  for (const Knobs& knobs : list_) {
    text += (text.size() > 1 ? ", {" : "{") + knobs_members(knobs) + "}";
  }
  return text + "]";
}

std::vector<Knobs> read_knob_list(Fields& fields, std::string_view key, Diagnostics& diagnostics) {
  std::vector<Knobs> list;
  for (const JsonValue* object : fields.objects(key)) {
    Fields of_object(*object, "knobs", diagnostics);
    list.push_back(read_knobs(of_object));
    of_object.finish();
  }
  return list;
}

}  // namespace harpe::plan
