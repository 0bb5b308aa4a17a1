// Reads a profile of power limits and chooses from it as Harpe does, for tests against Zeus's own
// choices. Usage: limit_profile_choice PROFILE.json GPUS AGAIN.json. Prints "SELECTOR PARAMETER
// WATTS" per line, and writes the profile with Harpe's additions.

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <vector>

#include "harpe/base/file.h"
#include "harpe/zeus/power_limit/limit_profile.h"
#include "harpe/zeus/power_limit/selector.h"

namespace {

using harpe::zeus::Selector;

int fail(const harpe::Error& error) {
  std::fprintf(stderr, "%s\n", error.text().c_str());
  return 1;
}

std::vector<std::pair<const char*, Selector>> selectors(int gpus) {
  std::vector<std::pair<const char*, Selector>> all{{"energy", {.kind = Selector::Kind::kEnergy}},
                                                    {"time", {.kind = Selector::Kind::kTime}}};
  for (const double eta : {0.0, 0.25, 0.5, 0.75, 1.0}) {
    all.emplace_back("cost", Selector{.eta = eta, .gpus = gpus});
  }
  for (const double slowdown : {1.0, 1.1, 1.5}) {
    all.emplace_back("slowdown",
                     Selector{.kind = Selector::Kind::kMaxSlowdown, .slowdown = slowdown});
  }
  return all;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 4) return 2;
  const auto text = harpe::read_file(arguments[1]);
  if (!text.ok()) return fail(text.error());
  auto profile = harpe::zeus::parse_limit_profile(*text, arguments[1]);
  if (!profile.ok()) return fail(profile.error());
  for (const auto& [name, selector] : selectors(std::atoi(arguments[2]))) {
    const auto choice = harpe::zeus::choose(profile->measurements, selector);
    if (!choice.ok()) return fail(choice.error());
    const double parameter =
        selector.kind == Selector::Kind::kMaxSlowdown ? selector.slowdown : selector.eta;
    std::printf("%s %g %g\n", name, parameter, profile->measurements[*choice].setting);
  }
  profile->key = harpe::zeus::ProfileKey{"NVIDIA A40", 256, "resnet50"};
  profile->measured_at = 1.7e9;
  const auto written = harpe::write_file(arguments[3], harpe::zeus::limit_profile_json(*profile));
  return written.ok() ? 0 : fail(written.error());
}
