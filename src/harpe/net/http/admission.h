#pragma once
/// \file
/// Limits of the connections of a server: in total, per client, and a reserve beyond, so that a
/// full server can still report that it is full, and its administrator can still reach it.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace harpe::net {

/// Limit of the bytes that the connections of a server hold at once: in total and per client, so
/// that neither many clients nor one can make it hold more. A single request or response larger
/// than the limit is allowed if nothing else is held; its own size is limited elsewhere.
///
/// Not thread-safe. O(log clients) per change.
class ByteBudget {
 public:
  /// Bytes that each owner may always hold, so that ordinary requests and responses never fail
  /// because of other clients' large ones.
  static constexpr std::size_t kFree = 4096;

  struct Limits {
    std::size_t total = 0;
    std::size_t per_client = 0;
  };

  explicit ByteBudget(const Limits& limits) : limits_(limits) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  std::size_t held() const { return held_; }  ///< by all owners, beyond their free bytes

  /// The bytes that one owner holds. The destructor returns them.
  class Share {
   public:
    /// \param client  that its bytes are counted for
    Share(std::shared_ptr<ByteBudget> budget, std::string client);
    ~Share() { hold(0); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    /// Sets the number of bytes held. Returns false and changes nothing if that exceeds the budget;
    /// a decrease never fails.
    bool hold(std::size_t bytes);

   private:
    const std::shared_ptr<ByteBudget> budget_;
    const std::string client_;
    std::size_t counted_ = 0;
  };

 private:
  bool change(const std::string& client, std::size_t before, std::size_t after);

  const Limits limits_;
  std::size_t held_ = 0;
  std::map<std::string, std::size_t> of_clients_;  ///< clients that hold bytes
};

/// Counters in total and per client. Not thread-safe. O(log clients).
class ClientCounts {
 public:
  std::size_t total() const { return total_; }
  std::size_t of(const std::string& client) const;
  void add(const std::string& client);
  void remove(const std::string& client);

 private:
  std::size_t total_ = 0;
  std::map<std::string, std::size_t> clients_;  ///< clients with a count above 0
};

/// The places of connections. Not thread-safe. O(log clients).
class Admission {
 public:
  enum class Place : unsigned char {
    kNone,     ///< no room, not even in the reserve
    kReserve,  ///< for a short response only: that there is no room, or a health check
    kAdmin,    ///< in the administrator's part of the reserve, for any request
    kServer,   ///< of another server with many clients; counts only in total
    kUsual,
  };
  struct Limits {
    std::size_t connections = 0;
    std::size_t per_client = 0;
    /// Connections beyond these limits. Half are the administrator's; one client gets at most an
    /// eighth of the rest.
    std::size_t reserve = 0;
  };

  explicit Admission(const Limits& limits) : limits_(limits) {}

  /// Returns the place of a new connection of `client`, which is counted from now on.
  Place enter(const std::string& client, bool is_admin);
  void leave(const std::string& client, Place place);
  /// Moves a usual connection of `client`, which proves to be another server, to a new place and
  /// returns it.
  Place to_server(const std::string& client);

  bool is_full() const { return usual_.total() + servers_ >= limits_.connections; }
  std::size_t connections() const { return usual_.total() + servers_ + reserve_.total() + admins_; }

 private:
  Limits limits_;
  ClientCounts usual_, reserve_;
  std::size_t admins_ = 0, servers_ = 0;
};

/// Limit of concurrent operations, a quarter of them per client; further ones wait for a turn. Not
/// thread-safe. O(log clients).
class Turns {
 public:
  explicit Turns(std::size_t most) : most_(most) {}

  /// Calls `begin` when it is the client's turn, possibly at once. If `begin` returns true, the
  /// client uses its turn, and `end` must be called later; otherwise the turn passes. `begin` must
  /// not call this object.
  void wait(const std::string& client, std::function<bool()> begin);
  void end(const std::string& client);

 private:
  bool has_room(const std::string& client) const;

  std::size_t most_;
  ClientCounts busy_;
  std::map<std::string, std::deque<std::function<bool()>>> waiting_;
  std::string newest_;  ///< client of the last turn; the next turn goes to another client
};

}  // namespace harpe::net
