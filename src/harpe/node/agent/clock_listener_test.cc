// Admission of connections for clock channels, and the end of connections without a request.

#include "harpe/node/agent/clock_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

#include <atomic>
#include <ctime>
#include <thread>

#include "harpe/node/agent/clock_socket_testing.h"
#include "harpe/node/agent/controller_testing.h"

namespace harpe::node {
namespace {

using ::testing::HasSubstr;

class ClockListenerTest : public ::testing::Test {
 protected:
  ~ClockListenerTest() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
    listener_.reset();
  }

  void start(Seconds patience = ClockListener::kPatience) {
    open(patience);
    run();
  }
  void open(Seconds patience = ClockListener::kPatience) {
    ClockListener::Leases leases;
    leases.may_set_clocks = [this](const net::Peer&) { return allowed_.load(); };
    leases.take = leases_take();
    auto listener = ClockListener::open(loop_, path_, 0600, std::move(leases), patience);
    ASSERT_TRUE(listener.ok()) << listener.error().text();
    listener_ = *std::move(listener);
  }
  void run() {
    thread_ = std::thread([this] { loop_.run(); });
  }
  static std::function<Result<Lease>(const net::Peer&, const LeaseRequest&)> leases_take() {
    return [](const net::Peer&, const LeaseRequest&) -> Result<Lease> {
      return Error::of(ErrorCode::kConflict, "it is held");
    };
  }
  /// Returns the message to a client that sends before the agent accepts it, and receives late.
  std::string said_to_hasty_client() {
    open();
    ClockSocketClient client(path_);
    client.say("harpe.clock/1 take 1 0 x");
    client.say("renew 1");
    run();
    pollfd hung_up{client.socket(), 0, 0};
    EXPECT_EQ(::poll(&hung_up, 1, 20'000), 1);
    return client.hear();
  }
  TestDirectory directory_;
  const std::filesystem::path path_ = directory_.path() / "clock.sock";
  std::atomic<bool> allowed_ = true;
  net::ServerLoop loop_;
  std::unique_ptr<ClockListener> listener_;
  std::thread thread_;
};

TEST_F(ClockListenerTest, WhoMaySetNoClocksIsToldSoAndTakesNoPlace) {
  allowed_ = false;
  start();
  for (int i = 0; i < 2 * ClockListener::kMostOfOneUser; ++i) {
    ClockSocketClient client(path_);
    EXPECT_THAT(client.hear(), HasSubstr("does not allow you to set the clocks"));
    EXPECT_EQ(client.hear(), "");
  }
}

TEST_F(ClockListenerTest, WhoHasAskedAlreadyIsToldWhyItIsRefused) {
  allowed_ = false;
  EXPECT_THAT(said_to_hasty_client(), HasSubstr("does not allow you to set the clocks"));
}

TEST_F(ClockListenerTest, WhoHasAskedMoreAlreadyIsToldWhyItIsRefused) {
  EXPECT_EQ(said_to_hasty_client(), "error it is held");
}

TEST_F(ClockListenerTest, WhoAsksForNothingIsClosed) {
  start(0.01_s);
  EXPECT_EQ(ClockSocketClient(path_).hear(), "");
}

TEST_F(ClockListenerTest, OneUserTakesNoMoreThanItsPlaces) {
  start();
  std::vector<ClockSocketClient> clients;
  for (int i = 0; i <= ClockListener::kMostOfOneUser; ++i) clients.emplace_back(path_);
  if (::geteuid() == 0) {
    clients.back().say("harpe.clock/1 take 1 0 x");
    EXPECT_EQ(clients.back().hear(), "error it is held") << "root is heard beyond them";
  } else {
    EXPECT_THAT(clients.back().hear(), HasSubstr("too many clock channels"));
  }
}

// The kernel reports a waiting connection again and again if it cannot be accepted.
TEST_F(ClockListenerTest, AShortageOfFilesCostsNoTimeAndOnlyDelays) {
  // The sanitizer of undefined behaviour needs a pipe to inspect memory, and raises a false alarm
  // without one.
  if (HARPE_UNDER_SANITIZERS) GTEST_SKIP();
  start();
  ClockSocketClient client;
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{static_cast<rlim_t>(client.socket()) + 1, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  ASSERT_TRUE(client.connect(path_));
  // Real time: a loop that retries at once would spend all of it on the CPU.
  const std::clock_t begin = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_LT(spent, 0.1) << "seconds of the CPU";
  client.say("harpe.clock/1 take 1 0 x");
  EXPECT_EQ(client.hear(), "error it is held");
}

}  // namespace
}  // namespace harpe::node
