#pragma once
/// \file
/// The one thread of a server's transport: network, descriptors, timers and signals take turns on
/// it.

#include <functional>
#include <memory>
#include <vector>

#include "harpe/base/loop.h"
#include "harpe/base/result.h"

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming)
}

namespace harpe::net {

/// Everything runs on the thread that calls `run`; `post` and `stop` may be called from any. Timers
/// do not count the time for which the machine was suspended.
class ServerLoop final : public Loop {
 public:
  ServerLoop();
  ~ServerLoop() override;
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;
  /// Whether the kernel gives what waiting takes.
  Status ready();

  void post(std::function<void()> work) override;
  void after(Seconds delay, std::function<void()> work) override;
  /// Again and again until the loop ends.
  void every(Seconds period, std::function<void()> work);
  /// Each time one of these signals comes.
  void on_signals(const std::vector<int>& signals, std::function<void(int)> work);
  /// Whenever something can be read from a descriptor, or it was hung up. It stays the caller's,
  /// and does not block from then on. Until the handle ends: before the loop and the descriptor do,
  /// on the loop's thread or while it does not run; `on_readable` itself may end it.
  [[nodiscard]] std::shared_ptr<void> watch(int descriptor, std::function<void()> on_readable);
  /// Returns after `stop`.
  void run();
  void stop();

  boost::asio::io_context& context();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harpe::net
