#include "harpe/node/agent/process_watch.h"

#include <gtest/gtest.h>
#include <linux/sched.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>

#include "harpe/base/unique_fd.h"
#include "harpe/node/agent/controller_testing.h"

namespace harpe::node {
namespace {

bool has_ended(const ProcessWatch& watch, int milliseconds) {
  pollfd polled{watch.descriptor(), POLLIN, 0};
  return ::poll(&polled, 1, milliseconds) == 1;
}

TEST(ProcessWatch, NoticesTheEndOfAProcess) {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  net::Peer peer;
  peer.pid = child;
  peer.start_ticks = net::start_of_process(child).value();
  const auto watch = ProcessWatch::open(peer);
  ASSERT_TRUE(watch.ok()) << watch.error().text();
  EXPECT_FALSE(has_ended(*watch, 0));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(has_ended(*watch, 20000));
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(ProcessWatch::open(peer).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(net::start_of_process(child), std::nullopt);
}

TEST(ProcessWatch, IsNotFooledByANumberUsedAgain) {
  net::Peer peer;
  peer.pid = ::getpid();
  peer.start_ticks = net::start_of_process(::getpid()).value() - 1;
  EXPECT_EQ(ProcessWatch::open(peer).error().code, ErrorCode::kNotFound);
  peer.start_ticks = 0;
  EXPECT_EQ(ProcessWatch::open(peer).error().code, ErrorCode::kNotFound);
  peer.pid = 0;
  EXPECT_EQ(ProcessWatch::open(peer).error().code, ErrorCode::kNotSupported);
}

/// Starts a process with the given ID, which waits to be killed. Returns -1 if not allowed.
pid_t process_with_number(pid_t number) {
  clone_args arguments{};
  pid_t wanted[] = {number};
  arguments.exit_signal = SIGCHLD;
  arguments.set_tid = reinterpret_cast<std::uintptr_t>(wanted);
  arguments.set_tid_size = 1;
  const auto made = static_cast<pid_t>(::syscall(SYS_clone3, &arguments, sizeof arguments));
  while (made == 0) ::pause();
  return made;
}

// The process ID of a client may be reused between its `connect` and the agent's `accept`.
TEST(PeerOfSocket, IsNotTheProcessThatGotTheNumberOfTheOneThatConnected) {
  const TestDirectory directory;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, (directory.path() / "socket").c_str());
  const auto* place = reinterpret_cast<const sockaddr*>(&address);
  const UniqueFd listening(::socket(AF_UNIX, SOCK_STREAM, 0));
  ASSERT_EQ(::bind(listening.get(), place, sizeof address), 0);
  ASSERT_EQ(::listen(listening.get(), 1), 0);
  // The client connects a socket of this process, so that the connection outlives the client.
  const UniqueFd connecting(::socket(AF_UNIX, SOCK_STREAM, 0));
  const pid_t client = ::fork();
  if (client == 0) ::_exit(::connect(connecting.get(), place, sizeof address));
  int status = 0;
  ::waitpid(client, &status, 0);
  ASSERT_EQ(status, 0);
  const pid_t other = process_with_number(client);
  if (other < 0) GTEST_SKIP() << "processes cannot be given numbers here";
  ASSERT_EQ(other, client);
  const UniqueFd accepted(::accept(listening.get(), nullptr, nullptr));
  int descriptor = -1;
  socklen_t size = sizeof descriptor;
  constexpr int kPeerPidFd = 77;  // SO_PEERPIDFD
  const bool known =
      ::getsockopt(listening.get(), SOL_SOCKET, kPeerPidFd, &descriptor, &size) == 0 ||
      errno != ENOPROTOOPT;
  const auto peer = net::peer_of_socket(accepted.get());
  ::kill(other, SIGKILL);
  ::waitpid(other, nullptr, 0);
  if (!known) GTEST_SKIP() << "the kernel is older than 6.5";
  ASSERT_TRUE(peer.ok());
  EXPECT_EQ(peer->pid, client);
  EXPECT_EQ(peer->start_ticks, 0) << "that is another process's";
  EXPECT_EQ(ProcessWatch::open(*peer).error().code, ErrorCode::kNotFound);
}

}  // namespace
}  // namespace harpe::node
