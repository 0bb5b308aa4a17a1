#pragma once
/// \file
/// The single thread of a server's transport, which runs the work of the network, descriptors,
/// timers and signals in turn.

#include <functional>
#include <memory>
#include <vector>

#include "harpe/base/loop.h"
#include "harpe/base/result.h"

namespace boost::asio {
class io_context;  // NOLINT(readability-identifier-naming)
}

namespace harpe::net {

/// Everything runs on the thread that calls `run`; `post` and `stop` may be called from any thread.
/// Timers do not count the time during which the machine is suspended.
class ServerLoop final : public Loop {
 public:
  ServerLoop();
  ~ServerLoop() override;
  ServerLoop(const ServerLoop&) = delete;
  ServerLoop& operator=(const ServerLoop&) = delete;
  /// Fails if the kernel refuses the resources that the loop needs.
  Status ready();

  void post(std::function<void()> work) override;
  void after(Seconds delay, std::function<void()> work) override;
  /// Runs `work` periodically until the loop ends.
  void every(Seconds period, std::function<void()> work);
  /// Runs `work` each time one of these signals arrives.
  void on_signals(const std::vector<int>& signals, std::function<void(int)> work);
  /// Runs `on_readable` whenever a descriptor is readable or was hung up. The caller keeps the
  /// descriptor, which becomes non-blocking. Ends with the returned handle, which must end before
  /// the loop and the descriptor do, on the loop's thread or while the loop does not run;
  /// `on_readable` itself may end it.
  [[nodiscard]] std::shared_ptr<void> watch(int descriptor, std::function<void()> on_readable);
  /// Runs the loop until `stop`.
  void run();
  void stop();

  boost::asio::io_context& context();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace harpe::net
