#pragma once
/// \file
/// How many bytes the connections of a server may hold at once: in all, and for one client, so that
/// neither many peers nor one can make it hold more. One that is larger than what is allowed has
/// room where nothing else is held: something else limits how large one can be.

#include <cstddef>
#include <map>
#include <memory>
#include <string>

namespace harpe::net {

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

}  // namespace harpe::net
