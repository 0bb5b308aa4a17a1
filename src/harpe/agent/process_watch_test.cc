#include "harpe/agent/process_watch.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace harpe {
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
  Peer peer;
  peer.pid = child;
  peer.start_ticks = start_of_process(child).value();
  const auto watch = ProcessWatch::open(peer);
  ASSERT_TRUE(watch.ok()) << watch.error().text();
  EXPECT_FALSE(has_ended(*watch, 0));
  ::kill(child, SIGKILL);
  EXPECT_TRUE(has_ended(*watch, 20000));
  ::waitpid(child, nullptr, 0);
  EXPECT_EQ(ProcessWatch::open(peer).error().code, ErrorCode::kNotFound);
  EXPECT_EQ(start_of_process(child), std::nullopt);
}

TEST(ProcessWatch, IsNotFooledByANumberUsedAgain) {
  Peer peer;
  peer.pid = ::getpid();
  peer.start_ticks = start_of_process(::getpid()).value() - 1;
  EXPECT_EQ(ProcessWatch::open(peer).error().code, ErrorCode::kNotFound);
  peer.start_ticks = 0;
  EXPECT_EQ(ProcessWatch::open(peer).error().code, ErrorCode::kNotFound);
  peer.pid = 0;
  EXPECT_EQ(ProcessWatch::open(peer).error().code, ErrorCode::kNotSupported);
}

}  // namespace
}  // namespace harpe
