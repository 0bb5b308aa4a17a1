#pragma once
/// \file
/// The agent's end of the socket on which clock channels are asked for (clock_channel.h). Runs on
/// a loop; reads messages of any process, so it believes nothing but what the kernel says of who is
/// connected.

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

/// One message of a client. All that is not one is `kInvalidInput`.
struct ClockRequest {
  enum class Kind : unsigned char { kLease, kTake, kRenew, kSet };
  Kind kind = Kind::kLease;
  std::string lease;      ///< kLease
  std::vector<int> gpus;  ///< kTake; kSet: one
  Seconds duration{0};    ///< kTake, kRenew
  std::string name;       ///< kTake: printable
  Setting setting;        ///< kSet: of a memory clock or a power limit
};
Result<ClockRequest> parse_clock_request(std::string_view text);

class ClockListener {
 public:
  /// Connections at once: in all, of one user, and beyond these for root. Others are told so and
  /// closed, as are those whom the policy lets set no clocks, and those that ask for nothing within
  /// `kPatience`.
  static constexpr std::size_t kMostConnections = 544, kForRoot = 32;
  static constexpr std::ptrdiff_t kMostOfOneUser = 64;
  static constexpr Seconds kPatience{10};

  /// What leases it needs from the controller; called on the loop's thread.
  struct Leases {
    std::function<bool(const net::Peer&)> may_set_clocks;
    std::function<Result<Lease>(const net::Peer&, const LeaseRequest&)> take;
    std::function<Result<Lease>(const net::Peer&, const std::string& lease, Seconds)> renew;
    std::function<Result<Lease>(const net::Peer&, const std::string& lease)> find;
    /// A slot that the GPU's owner serves from now on.
    std::function<Result<std::shared_ptr<ClockSlot>>(const net::Peer&, const std::string& lease,
                                                     int gpu)>
        attach;
    std::function<void(const std::string& lease)> end;
    /// Fails where anything else than what was asked for is in force then.
    std::function<void(const net::Peer&, const std::string& lease, int gpu, const Setting&,
                       Done<Applied>)>
        apply;
  };

  /// Binds the path (in place of a socket on which no process listens) and registers with the loop.
  /// Fails with `kConflict` where one does, or where the path is no socket.
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
    std::string lease;         ///< empty until it is greeted
    bool took_lease = false;   ///< it ends with the connection
    std::uint64_t number = 0;  ///< of all connections, as numbers of sockets are used again
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
  std::shared_ptr<void> watch_;  ///< of that
  std::map<int, Connection> connections_;
  std::uint64_t last_number_ = 0;
  /// Lives as long as this: for work that the loop does later.
  std::shared_ptr<const bool> alive_ = std::make_shared<const bool>(true);
};

}  // namespace harpe::node
