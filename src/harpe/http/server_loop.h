#pragma once
/// \file
/// The one thread of a server's transport: network, timers and signals take turns on it.

#include <functional>
#include <memory>
#include <vector>

#include "harpe/base/loop.h"

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming)
}

namespace harpe {

/// Everything runs on the thread that calls `run`; `post` and `stop` may be called from any.
class ServerLoop final : public Loop {
 public:
  ServerLoop();
  ~ServerLoop() override;
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;

  void post(std::function<void()> work) override;
  void after(Seconds delay, std::function<void()> work) override;
  /// Again and again until the loop ends.
  void every(Seconds period, std::function<void()> work);
  /// Each time one of these signals comes.
  void on_signals(const std::vector<int>& signals, std::function<void(int)> work);
  /// Returns after `stop`.
  void run();
  void stop();

  boost::asio::io_context& context();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harpe
