#include "harpe/instruction/setting.h"

#include <utility>

#include "harpe/base/text.h"

namespace harpe {

std::string text_of(const Knobs& knobs) {
  std::string text;
  const char* separator = "";
  const auto add = [&](const std::string& part) { text += std::exchange(separator, ", ") + part; };
  if (knobs.memory_clock != Megahertz{0}) {
    add("memory " + std::to_string(knobs.memory_clock.value) + " MHz");
  }
  if (knobs.power_limit != Watts{0}) add(shortest(knobs.power_limit.value) + " W");
  if (!knobs.label.empty()) add(std::string(knobs.label.text()));
  return text;
}

std::string text_of(const InstructionSetting& setting) {
  const std::string clock = std::to_string(setting.clock.value) + " MHz";
  return setting.knobs.empty() ? clock : clock + ", " + text_of(setting.knobs);
}

}  // namespace harpe
