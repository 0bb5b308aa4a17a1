#pragma once
/// \file
/// A server in its own process, for tests that kill or stop it.

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <string>
#include <utility>

#include "harpe/training/store/store.h"
#include "harpe/training/store/store_testing.h"

namespace harpe::training {

/// A server in its own process, which claims "a" and obeys commands of one letter.
class ServerProcess {
 public:
  ServerProcess(const std::string& database, const StoreOptions& options) {
    int ask[2], response[2];
    EXPECT_EQ(::pipe(ask), 0);
    EXPECT_EQ(::pipe(response), 0);
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      serve(database, options, ask[0], response[1]);
    }
    ::close(ask[0]), ::close(response[1]);
    ask_ = ask[1], response_ = response[0];
    EXPECT_EQ(read_response(), 'y');
  }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;
  ~ServerProcess() {
    kill(SIGKILL);
    ::close(ask_), ::close(response_);
  }
  void send(int signal) const { ::kill(pid_, signal); }
  void kill(int signal) {
    if (pid_ <= 0) return;
    send(signal);
    ::waitpid(std::exchange(pid_, -1), nullptr, 0);
  }
  /// 's': saves "a"; 'l': checks that it still holds its first lease; 'q': ends orderly.
  char ask(char what) {
    EXPECT_EQ(::write(ask_, &what, 1), 1);
    return read_response();
  }

 private:
  char read_response() const {
    char word = 0;
    return ::read(response_, &word, 1) == 1 ? word : '-';
  }
  [[noreturn]] static void serve(const std::string& database, const StoreOptions& options, int in,
                                 int out) {
    auto store = Store::open(database, options);
    const bool good =
        store.ok() && *(*store)->claim("a") && save(**store, {"a", "saved", 1, 1}).ok();
    const auto say = [out](bool yes) {
      const char word = yes ? 'y' : 'n';
      if (::write(out, &word, 1) != 1) ::_exit(1);
    };
    say(good);
    char what = 0;
    while (::read(in, &what, 1) == 1) {
      const LeaseState lease = (*store)->lease();
      if (what == 'l') say(lease.held && lease.tenure == 1);
      if (what == 's') say(save(**store, {"a", "by the first", 2, 1}).ok());
      if (what != 'q') continue;
      store->reset();
      say(true);
    }
    ::_exit(0);
  }

  pid_t pid_ = -1;
  int ask_ = -1, response_ = -1;
};

}  // namespace harpe::training
