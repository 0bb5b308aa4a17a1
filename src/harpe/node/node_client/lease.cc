#include "harpe/node/node_client/lease.h"

#include <array>

#include "harpe/base/text.h"

namespace harpe::node {

namespace {

struct Named {
  Control control;
  const char* name;
  const char* text;
};
constexpr std::array kNames =
    std::to_array<Named>({{Control::kClocks, "clocks", "graphics clocks"},
                          {Control::kMemoryClocks, "memory_clocks", "memory clocks"},
                          {Control::kPowerLimit, "power_limit", "power limit"},
                          {Control::kPersistenceMode, "persistence_mode", "persistence mode"}});
static_assert(kNames.size() == kControlCount);

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

Control control_of(const Setting& setting) {
  using Kind = Setting::Kind;
  switch (setting.kind) {
    case Kind::kLockClocks:
    case Kind::kResetClocks:
      return setting.domain == ClockDomain::kGraphics ? Control::kClocks : Control::kMemoryClocks;
    case Kind::kPowerLimit:
    case Kind::kResetPowerLimit:
      return Control::kPowerLimit;
    case Kind::kPersistenceMode:
      break;
  }
  return Control::kPersistenceMode;
}

std::string list_of(const std::vector<int>& gpus) {
  std::string text = gpus.size() == 1 ? "GPU" : "GPUs";
  for (const int gpu : gpus) text += (gpu == gpus.front() ? " " : ", ") + std::to_string(gpu);
  return text;
}

const char* name_of(ClockDomain domain) {
  return domain == ClockDomain::kGraphics ? "graphics" : "memory";
}

std::string text_of(Watts power) {
  return shortest(power.value, 3) + " W";
}

std::string text_of(Megahertz clock) {
  return std::to_string(clock.value) + " MHz";
}

std::string text_of(ClockRange range) {
  if (range.lowest == range.highest) return text_of(range.lowest);
  return std::to_string(range.lowest.value) + " to " + text_of(range.highest);
}

std::string text_of(const ClockLock& lock) {
  return lock.range ? text_of(*lock.range) : "not locked";
}

std::string text_of(const Setting& setting) {
  using Kind = Setting::Kind;
  const std::string domain = name_of(setting.domain);
  switch (setting.kind) {
    case Kind::kLockClocks:
      return domain + " clocks " + text_of(setting.clocks);
    case Kind::kResetClocks:
      return domain + " clocks as before";
    case Kind::kPowerLimit:
      return "power limit " + text_of(setting.limit);
    case Kind::kResetPowerLimit:
      return "power limit as before";
    case Kind::kPersistenceMode:
      return std::string("persistence mode ") + (setting.enabled ? "on" : "off");
  }
  return "";
}

}  // namespace harpe::node
