#pragma once
/// \file
/// Inputs of the benchmarks: the measured GPT-3 profile if it is available, otherwise a synthetic
/// profile, stretched to any number of stages.

#include <cstdio>
#include <ctime>
#include <filesystem>
#include <string>

#include "harpe/base/source_tree_testing.h"
#include "harpe/plan/profile/profile.h"
#include "harpe/plan/profile/synth.h"

namespace harpe::bench {

inline std::filesystem::path measured_profile(const std::string& model) {
  return measured_data() / "sosp24/emulation" / (model + "_a100-sxm.csv");
}

/// Returns the measured profile of 8 stages, or a synthetic one, and prints which.
inline Profile base_profile(const std::string& model) {
  const auto path = measured_profile(model);
  if (std::filesystem::exists(path)) {
    std::printf("profile: %s, measured\n", path.filename().c_str());
    return read_profile(path).value();
  }
  std::printf("profile: synthetic A100 SXM (no measured one found; set HARPE_SHARED)\n");
  return synthesize({}).value();
}

/// Returns the profile stretched to any number of stages: the last stage stays last, the others
/// repeat. With `unequal`, stage s takes 0 to 4 % more time and energy, so that no two neighbours
/// are equal.
inline Profile stretched(const Profile& profile, int stages, bool unequal) {
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < stages; ++stage) {
    const int like = stage == stages - 1 ? profile.stages() - 1 : stage % (profile.stages() - 1);
    const double factor = unequal ? 1 + 0.004 * ((stage * 7) % 11) : 1.0;
    for (const InstructionProfile& entry : profile.entries()) {
      if (entry.stage != like) continue;
      InstructionProfile copy = entry;
      copy.stage = stage;
      for (OperatingPoint& point : copy.points) {
        point.time = point.time * factor;
        point.energy = point.energy * factor;
      }
      entries.push_back(std::move(copy));
    }
  }
  return profile.with_entries(std::move(entries));
}

/// CPU time of this process. All its work is on one thread, so other load on the machine has little
/// effect.
class Stopwatch {
 public:
  double seconds() const { return static_cast<double>(std::clock() - start_) / CLOCKS_PER_SEC; }

 private:
  std::clock_t start_ = std::clock();
};

}  // namespace harpe::bench
