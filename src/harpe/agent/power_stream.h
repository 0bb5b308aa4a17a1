#pragma once
/// \file
/// Power as it changes, to any number of clients, as server-sent events. Devices are polled only
/// while somebody listens, once for all listeners.

#include <memory>
#include <vector>

#include "harpe/agent/controller.h"
#include "harpe/http/http_message.h"
#include "harpe/http/server_loop.h"

namespace harpe {

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

  /// Lives on the thread of `loop`.
  PowerStream(Controller& controller, ServerLoop& loop, Clock& clock);
  ~PowerStream();
  /// Listens no more; before the controller goes.
  void close();
  PowerStream(const PowerStream&) = delete;
  PowerStream& operator=(const PowerStream&) = delete;

  /// A body that begins with the present value of each GPU and goes on with each change; a comment
  /// `: hb` every two seconds without one. The caller has checked that the peer may read them.
  std::shared_ptr<EventStream> gpus(std::vector<int> gpus, Format format);
  /// The same for CPUs (zeusd's format). \param peer  in whose name they are read
  std::shared_ptr<EventStream> cpus(std::vector<int> cpus, const Peer& peer);

  std::size_t listeners() const;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace harpe
