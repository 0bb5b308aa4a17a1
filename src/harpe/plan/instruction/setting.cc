#include "harpe/plan/instruction/setting.h"

#include <algorithm>
#include <utility>

#include "harpe/base/check.h"
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

LatencyByClock::LatencyByClock(std::vector<Entry> entries) : entries_(std::move(entries)) {
  HARPE_CHECK(!entries_.empty(), "a latency holds for some clock");
  std::ranges::sort(entries_, {}, &Entry::clock);
}

LatencyByClock::Neighbours LatencyByClock::neighbours(Megahertz clock) const {
  const auto above = std::ranges::lower_bound(entries_, clock, {}, &Entry::clock);
  if (above == entries_.end()) return {entries_.back(), entries_.back()};
  if (above == entries_.begin() || above->clock == clock) return {*above, *above};
  return {*(above - 1), *above};
}

Seconds LatencyByClock::to(Megahertz clock) const {
  const auto [below, above] = neighbours(clock);
  return std::max(below.latency, above.latency);
}

Seconds LatencyByClock::least_to(Megahertz clock) const {
  const auto [below, above] = neighbours(clock);
  // A long latency to one clock can be that of a single GPU, or from a single clock.
  const Seconds unknown = shortest();
  return std::min(below.least.value_or(unknown), above.least.value_or(unknown));
}

LatencyByClock LatencyByClock::at_least(Seconds least) const {
  LatencyByClock later = *this;
  for (Entry& entry : later.entries_) entry.latency = std::max(entry.latency, least);
  return later;
}

LatencyByClock LatencyByClock::at_most() const {
  LatencyByClock most = *this;
  for (Entry& entry : most.entries_) entry.least.reset();
  return most;
}

Seconds LatencyByClock::longest() const {
  return std::ranges::max(entries_, {}, &Entry::latency).latency;
}

Seconds LatencyByClock::shortest() const {
  return std::ranges::min(entries_, {}, &Entry::latency).latency;
}

std::string text_of(const LatencyByClock& latency) {
  const Seconds least = latency.shortest(), most = latency.longest();
  const std::string text = shortest(most.value) + " s";
  return least == most ? text : shortest(least.value) + " to " + text;
}

}  // namespace harpe
