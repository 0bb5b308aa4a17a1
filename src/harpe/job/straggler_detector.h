#pragma once
/// \file
/// Finds what slows a job down, and tells causes apart, from the ranks' own compute times.
///
/// Input, an iteration at a time: how long the computations of each group (a stage of one pipeline;
/// its tensor shards run in lock-step) took, over what its plan predicts. Waiting is not in it: a
/// rank that waits for a slow one is not slow itself.
///
/// A group is *late* in an iteration when it lies more than `score` robust standard deviations
/// (1.4826 MAD over the pipelines, floored) and more than `ratio` above the middle of its stage
/// over all pipelines (below three pipelines: above its prediction). From the last `window`
/// iterations:
///
///   worker      one group is late in nearly all: a bad chip, a throttling GPU, a noisy neighbour
///   structural  the middle of a stage is above its prediction in nearly all: the profile is not
///               true any more, or never was; that is intrinsic, and for a new profile and plan
///   random      some group is above `ratio` in nearly all, but none stands out time after time:
///               sequence lengths, garbage collection. No plan for one straggler helps
///
/// A worker has healed when it was not late in `healed` iterations in a row; a stage likewise.
/// Reports that are missing (NaN) say nothing: they count neither for nor against.
///
/// Not thread-safe. `add` is O(groups), without allocation.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harpe/job/shape.h"

namespace harpe {

/// A group that is slow time after time.
struct SlowWorker {
  int pipeline = 0;
  int stage = 0;
  double factor = 1;       ///< median over its late iterations, relative to its stage's middle
  std::int64_t since = 0;  ///< the first iteration of the spell
};

/// A stage that takes longer than predicted on all pipelines.
struct SlowStage {
  int stage = 0;
  double factor = 1;  ///< median of the stage's middle, relative to the prediction
  std::int64_t since = 0;
};

/// Lateness that moves from group to group.
struct RandomLateness {
  double median = 1;  ///< of the latest group of each iteration, relative to its stage's middle
  double most = 1;
  int groups = 0;  ///< that were late at least once in the window
};

class StragglerDetector {
 public:
  struct Options {
    int window = 10;  ///< iterations, at most 32
    int needed = 8;   ///< late ones among them
    int healed = 2;   ///< iterations without lateness that end a spell
    double score = 4;
    double ratio = 1.05;
    double least_deviation = 0.01;
  };

  explicit StragglerDetector(JobShape shape, Options options);
  explicit StragglerDetector(JobShape shape) : StragglerDetector(shape, Options()) {}

  /// \param relative  compute time over prediction of each group (`JobShape::group`), NaN where
  ///                  nothing was reported. Iterations come in rising order; one that does not is
  ///                  ignored.
  void add(std::int64_t iteration, std::span<const float> relative);

  /// Worst first.
  std::span<const SlowWorker> workers() const { return workers_; }
  std::span<const SlowStage> stages() const { return stages_; }
  const std::optional<RandomLateness>& random() const { return random_; }

  /// Forgets lateness, such as after a new profile.
  void reset();

 private:
  /// The last iterations of one series as bits, the newest lowest.
  struct Spell {
    std::uint32_t late = 0, known = 0;
    std::int64_t since = -1;         ///< first late iteration of the current spell
    bool standing = false;           ///< counted as slow
    std::array<float, 8> factors{};  ///< of the newest late iterations
    std::uint8_t next = 0, held = 0;
  };

  void judge(Spell& spell, std::int64_t iteration, float factor, bool late) const;
  void compare(std::int64_t iteration, std::span<const float> relative);
  double deviation();
  static double middle_factor(const Spell& spell);
  void find_workers();
  void find_random();

  JobShape shape_;
  Options options_;
  std::int64_t newest_ = -1;
  std::vector<Spell> groups_;
  std::vector<Spell> of_stages_;
  std::vector<float> factors_, scratch_;
  double deviation_ = 0;
  std::vector<float> latest_;  ///< ring: factor of the latest group of each iteration
  std::vector<std::int32_t> latest_group_;
  int iterations_ = 0;
  std::vector<SlowWorker> workers_;
  std::vector<SlowStage> stages_;
  std::optional<RandomLateness> random_;
};

}  // namespace harpe
