#pragma once
/// \file
/// The board on which training finds a requested pause and waits until it is over.
///
/// A pause continues while its server is down; otherwise all ranks would wake when the server
/// restarts. While the rank is without a server, a pause ends at its stated end, or `kAlone` after
/// the server was lost if it has none.
///
/// Thread-safe. Training checks once an iteration, with one lock that is held for microseconds.

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

  // For the reporter.
  void take(const std::vector<StageAssignment>& assignments);
  /// Forgets all assignments, because the job has another life.
  void forget();
  /// Notes that the rank is, or is not, governed by a server.
  void governed(bool is_governed);
  /// Returns the pause in which training waits, or waited until `wait` timed out; 0 if none.
  std::uint64_t waiting() const;
  /// Returns the newest iteration that training has begun or can begin without a pause; -1 if none.
  /// Its checks before later iterations use all assignments taken until now, or it waits already.
  std::int64_t reached() const;

  // For training.
  std::optional<PauseRequest> before(std::int64_t iteration);
  /// Waits in the pause that `before` returned last. \returns true if it is over, false if `most`
  /// has elapsed first
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
  std::optional<PauseRequest> asked_ HARPE_GUARDED_BY(mutex_);  ///< of `before`, until it is over
  std::int64_t iteration_ HARPE_GUARDED_BY(mutex_) = -1;        ///< last argument of `before`
  std::uint64_t waiting_ HARPE_GUARDED_BY(mutex_) = 0;
};

}  // namespace harpe::training
