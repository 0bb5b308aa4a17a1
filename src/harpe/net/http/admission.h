#pragma once
/// \file
/// Who may connect: so many at once in all, so many of one client, and a reserve beyond, so that a
/// full server still says that it is, and its administrator can still reach it.

#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>

namespace harpe::net {

/// How many bytes the connections of a server may hold at once: in all, and for one client, so that
/// neither many peers nor one can make it hold more. One that is larger than what is allowed has
/// room where nothing else is held: something else limits how large one can be.
///
/// Not thread-safe. O(log clients) a change.
class ByteBudget {
 public:
  /// What one owner may hold without asking: ordinary requests and responses never fail for others'
  /// large ones.
  static constexpr std::size_t kFree = 4096;

  struct Limits {
    std::size_t total = 0;
    std::size_t per_client = 0;
  };

  explicit ByteBudget(const Limits& limits) : limits_(limits) {}
  ByteBudget(const ByteBudget&) = delete;
  ByteBudget& operator=(const ByteBudget&) = delete;

  std::size_t held() const { return held_; }  ///< beyond what is free, by all

  /// What one owner holds, given back with it.
  class Share {
   public:
    /// \param client  whom its bytes are counted for
    Share(std::shared_ptr<ByteBudget> budget, std::string client);
    ~Share() { hold(0); }
    Share(const Share&) = delete;
    Share& operator=(const Share&) = delete;

    /// Holds `bytes` from now on. False, with nothing changed, where that is more than is left;
    /// to hold less never fails.
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
  std::map<std::string, std::size_t> of_clients_;  ///< those that hold any
};

/// Counts in all and by client. Not thread-safe. O(log clients).
class ClientCounts {
 public:
  std::size_t total() const { return total_; }
  std::size_t of(const std::string& client) const;
  void add(const std::string& client);
  void remove(const std::string& client);

 private:
  std::size_t total_ = 0;
  std::map<std::string, std::size_t> clients_;  ///< those that have any
};

/// Not thread-safe. O(log clients).
class Admission {
 public:
  enum class Place : unsigned char {
    kNone,     ///< there is no room, not even in the reserve
    kReserve,  ///< for a short response: that there is no room, or how the server is
    kAdmin,    ///< in the administrator's part of the reserve: for anything
    kServer,   ///< of another server, which stands for many clients: counted in all alone
    kUsual,
  };
  struct Limits {
    std::size_t connections = 0;
    std::size_t per_client = 0;
    /// Beyond these. Half is the administrator's; one client has at most an eighth of the rest.
    std::size_t reserve = 0;
  };

  explicit Admission(const Limits& limits) : limits_(limits) {}

  /// Gives a connection of `client` a place, counted from now on.
  Place enter(const std::string& client, bool is_admin);
  void leave(const std::string& client, Place place);
  /// A usual connection of `client` turns out to be of another server: its new place.
  Place to_server(const std::string& client);

  bool is_full() const { return usual_.total() + servers_ >= limits_.connections; }
  std::size_t connections() const { return usual_.total() + servers_ + reserve_.total() + admins_; }

 private:
  Limits limits_;
  ClientCounts usual_, reserve_;
  std::size_t admins_ = 0, servers_ = 0;
};

/// Turns at something of which only so much may happen at once, a quarter of it for one client; who
/// finds none waits. Not thread-safe. O(log clients).
class Turns {
 public:
  explicit Turns(std::size_t most) : most_(most) {}

  /// Calls `begin` when it is the client's turn, perhaps at once. It says whether the client still
  /// wants it; then `end` is called later. It must not call this.
  void wait(const std::string& client, std::function<bool()> begin);
  void end(const std::string& client);

 private:
  bool has_room(const std::string& client) const;

  std::size_t most_;
  ClientCounts busy_;
  std::map<std::string, std::deque<std::function<bool()>>> waiting_;
  std::string newest_;  ///< who had the last turn: the next is another's
};

}  // namespace harpe::net
