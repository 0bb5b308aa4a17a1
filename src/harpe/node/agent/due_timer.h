#pragma once
/// \file
/// One point in time at which something is due: of the system's clock, which goes on while the
/// machine is suspended, as the timers of a loop do not.

#include <functional>
#include <memory>
#include <optional>

#include "harpe/base/clock.h"
#include "harpe/base/result.h"
#include "harpe/base/unique_fd.h"
#include "harpe/net/http/server_loop.h"

namespace harpe::node {

/// Used on its loop's thread, or while that does not run; ends before the loop does.
class DueTimer {
 public:
  /// \param when_due  called on the loop's thread
  static Result<DueTimer> open(net::ServerLoop& loop, std::function<void()> when_due);

  /// Once, in place of what was set before; nothing: not any more.
  void set(std::optional<Instant> due);

 private:
  DueTimer(UniqueFd timer, std::shared_ptr<void> watch)
      : timer_(std::move(timer)), watch_(std::move(watch)) {}

  UniqueFd timer_;
  std::shared_ptr<void> watch_;
};

}  // namespace harpe::node
