// Who gets a connection for clock channels, and what becomes of those that ask for nothing.

#include "harpe/agent/clock_listener.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <ctime>
#include <thread>

#include "harpe/agent/controller_testing.h"

namespace harpe {
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
    ClockListener::Leases leases;
    leases.may_set_clocks = [this](const Peer&) { return allowed_.load(); };
    leases.take = leases_take();
    auto listener = ClockListener::open(loop_, path_, 0600, std::move(leases), patience);
    ASSERT_TRUE(listener.ok()) << listener.error().text();
    listener_ = *std::move(listener);
    thread_ = std::thread([this] { loop_.run(); });
  }
  static std::function<Result<Lease>(const Peer&, const LeaseRequest&)> leases_take() {
    return [](const Peer&, const LeaseRequest&) -> Result<Lease> {
      return Error::of(ErrorCode::kConflict, "it is held");
    };
  }
  UniqueFd connected() const {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strcpy(address.sun_path, path_.c_str());
    UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    const timeval patience{20, 0};
    ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
              0);
    return socket;
  }
  /// What it is told next; "end" when it is closed.
  static std::string told(const UniqueFd& socket) {
    std::array<char, 256> text{};
    const ssize_t size = ::recv(socket.get(), text.data(), text.size(), 0);
    if (size == 0) return "end";
    return size < 0 ? "nothing" : std::string(text.data(), static_cast<std::size_t>(size));
  }

  TestDirectory directory_;
  const std::filesystem::path path_ = directory_.path() / "clock.sock";
  std::atomic<bool> allowed_ = true;
  EventLoop loop_;
  std::unique_ptr<ClockListener> listener_;
  std::thread thread_;
};

TEST_F(ClockListenerTest, WhoMaySetNoClocksIsToldSoAndTakesNoPlace) {
  allowed_ = false;
  start();
  for (int i = 0; i < 2 * ClockListener::kMostOfOneUser; ++i) {
    const UniqueFd socket = connected();
    EXPECT_THAT(told(socket), HasSubstr("does not let you set clocks"));
    EXPECT_EQ(told(socket), "end");
  }
}

TEST_F(ClockListenerTest, WhoAsksForNothingIsClosed) {
  start(0.01_s);
  const UniqueFd socket = connected();
  EXPECT_EQ(told(socket), "end");
}

TEST_F(ClockListenerTest, OneUserTakesNoMoreThanItsPlaces) {
  start();
  std::vector<UniqueFd> sockets;
  for (int i = 0; i < ClockListener::kMostOfOneUser; ++i) sockets.push_back(connected());
  sockets.push_back(connected());
  if (::geteuid() == 0) {
    ASSERT_GT(::send(sockets.back().get(), "harpe.clock/1 take 1 0 x", 24, 0), 0);
    EXPECT_EQ(told(sockets.back()), "error it is held") << "root is heard beyond them";
  } else {
    EXPECT_THAT(told(sockets.back()), HasSubstr("too many clock channels"));
  }
}

// A connection that cannot be accepted is reported as long as it waits.
TEST_F(ClockListenerTest, AShortageOfFilesCostsNoTimeAndOnlyDelays) {
  // The sanitizer of undefined behaviour needs a pipe to look at memory, and raises a false alarm
  // without one.
  if (HARPE_UNDER_SANITIZERS) GTEST_SKIP();
  start();
  const UniqueFd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{static_cast<rlim_t>(socket.get()) + 1, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &none), 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strcpy(address.sun_path, path_.c_str());
  ASSERT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address),
            0);
  // Real time: all of it would be spent by a loop that tries again at once.
  const std::clock_t begin = std::clock();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const double spent = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
  EXPECT_LT(spent, 0.1) << "seconds of the CPU";
  ASSERT_GT(::send(socket.get(), "harpe.clock/1 take 1 0 x", 24, 0), 0);
  EXPECT_EQ(told(socket), "error it is held");
}

}  // namespace
}  // namespace harpe
