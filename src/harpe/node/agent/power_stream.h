#pragma once
/// \file
/// Power as it changes, as server-sent events. Devices are polled only while there are listeners,
/// once for all of them, and each event is written once for all who hear it.
///
/// What it costs is bounded: listeners are sent to in rounds, no more often than every 50 ms and
/// `kMostSends` times a second over all of them, so a thousand listeners hear of each change within
/// 100 ms. There are at most `kMostListeners`, of one client at most `kMostOfClient`, and
/// `kForRoot` more for root.

#include <memory>
#include <string>
#include <vector>

#include "harpe/net/http/http_message.h"
#include "harpe/net/http/server_loop.h"
#include "harpe/node/agent/controller.h"

namespace harpe::node {

/// Milliseconds since 1970 of an instant.
std::int64_t unix_milliseconds(Instant instant, Clock& clock);

class PowerStream {
 public:
  /// How events are written.
  enum class Format : unsigned char {
    kZeusd,   ///< zeusd's: only power, in milliwatts
    kNative,  ///< all readings of a GPU
  };
  static constexpr Seconds kHeartbeat{2};
  static constexpr Seconds kCpuPoll{0.1};
  static constexpr Seconds kRound{0.05};
  static constexpr double kMostSends = 10'000;  ///< a second
  static constexpr std::size_t kMostListeners = 4096, kMostOfClient = 1024, kForRoot = 64;

  /// Lives on the thread of `loop`.
  PowerStream(Controller& controller, net::ServerLoop& loop, Clock& clock);
  ~PowerStream();
  /// Listens no more; before the controller goes.
  void close();
  PowerStream(const PowerStream&) = delete;
  PowerStream& operator=(const PowerStream&) = delete;

  /// A body that begins with the present value of each GPU and goes on with each change; a comment
  /// `: hb` every two seconds without one. The caller has checked that the peer may read them.
  /// `kUnavailable` where there are too many; `request.client` is by what they are counted.
  Result<std::shared_ptr<net::EventStream>> gpus(std::vector<int> gpus, Format format,
                                                 const net::HttpRequest& request);
  /// The same for CPUs (zeusd's format), in the name of the first who asks.
  Result<std::shared_ptr<net::EventStream>> cpus(std::vector<int> cpus,
                                                 const net::HttpRequest& request);

  std::size_t listeners() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace harpe::node
