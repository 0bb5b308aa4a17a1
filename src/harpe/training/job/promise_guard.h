#pragma once
/// \file
/// A test that iterations keep the promise of the job's objective.
///
/// Its input is the ratio of each iteration's time to the time that the objective allows, which
/// follows from the time of the same machines at all-max. The promise is broken if the mean ratio
/// of the newest 8, 16, 32, 64 or 100 iterations is above 1 by more than `tolerance` and by more
/// than some standard errors. These use the larger of the deviations of those iterations and of the
/// whole window, because 8 iterations alone give a poor estimate. Iterations of more than `stall`
/// times the allowed time (checkpoints, hanging collectives) are only counted. The longest tenth of
/// the others is left out, because plans do not cause events that are so rare.
///
/// Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "harpe/base/units.h"

namespace harpe::training {

class PromiseGuard {
 public:
  struct Options {
    std::size_t window = 100;
    double tolerance = 0.005;
    double stall = 1.5;
  };
  explicit PromiseGuard(Options options) : options_(options) {}
  PromiseGuard() : PromiseGuard(Options()) {}

  /// Adds an iteration; their numbers must rise. \returns  true if it was a stall
  bool add(std::int64_t iteration, Seconds time, Seconds allowed);
  /// Mean ratio of time to allowed time.
  struct Mean {
    double ratio = 1;
    double error = 0;  ///< standard error
    std::size_t iterations = 0;
  };
  /// Returns the mean of the newest iterations; nullopt unless they are certain to take too long.
  /// \param allowed_error  relative standard error of the allowed time
  /// \param errors         standard errors that make it certain
  std::optional<Mean> broken(double allowed_error, double errors = kErrors) const;
  /// `broken` runs at each iteration: 3 would be exceeded by chance in one of some hundred.
  static constexpr double kErrors = 4;
  /// Returns the mean of the newest iterations, at most `most`; nullopt if there are none.
  std::optional<Mean> mean(std::size_t most) const;

  std::size_t iterations() const { return ratios_.size(); }
  std::int64_t stalls() const { return stalls_; }
  /// Forgets the iterations from this one on, because their cause was found and handled.
  void forget_since(std::int64_t iteration);
  /// Forgets all iterations, except the count of stalls.
  void reset() { ratios_.clear(); }

 private:
  /// Returns the sorted ratios of the newest iterations without the longest tenth.
  std::vector<double> usual(std::size_t newest) const;

  struct Ratio {
    std::int64_t iteration = 0;
    double ratio = 1;
  };
  Options options_;
  std::deque<Ratio> ratios_;
  std::int64_t stalls_ = 0;
};

}  // namespace harpe::training
