#pragma once
/// \file
/// Streams of server-sent events with changes of power. Devices are polled only while there are
/// listeners. All listeners share one poll of a device and one text of an event.
///
/// The cost is bounded. Events are sent in rounds, at most one every 50 ms and at most `kMostSends`
/// sends per second in total, so a thousand listeners receive each change within 100 ms. At most
/// `kMostListeners` exist, at most `kMostOfClient` of one client, and `kForRoot` more for root.

#include <memory>
#include <string>
#include <vector>

#include "harpe/net/http/http_message.h"
#include "harpe/net/http/server_loop.h"
#include "harpe/node/agent/controller.h"

namespace harpe::node {

/// Returns an instant in milliseconds since 1970.
std::int64_t unix_milliseconds(Instant instant, Clock& clock);

class PowerStream {
 public:
  /// Formats of events.
  enum class Format : unsigned char {
    kZeusd,   ///< zeusd's format: only power, in milliwatts
    kNative,  ///< all readings of a GPU
  };
  static constexpr Seconds kHeartbeat{2};
  static constexpr Seconds kCpuPoll{0.1};
  static constexpr Seconds kRound{0.05};
  static constexpr double kMostSends = 10'000;  ///< sends per second
  static constexpr std::size_t kMostListeners = 4096, kMostOfClient = 1024, kForRoot = 64;

  /// Must be used on the thread of `loop`.
  PowerStream(Controller& controller, net::ServerLoop& loop, Clock& clock);
  ~PowerStream();
  /// Ends listening to the controller. Call before the controller is destroyed.
  void close();
  PowerStream(const PowerStream&) = delete;
  PowerStream& operator=(const PowerStream&) = delete;

  /// Returns a response body with the present value of each GPU, then each change, and a comment
  /// `: hb` every two seconds without a change. The caller must check that the peer may read the
  /// GPUs. Fails with `kUnavailable` on too many listeners in total or of `request.client`.
  Result<std::shared_ptr<net::EventStream>> gpus(std::vector<int> gpus, Format format,
                                                 const net::HttpRequest& request);
  /// Returns such a body for CPUs (zeusd's format). CPUs are read as the peer of the last request.
  Result<std::shared_ptr<net::EventStream>> cpus(std::vector<int> cpus,
                                                 const net::HttpRequest& request);

  std::size_t listeners() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace harpe::node
