#include "harpe/node/node_client/controls.h"

#include <array>

namespace harpe::node {
namespace {

struct Named {
  Control control;
  const char* name;
  const char* text;
};
constexpr std::array<Named, 4> kNames{
    {{Control::kClocks, "clocks", "graphics clocks"},
     {Control::kMemoryClocks, "memory_clocks", "memory clocks"},
     {Control::kPowerLimit, "power_limit", "power limit"},
     {Control::kPersistenceMode, "persistence_mode", "persistence mode"}}};

}  // namespace

std::vector<std::string> names_of(Controls controls) {
  std::vector<std::string> names;
  for (const Named& each : kNames) {
    if (controls.has(each.control)) names.emplace_back(each.name);
  }
  return names;
}

std::optional<Control> control_named(std::string_view name) {
  for (const Named& each : kNames) {
    if (name == each.name) return each.control;
  }
  return std::nullopt;
}

std::string text_of(Controls controls) {
  if (controls == Controls()) return "everything";
  std::string text;
  for (const Named& each : kNames) {
    if (controls.has(each.control)) text += (text.empty() ? "" : ", ") + std::string(each.text);
  }
  return text;
}

}  // namespace harpe::node
