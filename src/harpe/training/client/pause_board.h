#pragma once
/// \file
/// Where training looks whether it is asked to pause, and waits until it is to go on.
///
/// A pause outlives its server, or all would wake when that starts again. Without any, for as long
/// as ranks hear of none, it ends when it was to end; one without an end after `kAlone`.
///
/// Thread-safe. Training looks once an iteration: one lock that is held for microseconds.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "harpe/base/clock.h"
#include "harpe/base/mutex.h"
#include "harpe/training/wire/pause_book.h"

namespace harpe::training {

class PauseBoard {
 public:
  static constexpr Seconds kAlone{600};

  /// \param wall  seconds since 1970
  PauseBoard(Clock& clock, std::function<Seconds()> wall)
      : clock_(clock), wall_(std::move(wall)), alone_since_(clock.now()) {}

  // By the reporter.
  void take(const std::vector<StageAssignment>& assignments);
  /// The job is another one.
  void forget();
  /// Whether a server is heard of.
  void governed(bool is_governed);
  /// The pause in which training waits, or waited last where it may wait on; 0: it does not.
  std::uint64_t waiting() const;
  /// The newest iteration that training goes through, or has, without a pause before it; -1: none.
  /// Before a later one it looks by all that was taken until now, or waits.
  std::int64_t reached() const;

  // By training.
  std::optional<PauseRequest> before(std::int64_t iteration);
  /// Follows what `before` said last. \returns whether it is over, false where `most` came first
  bool wait(Seconds most);

 private:
  bool is_over(const PauseRequest& pause) const HARPE_REQUIRES(mutex_);

  Clock& clock_;
  const std::function<Seconds()> wall_;
  mutable Mutex mutex_;
  CondVar changed_;
  PauseBook book_ HARPE_GUARDED_BY(mutex_);
  bool governed_ HARPE_GUARDED_BY(mutex_) = false;
  Instant alone_since_ HARPE_GUARDED_BY(mutex_);
  std::optional<PauseRequest> asked_ HARPE_GUARDED_BY(mutex_);  ///< by `before`
  std::int64_t iteration_ HARPE_GUARDED_BY(mutex_) = -1;        ///< before which it was
  std::uint64_t waiting_ HARPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace harpe::training
