#include "harpe/plan/frontier/late_settings.h"

#include <algorithm>

namespace harpe::plan {

void LateSettings::ask(int setting, Seconds latency) {
  if (setting == setting_) return;
  for (Old& old : old_) old.left = std::min(old.left, latency.value);
  old_.push_back({setting_, latency.value});
  setting_ = setting;
  std::erase_if(old_, [&](const Old& old) { return old.setting == setting || old.left <= 0; });
}

void LateSettings::pass(Seconds time) {
  for (Old& old : old_) old.left -= time.value;
  std::erase_if(old_, [](const Old& old) { return old.left <= 0; });
}

double most_more(const AtOldSetting& old) {
  return std::max(0.0, std::min(1.0, old.left / old.time) * old.more);
}

double most_more(std::span<AtOldSetting> old) {
  std::ranges::sort(old, [](const AtOldSetting& a, const AtOldSetting& b) {
    return a.more * b.time > b.more * a.time;
  });
  double sum = 0, covered = 0, most = 0;
  for (const AtOldSetting& one : old) {
    most = std::max(most, one.more);
    if (one.more <= 0 || one.left <= covered) continue;
    sum += (one.left - covered) / one.time * one.more;
    covered = one.left;
  }
  return std::min(sum, most);
}

}  // namespace harpe::plan
