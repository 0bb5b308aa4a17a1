#pragma once
/// \file
/// Whether iterations keep the promise of the job's objective.
///
/// Each iteration's time goes in over what the objective allows it, which follows from what the
/// same machines take at all-max. The promise is broken when the mean over the newest 8, 16, 32, 64
/// or 100 iterations is more than `tolerance` and more than some standard errors above 1; those
/// follow from their deviation and from that of the whole window, since 8 say little of it. Single
/// iterations of more than `stall` times what is allowed (checkpoints, collectives that hang) are
/// counted apart, and of the others the longest tenth is left out: what happens as seldom is no
/// plan's doing.
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

  /// Iterations come in rising order. \returns  whether this one was a stall
  bool add(std::int64_t iteration, Seconds time, Seconds allowed);
  /// Of time over allowed.
  struct Mean {
    double ratio = 1;
    double error = 0;  ///< standard error
    std::size_t iterations = 0;
  };
  /// The newest iterations that take longer than allowed, where that is certain.
  /// \param allowed_error  relative standard error of what is allowed
  /// \param errors         standard errors that make it certain
  std::optional<Mean> broken(double allowed_error, double errors = kErrors) const;
  /// It is asked at each iteration, so that 3 would be exceeded by chance once in some hundred.
  static constexpr double kErrors = 4;
  /// Of the newest iterations, at most `most`; none without any.
  std::optional<Mean> mean(std::size_t most) const;

  std::size_t iterations() const { return ratios_.size(); }
  std::int64_t stalls() const { return stalls_; }
  /// Forgets iterations from this one on, whose cause is known and answered.
  void forget_since(std::int64_t iteration);
  /// Begins anew; stalls go on being counted.
  void reset() { ratios_.clear(); }

 private:
  /// Of the newest iterations without the longest tenth, by rising value.
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
