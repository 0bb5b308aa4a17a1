#pragma once
/// \file
/// Random profiles and pipelines, for tests of frontiers.

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/frontier/verify.h"

namespace harpe::plan {

class Random {
 public:
  explicit Random(unsigned seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<unsigned>(n)); }
  double between(double low, double high) {
    return low + (high - low) * static_cast<double>(engine_()) / 4294967296.0;
  }

 private:
  std::mt19937 engine_;
};

// Returns a random profile, which may have dominated points, ties and single clocks.
inline Profile random_profile(Random& random, int stages, int chunks, int clocks, bool split,
                              double unit = 1) {
  std::vector<InstructionProfile> entries;
  for (int stage = 0; stage < stages; ++stage) {
    for (int chunk = 0; chunk < chunks; ++chunk) {
      std::vector<InstructionKind> kinds{InstructionKind::kForward, InstructionKind::kBackward};
      if (split) kinds.push_back(InstructionKind::kWeight);
      for (const InstructionKind kind : kinds) {
        InstructionProfile entry{.stage = stage, .chunk = chunk, .kind = kind, .points = {}};
        const int count = 1 + random.below(clocks);
        for (int k = 0; k < count; ++k) {
          // Not whole nanoseconds, but no two times so close that a nanosecond matters.
          const Seconds time{1e-3 * (5 + random.below(45)) + 1e-9 / 3};
          entry.points.push_back(
              {Megahertz{900 + 15 * k}, time, Joules{unit * random.between(2, 12)}});
        }
        entries.push_back(std::move(entry));
      }
    }
  }
  return Profile(std::move(entries), chunks > 1);
}

struct Case {
  const char* schedule;
  int stages, micro_batches, chunks;
  bool split;
};
/// Returns the number of random cases to try: under sanitizers, which are ten times as slow, a
/// third of `most`, rounded up.
constexpr unsigned seeds(unsigned most) {
  return HARPE_UNDER_SANITIZERS ? (most + 2) / 3 : most;
}

inline constexpr Case kCases[] = {
    {"1f1b", 2, 2, 1, false}, {"1f1b", 1, 1, 1, false},     {"gpipe", 3, 2, 1, false},
    {"zb-h1", 2, 3, 1, true}, {"zb-v", 2, 2, 2, true},      {"interleaved-1f1b", 2, 2, 2, false},
    {"1f1b", 4, 6, 1, false}, {"dualpipev", 2, 4, 2, true},
};

inline Pipeline random_pipeline(Random& random, const Case& c) {
  Result<Schedule> schedule = make_schedule(
      c.schedule, {.stages = c.stages, .micro_batches = c.micro_batches, .chunks = c.chunks});
  EXPECT_TRUE(schedule.ok());
  Transfers transfers;
  const int kind = random.below(3);
  if (kind > 0 && schedule->parts() > 1) {
    transfers.mode =
        kind == 2 && c.chunks == 1 ? Transfers::Mode::kRendezvous : Transfers::Mode::kOverlapped;
    for (int i = 0; i + 1 < schedule->parts(); ++i) {
      transfers.forward.push_back(Seconds{random.between(0, 0.004)});
      transfers.backward.push_back(Seconds{random.between(0, 0.004)});
    }
  }
  Result<Pipeline> pipeline = Pipeline::build(*schedule, transfers);
  EXPECT_TRUE(pipeline.ok()) << pipeline.error().text();
  return std::move(pipeline).value();
}

inline std::string diagnostics_of(const Verification& verification) {
  std::string text;
  for (const std::string& error : verification.diagnostics) text += error + "\n";
  return text;
}

}  // namespace harpe::plan
