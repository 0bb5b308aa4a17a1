#pragma once
/// \file
/// The detection of groups of ranks that are slower, or faster, than predicted, and of the cause.
///
/// The input of each iteration is the computation time of each group (a stage of one pipeline; its
/// tensor shards run in lock-step) over the time that the profile predicts at its clocks. Waiting
/// is not included: a rank that waits for a slow one is not slow itself. Groups are compared with
/// the prediction, not with each other, so that any number of pipelines suffices.
///
/// The *factor* of a group is 1 until its times differ, and then follows them. It changes when the
/// median of the newest 3 iterations, or of the newest 8, differs from it by more than `least` and
/// by more than 3.7, respectively 2.4, robust standard deviations of single iterations (5.5
/// standard errors of those medians if iterations vary independently). All 3, or 6 of the 8, must
/// differ by half of that on the same side. 2 iterations suffice for a factor above 1 that falls; 3
/// do not while lateness is random. A single late iteration, no matter how late, changes nothing.
///
/// From the factors of the groups:
///
///   structural  a stage differs on (nearly) all pipelines: the profile is not true, or not any
///               more. The cause is in the stage itself; it needs a new profile and plan
///   worker      a group is slower than its stage: a bad chip, a throttling GPU, a neighbour
///   random      some group is late in nearly all iterations, but each time a different one:
///               sequence lengths, garbage collection. No plan for one straggler helps
///
/// Missing reports (NaN) are ignored.
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

/// A group that is repeatedly slow.
struct SlowWorker {
  int pipeline = 0;
  int stage = 0;
  double factor = 1;       ///< over its stage
  std::int64_t since = 0;  ///< first slow iteration
};

/// A stage that is slower, or (factor below 1) faster, than predicted on (nearly) all pipelines.
struct SlowStage {
  int stage = 0;
  double factor = 1;  ///< over the prediction
  std::int64_t since = 0;
};

/// Lateness that moves from group to group.
struct RandomLateness {
  double median = 1;  ///< of the latest group of each late iteration, over its own factor
  double most = 1;
  int groups = 0;  ///< groups that were the latest at least once in the window
};

class StragglerDetector {
 public:
  struct Options {
    double least = 0.02;            ///< least change of a factor that counts
    double least_deviation = 2e-3;  ///< of single iterations, relative
    int window = 10;                ///< newest iterations in which random lateness is detected
    int needed = 8;                 ///< least number of late ones among them
    double late = 0.03;             ///< least lateness of a group over its own factor
  };

  explicit StragglerDetector(JobShape shape, Options options);
  explicit StragglerDetector(JobShape shape) : StragglerDetector(shape, Options()) {}

  /// Adds an iteration. It is ignored if its number is not above all earlier ones.
  /// \param relative  compute time over prediction of each group (`JobShape::group`), NaN if not
  ///                  reported
  /// \returns  true if a factor has changed
  bool add(std::int64_t iteration, std::span<const float> relative);

  /// Returns the group's time over its prediction; 1 if nothing else is known.
  double factor(std::size_t group) const { return series_.empty() ? 1 : series_[group].factor; }
  /// Returns the number of iterations, up to 8, that measured the group since its factor changed or
  /// since `measure_anew`.
  int known(std::size_t group) const { return series_.empty() ? 0 : series_[group].held; }
  /// Returns the median of these iterations, which is finer than the factor, or else the factor.
  double measured(std::size_t group) const;

  /// Returns the robust relative standard deviation of single iterations over all groups, from
  /// their differences to iterations up to 8 earlier.
  double deviation() const { return std::max(deviation_, options_.least_deviation); }

  /// Returns the slow groups, the slowest first.
  std::span<const SlowWorker> workers() const { return workers_; }
  std::span<const SlowStage> stages() const { return stages_; }
  const std::optional<RandomLateness>& random() const { return random_; }

  /// Notes that the predictions of a stage were multiplied by `by`.
  void rescale(int stage, double by);
  /// Starts a new measurement of the group, which keeps its factor until then.
  void measure_anew(std::size_t group) {
    if (!series_.empty()) series_[group].held = series_[group].next = 0;
  }
  /// Sets the group's factor, which holds until its times differ.
  void assume(std::size_t group, double factor);
  /// Notes that iterations are counted from a lower number again. Keeps the factors.
  void counted_anew() { newest_ = -1; }
  /// Forgets everything except the deviation, such as after a new profile.
  void reset();

 private:
  static constexpr int kHistory = 8;
  /// The newest iterations of a group since its factor changed.
  struct Series {
    std::array<float, kHistory> newest{};
    std::uint8_t next = 0, held = 0;
    double factor = 1;
    std::int64_t since = -1;  ///< first iteration with this lateness; -1 if the factor is 1
    std::array<std::int64_t, kHistory> at{};
  };

  /// Allocates the series of all groups when the first one is needed, because a job may declare
  /// many groups that never report.
  void make_series();
  bool judge(Series& series) const;
  bool moved(const Series& series, int count, double bound, double& level) const;
  void learn_deviation(std::span<const float> relative);
  void find_slow();
  void find_random();

  JobShape shape_;
  Options options_;
  std::int64_t newest_ = -1;
  std::vector<Series> series_;  ///< empty before the first measurement or assumption
  std::vector<float> scratch_;
  double deviation_ = 0;
  int learned_ = 0;            ///< iterations from which `deviation_` was learned
  std::vector<float> latest_;  ///< ring: of each iteration, the latest group over its factor
  std::vector<std::int32_t> latest_group_;
  int iterations_ = 0;
  std::vector<SlowWorker> workers_;
  std::vector<SlowStage> stages_;
  std::optional<RandomLateness> random_;
};

}  // namespace harpe::training
