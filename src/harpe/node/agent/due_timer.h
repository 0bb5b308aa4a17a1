#pragma once
/// \file
/// A timer on the system clock, which unlike a loop's timers runs while the machine is suspended.

#include <functional>
#include <memory>
#include <optional>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/net/http/server_loop.h"

namespace harpe::node {

/// Use it on its loop's thread or while the loop does not run; destroy it before the loop.
class DueTimer {
 public:
  /// \param when_due  called on the loop's thread
  static Result<DueTimer> open(net::ServerLoop& loop, std::function<void()> when_due);

  /// Sets the time of the next call, which replaces the time set before; nullopt for no call.
  void set(std::optional<Instant> due);

 private:
  DueTimer(UniqueFd timer, std::shared_ptr<void> watch)
      : timer_(std::move(timer)), watch_(std::move(watch)) {}

  UniqueFd timer_;
  std::shared_ptr<void> watch_;
};

}  // namespace harpe::node
