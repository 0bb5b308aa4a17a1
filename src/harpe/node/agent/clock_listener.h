#pragma once
/// \file
/// The agent's end of the socket on which clients request clock channels (clock_channel.h). Runs on
/// a loop. Any process may send messages, so only the kernel's identity of the peer is trusted.

#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/net/http/server_loop.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/agent/policy.h"
#include "harpe/node/node_client/clock_slot.h"

namespace harpe::node {

/// A message of a client. Any other text fails with `kInvalidInput`.
struct ClockRequest {
  enum class Kind : unsigned char { kLease, kTake, kRenew, kSet };
  Kind kind = Kind::kLease;
  std::string lease;      ///< for kLease
  std::vector<int> gpus;  ///< for kTake; one GPU for kSet
  Seconds duration{0};    ///< for kTake, kRenew
  std::string name;       ///< for kTake; printable
  Setting setting;        ///< for kSet; a memory clock or a power limit
};
Result<ClockRequest> parse_clock_request(std::string_view text);

class ClockListener {
 public:
  /// Limits on open connections: in total, the part reserved for root, and per user (except root).
  /// Connections beyond them, and peers that the policy lets set no clocks, are refused with an
  /// error message. A connection without a lease after `kPatience` is closed.
  static constexpr std::size_t kMostConnections = 544, kForRoot = 32;
  static constexpr std::ptrdiff_t kMostOfOneUser = 64;
  static constexpr Seconds kPatience{10};

  /// The controller's operations on leases. The listener calls them on the loop's thread.
  struct Leases {
    std::function<bool(const net::Peer&)> may_set_clocks;
    std::function<Result<Lease>(const net::Peer&, const LeaseRequest&)> take;
    std::function<Result<Lease>(const net::Peer&, const std::string& lease, Seconds)> renew;
    std::function<Result<Lease>(const net::Peer&, const std::string& lease)> find;
    /// Returns a slot that the GPU's owner serves from now on.
    std::function<Result<std::shared_ptr<ClockSlot>>(const net::Peer&, const std::string& lease,
                                                     int gpu)>
        attach;
    std::function<void(const std::string& lease)> end;
    /// Applies a setting. Fails if the result differs from the requested setting.
    std::function<void(const net::Peer&, const std::string& lease, int gpu, const Setting&,
                       Done<Applied>)>
        apply;
  };

  /// Binds the path and registers with the loop. Replaces a socket on which no process listens.
  /// Fails with `kConflict` if a process listens on it, or if the path exists and is no socket.
  static Result<std::unique_ptr<ClockListener>> open(net::ServerLoop& loop,
                                                     const std::filesystem::path& path,
                                                     unsigned mode, Leases leases,
                                                     Seconds patience = kPatience);
  ClockListener(const ClockListener&) = delete;
  ClockListener& operator=(const ClockListener&) = delete;
  ~ClockListener();

 private:
  struct Connection {
    UniqueFd socket;
    net::Peer peer;
    std::string lease;         ///< id of the lease; empty before the first request
    bool took_lease = false;   ///< true if the lease ends with the connection
    std::uint64_t number = 0;  ///< unique number, because descriptors are reused
    std::shared_ptr<void> watch = nullptr;
  };

  ClockListener(net::ServerLoop& loop, Leases leases, Seconds patience)
      : loop_(loop), leases_(std::move(leases)), patience_(patience) {}
  void listen();
  void accept();
  std::string refusal(const net::Peer& peer) const;
  void add(UniqueFd socket, net::Peer peer);
  void hear(int socket);
  void close(int socket);
  Status respond(Connection& connection, const ClockRequest& request);
  Status apply(const Connection& connection, const ClockRequest& request);
  Status open_channels(Connection& connection, const Lease& lease);

  net::ServerLoop& loop_;
  Leases leases_;
  const Seconds patience_;
  std::filesystem::path path_;
  UniqueFd socket_;
  std::shared_ptr<void> watch_;  ///< watch on `socket_`
  std::map<int, Connection> connections_;
  std::uint64_t last_number_ = 0;
  /// Expires with this object, so that later work on the loop can check it.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace harpe::node
