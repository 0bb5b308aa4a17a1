#pragma once
/// \file
/// A network between a store and PostgreSQL that a test can break.

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <set>
#include <thread>
#include <utility>
#include <vector>

namespace harpe::training {

/// A network between a store and PostgreSQL. It can close the store's side of its connections and
/// leave the other side open, as a broken network does, block everything for a while, and deliver
/// requests of stores after they have given up.
class BreakingNetwork {
 public:
  BreakingNetwork(const std::filesystem::path& directory, const std::filesystem::path& target)
      : target_(target / ".s.PGSQL.5432") {
    listening_ = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(directory / ".s.PGSQL.5432");
    EXPECT_EQ(::bind(listening_, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    EXPECT_EQ(::listen(listening_, 10), 0);
    thread_ = std::thread([this] { run(); });
  }
  BreakingNetwork(const BreakingNetwork&) = delete;
  BreakingNetwork& operator=(const BreakingNetwork&) = delete;
  ~BreakingNetwork() {
    stopping_ = true;
    thread_.join();
    ::close(listening_);
    for (const auto& [client, server] : pairs_) ::close(client), ::close(server);
    for (const int fd : dead_) ::close(fd);
  }
  void break_connections() { order(breaking_); }
  void let_through(bool yes) { cut_ = !yes; }
  /// Holds back the requests of stores over existing connections until `deliver`.
  void hold_back() { order(holding_back_); }
  void deliver() { order(delivering_); }

 private:
  /// Lets the thread execute an order, and waits for it.
  static void order(std::atomic<bool>& what) {
    what = true;
    while (what) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  static sockaddr_un address_of(const std::filesystem::path& path) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.string().copy(address.sun_path, sizeof address.sun_path - 1);
    return address;
  }

  void follow_assignments() {
    if (breaking_) {
      for (const auto& [client, server] : pairs_) {
        ::close(client);
        dead_.push_back(server);
      }
      pairs_.clear();
      breaking_ = false;
    }
    if (holding_back_) {
      for (const auto& [client, server] : pairs_) held_back_.insert(client);
      holding_back_ = false;
    }
    if (delivering_) {
      held_back_.clear();
      delivering_ = false;
    }
  }

  void run() {
    while (!stopping_) {
      follow_assignments();
      std::vector<pollfd> ready{{listening_, POLLIN, 0}};
      for (const auto& [client, server] : pairs_) {
        const bool held_back = held_back_.contains(client);  // poll ignores negative numbers
        ready.push_back({held_back ? -1 : client, POLLIN, 0});
        ready.push_back({held_back ? -1 : server, POLLIN, 0});
      }
      if (cut_) {
        std::this_thread::sleep_for(std::chrono::milliseconds(2));
        continue;
      }
      if (::poll(ready.data(), ready.size(), 5) <= 0) continue;
      if (ready[0].revents != 0) accept_one();
      for (std::size_t i = (ready.size() - 1) / 2; i-- > 0;) {
        const auto [client, server] = pairs_[i];
        const bool good = (ready[1 + 2 * i].revents == 0 || pass(client, server)) &&
                          (ready[2 + 2 * i].revents == 0 || pass(server, client));
        if (good) continue;
        ::close(client), ::close(server);
        pairs_.erase(pairs_.begin() + static_cast<std::ptrdiff_t>(i));
      }
    }
  }

  void accept_one() {
    const int client = ::accept(listening_, nullptr, nullptr);
    const int server = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const sockaddr_un address = address_of(target_);
    EXPECT_EQ(::connect(server, reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    pairs_.emplace_back(client, server);
  }

  static bool pass(int from, int to) {
    char buffer[4096];
    const ssize_t size = ::read(from, buffer, sizeof buffer);
    return size > 0 && ::send(to, buffer, static_cast<std::size_t>(size), MSG_NOSIGNAL) == size;
  }

  std::filesystem::path target_;
  int listening_ = -1;
  std::vector<std::pair<int, int>> pairs_;  ///< client and server
  std::vector<int> dead_;
  std::set<int> held_back_;  ///< clients
  std::atomic<bool> stopping_ = false, cut_ = false;
  std::atomic<bool> breaking_ = false, holding_back_ = false, delivering_ = false;
  std::thread thread_;
};

}  // namespace harpe::training
