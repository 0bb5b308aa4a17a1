#pragma once
/// \file
/// How much slower, or faster, each group of ranks is than predicted, and why.
///
/// Input, an iteration at a time: how long the computations of each group (a stage of one pipeline;
/// its tensor shards run in lock-step) took, over what the profile predicts at the clocks they ran
/// at. Waiting is not in it: a rank that waits for a slow one is not slow itself. The prediction is
/// the yardstick, however few the pipelines are.
///
/// A group's *factor* is 1 until its times show something else, and then follows them. It changes
/// when the median of the newest 3 iterations, or of the newest 8, is off by more than `least` and
/// more than 3.7, respectively 2.4, robust standard deviations of single iterations (5.5 standard
/// errors of those medians where iterations vary independently), with the iterations on one side.
/// For one that falls again 2 iterations suffice; where lateness is random, 3 do not. Single late
/// iterations, however late, change nothing.
///
/// From the factors of the groups:
///
///   structural  a stage is off on (nearly) all pipelines: the profile is not true any more, or
///               never was; that is intrinsic, and for a new profile and plan
///   worker      a group is slower than its stage: a bad chip, a throttling GPU, a neighbour
///   random      some group is late in nearly all iterations, but each time another: sequence
///               lengths, garbage collection. No plan for one straggler helps
///
/// Reports that are missing (NaN) say nothing: they count neither for nor against.
///
/// Not thread-safe. `add` is O(groups), without allocation unless a factor changes.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "harpe/training/wire/job_shape.h"

namespace harpe::training {

/// A group that is slow time after time.
struct SlowWorker {
  int pipeline = 0;
  int stage = 0;
  double factor = 1;       ///< over its stage
  std::int64_t since = 0;  ///< the first iteration of the spell
};

/// A stage that takes longer, or (factor below 1) less long, than predicted on all pipelines.
struct SlowStage {
  int stage = 0;
  double factor = 1;  ///< over the prediction
  std::int64_t since = 0;
};

/// Lateness that moves from group to group.
struct RandomLateness {
  double median = 1;  ///< of the latest group of each iteration, over its own factor
  double most = 1;
  int groups = 0;  ///< that were late at least once in the window
};

class StragglerDetector {
 public:
  struct Options {
    double least = 0.02;            ///< change of a factor that counts
    double least_deviation = 2e-3;  ///< of single iterations, relative
    int window = 10;                ///< iterations that tell random lateness
    int needed = 8;                 ///< late ones among them
    double late = 0.03;             ///< above its factor, at least, where lateness is random
  };

  explicit StragglerDetector(JobShape shape, Options options);
  explicit StragglerDetector(JobShape shape) : StragglerDetector(shape, Options()) {}

  /// \param relative  compute time over prediction of each group (`JobShape::group`), NaN where
  ///                  nothing was reported. Iterations come in rising order; one that does not is
  ///                  ignored.
  /// \returns  whether a factor has changed
  bool add(std::int64_t iteration, std::span<const float> relative);

  /// What the group takes over its prediction; 1 where nothing else is known.
  double factor(std::size_t group) const { return series_.empty() ? 1 : series_[group].factor; }
  /// Iterations since the factor changed, or since `measure_anew`, that it was measured in, up
  /// to 8.
  int known(std::size_t group) const { return series_.empty() ? 0 : series_[group].held; }
  /// The median of those; the factor where there are none. Finer than the factor.
  double measured(std::size_t group) const;

  /// Robust relative standard deviation of a single iteration, of all groups, by what iterations
  /// differ by from those up to 8 before.
  double deviation() const { return std::max(deviation_, options_.least_deviation); }

  /// Worst first.
  std::span<const SlowWorker> workers() const { return workers_; }
  std::span<const SlowStage> stages() const { return stages_; }
  const std::optional<RandomLateness>& random() const { return random_; }

  /// Predictions of a stage are `by` times what they were.
  void rescale(int stage, double by);
  /// The group keeps its factor, which is to be measured anew.
  void measure_anew(std::size_t group) {
    if (!series_.empty()) series_[group].held = series_[group].next = 0;
  }
  /// The group's factor is this, until its times show something else.
  void assume(std::size_t group, double factor);
  /// Iterations are counted anew; what is known of the groups stays.
  void counted_anew() { newest_ = -1; }
  /// Forgets everything, such as after a new profile.
  void reset();

 private:
  static constexpr int kHistory = 8;
  /// The newest iterations of a group since its factor changed.
  struct Series {
    std::array<float, kHistory> newest{};
    std::uint8_t next = 0, held = 0;
    double factor = 1;
    std::int64_t since = -1;  ///< of the first iteration of the spell
    std::array<std::int64_t, kHistory> at{};
  };

  /// Takes memory for groups when something is known of the first: many may be declared, and none
  /// of them report.
  void make_series();
  bool judge(Series& series) const;
  bool moved(const Series& series, int count, double bound, double& level) const;
  void learn_deviation(std::span<const float> relative);
  void find_slow();
  void find_random();

  JobShape shape_;
  Options options_;
  std::int64_t newest_ = -1;
  std::vector<Series> series_;  ///< empty: nothing is known of any group
  std::vector<float> scratch_;
  double deviation_ = 0;
  int learned_ = 0;            ///< iterations that it was learned from
  std::vector<float> latest_;  ///< ring: over its factor, the latest group of each iteration
  std::vector<std::int32_t> latest_group_;
  int iterations_ = 0;
  std::vector<SlowWorker> workers_;
  std::vector<SlowStage> stages_;
  std::optional<RandomLateness> random_;
};

}  // namespace harpe::training
