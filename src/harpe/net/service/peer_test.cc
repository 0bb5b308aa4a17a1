#include "harpe/net/service/peer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>

namespace harpe::net {
namespace {

TEST(PeerOfSocket, IsWhoTheKernelSaysConnected) {
  std::array<int, 2> sockets{};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, sockets.data()), 0);
  const auto peer = peer_of_socket(sockets[0]);
  ASSERT_TRUE(peer.ok()) << peer.error().text();
  EXPECT_EQ(peer->uid, ::geteuid());
  EXPECT_EQ(peer->pid, ::getpid());
  EXPECT_EQ(peer->start_ticks, start_of_process(::getpid()));
  EXPECT_THAT(peer->groups, ::testing::Contains(::getegid()));
  EXPECT_TRUE(peer->token_subject.empty());
  ::close(sockets[0]);
  ::close(sockets[1]);
}

TEST(PeerOfSocket, IsAnErrorForWhatIsNoUnixSocket) {
  EXPECT_FALSE(peer_of_socket(-1).ok());
}

}  // namespace
}  // namespace harpe::net
