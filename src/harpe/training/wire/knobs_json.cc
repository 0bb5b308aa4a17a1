#include "harpe/training/wire/knobs_json.h"

#include <algorithm>
#include <cstdint>

#include "harpe/base/json_fields.h"
#include "harpe/plan/instruction/knobs_json.h"

namespace harpe {

std::vector<Knobs> read_knobs(Fields& fields, Diagnostics& diagnostics, std::size_t clocks) {
  const std::vector<Knobs> settings = read_knob_list(fields, "knobs", diagnostics);
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
      fields.error("knobs_of", "has an entry that is no position in knobs");
      return {};
    }
    knobs.push_back(settings[static_cast<std::size_t>(item.integer)]);
  }
  if (std::ranges::all_of(knobs, &Knobs::empty)) return {};
  return knobs;
}

void append_knobs(std::string& text, const std::vector<Knobs>& knobs) {
  if (std::ranges::all_of(knobs, &Knobs::empty)) return;
  KnobNumbers numbers;
  std::string list;
  for (const Knobs& one : knobs)
    list.append(list.empty() ? "" : ",").append(std::to_string(numbers.number(one)));
  text.append(",\"knobs\":").append(numbers.json()).append(",\"knobs_of\":[").append(list) += ']';
}

}  // namespace harpe
