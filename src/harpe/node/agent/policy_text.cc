#include "harpe/node/agent/policy_text.h"

namespace harpe::node {
namespace {

template <class Range, class Text>
std::string joined(const std::vector<Range>& ranges, Text text) {
  if (ranges.empty()) return "none";
  std::string all;
  for (const Range& range : ranges) {
    if (!all.empty()) all += " or ";
    all += text(range);
  }
  return all;
}

std::string text_of_lock(const SavedLock& lock) {
  return lock.range ? text_of(*lock.range) : "not locked";
}

}  // namespace

std::string text_of(const std::vector<ClockRange>& ranges) {
  return joined(ranges, [](const ClockRange& range) { return text_of(range); });
}

std::string text_of(const std::vector<Allowance::WattRange>& ranges) {
  return joined(ranges, [](const Allowance::WattRange& range) {
    return text_of(range.lowest) + " to " + text_of(range.highest);
  });
}

std::string text_of(const SavedGpu& saved) {
  std::string all;
  const auto add = [&](const std::string& part) { all += (all.empty() ? "" : ", ") + part; };
  if (saved.graphics) add("graphics clocks " + text_of_lock(*saved.graphics));
  if (saved.memory) add("memory clocks " + text_of_lock(*saved.memory));
  if (saved.power_limit) add("power limit " + text_of(*saved.power_limit));
  if (saved.persistence_mode) {
    add(std::string("persistence mode ") + (*saved.persistence_mode ? "on" : "off"));
  }
  return all;
}

}  // namespace harpe::node
