// The fast path from end to end: from a client's write to shared memory to the driver's call.

#include "harpe/node/node_client/clock_channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <future>
#include <latch>
#include <random>
#include <thread>

#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/clock_listener.h"
#include "harpe/node/agent/clock_socket_testing.h"
#include "harpe/node/agent/controller_testing.h"
#include "harpe/node/agent/gpu_testing.h"
#include "harpe/node/node_client/clock_slot.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class ClockChannelTest : public ::testing::Test {
 protected:
  ClockChannelTest() { peer_.uid = ::getuid(); }
  ~ClockChannelTest() override { controller_.reset(); }

  void start(const std::string& allowed = "") {
    Devices devices;
    devices.gpus.push_back(gpu_.device());
    devices.gpus.push_back(other_.device());
    auto policy = Policy::parse(
        "[[allow]]\nusers = [" + std::to_string(::getuid()) +
            ", 54321]\ngpus = '*'\nclocks_mhz = [300, 1200]\nmax_lease_s = 100\n" + allowed,
        "policy.toml");
    auto made = Controller::start(std::move(devices), *policy, options_, *clock_);
    ASSERT_TRUE(made.ok()) << made.error().text();
    controller_ = *std::move(made);
  }
  ClockChannel taken(const std::vector<int>& gpus = {0}) {
    auto channel = ClockChannel::take(options_.clock_socket, gpus, 60_s, "test");
    EXPECT_TRUE(channel.ok()) << (channel.ok() ? "" : channel.error().text());
    return *std::move(channel);
  }
  std::optional<int> locked() const {
    const auto lock = gpu_.state().graphics;
    return lock ? std::optional(lock->lowest.value) : std::nullopt;
  }
  static ClockChannel::Served served(const ClockChannel& channel, std::uint32_t sequence) {
    EXPECT_TRUE(eventually([&] { return channel.served(0).sequence == sequence; }));
    return channel.served(0);
  }

  TestDirectory directory_;
  TestGpu gpu_{0}, other_{1};
  ControllerOptions options_ = options_in(directory_);
  net::Peer peer_;
  TestClock test_clock_;
  Clock* clock_ = &system_clock();
  std::unique_ptr<Controller> controller_;
};

TEST_F(ClockChannelTest, ACommandReachesTheDriverAndItsOutcomeTheClient) {
  start();
  ClockChannel channel = taken({1, 0});
  EXPECT_THAT(channel.gpus(), ElementsAre(0, 1));
  const auto first = served(channel, channel.set(0, 907_MHz));
  EXPECT_EQ(first.outcome, ClockOutcome::kApplied);
  EXPECT_EQ(first.clock, 900_MHz) << "the nearest supported";
  EXPECT_EQ(locked(), 900);
  EXPECT_EQ(other_.state(), TestGpu::State());
  const auto refused = served(channel, channel.set(0, 1410_MHz));
  EXPECT_EQ(refused.outcome, ClockOutcome::kNotAllowed);
  EXPECT_EQ(locked(), 900);
  EXPECT_EQ(served(channel, channel.set(0, 0_MHz)).outcome, ClockOutcome::kApplied);
  EXPECT_EQ(locked(), std::nullopt);
  EXPECT_EQ(channel.wanted(0), channel.served(0).sequence);
  EXPECT_EQ(channel.refused(0), 1) << "one in between is remembered";
  EXPECT_TRUE(channel.connected());
  controller_.reset();
  EXPECT_TRUE(eventually([&] { return !channel.connected(); }));
}

TEST_F(ClockChannelTest, SetsMemoryClockAndPowerLimitUnderItsLease) {
  start("memory_clocks_mhz = [800, 1300]\npower_limit_w = [200, 275]\n");
  {
    ClockChannel channel = taken();
    EXPECT_TRUE(channel.set_memory_clock(0, 1215_MHz).ok());
    EXPECT_TRUE(channel.set_power_limit(0, 250_W).ok());
    EXPECT_EQ(gpu_.state().memory, (ClockRange{1215_MHz, 1215_MHz}));
    EXPECT_EQ(gpu_.state().limit, 250_W);
    for (const Status& refused :
         {channel.set_memory_clock(0, 900_MHz), channel.set_power_limit(0, 150_W)}) {
      ASSERT_FALSE(refused.ok());
      EXPECT_EQ(refused.error().code, ErrorCode::kRefused);
    }
    EXPECT_TRUE(channel.renew(60_s).ok()) << "a refusal ends nothing";
    EXPECT_EQ(gpu_.state().limit, 250_W);
    EXPECT_TRUE(channel.set_memory_clock(0, 0_MHz).ok());
    EXPECT_EQ(gpu_.state().memory, std::nullopt);
  }
  EXPECT_TRUE(eventually([&] { return gpu_.state() == TestGpu::State(); }));
}

TEST_F(ClockChannelTest, ARefusedSettingNamesTheLineOfThePolicy) {
  start();
  ClockChannel channel = taken();
  EXPECT_THAT(channel.set_memory_clock(0, 1215_MHz).error().text(),
              HasSubstr("it allows none (memory_clocks_mhz in its file)"));
  EXPECT_THAT(channel.set_power_limit(0, 250_W).error().text(),
              HasSubstr("it allows none (power_limit_w in its file)"));
  EXPECT_EQ(gpu_.state(), TestGpu::State());
}

TEST_F(ClockChannelTest, WhatIsNotInForceAfterwardsIsRefused) {
  gpu_.rounds_limits = true;
  start("power_limit_w = [200, 275]\n");
  ClockChannel channel = taken();
  EXPECT_THAT(channel.set_power_limit(0, 230_W).error().text(), HasSubstr("the driver changed"));
  options_.dry_run = true;
  controller_.reset();
  start("power_limit_w = [200, 275]\n");
  ClockChannel dry = taken();
  EXPECT_THAT(dry.set_power_limit(0, 250_W).error().text(), HasSubstr("--dry-run"));
}

TEST_F(ClockChannelTest, TheLeaseEndsWithTheSocketThatTookIt) {
  start();
  {
    ClockChannel channel = taken();
    served(channel, channel.set(0, 900_MHz));
    EXPECT_EQ(controller_->leases(peer_).size(), 1);
  }
  EXPECT_TRUE(eventually([&] { return gpu_.state() == TestGpu::State(); }));
  EXPECT_TRUE(eventually([&] { return controller_->leases(peer_).empty(); }));
}

TEST_F(ClockChannelTest, TheLeaseEndsWithItsClientHoweverItDies) {
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  std::array<int, 2> done{};
  ASSERT_EQ(::pipe(done.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    char word = 0;
    if (::read(ready[0], &word, 1) != 1) ::_exit(1);
    auto channel = ClockChannel::take(options_.clock_socket, {0}, 60_s, "child");
    if (!channel.ok()) ::_exit(1);
    const std::uint32_t sequence = channel->set(0, {900});
    if (!eventually([&] { return channel->served(0).sequence == sequence; })) ::_exit(1);
    if (::write(done[1], &word, 1) != 1) ::_exit(1);
    for (;;) ::pause();
  }
  start();
  char word = 0;
  ASSERT_EQ(::write(ready[1], &word, 1), 1);
  ASSERT_EQ(::read(done[0], &word, 1), 1);
  EXPECT_EQ(locked(), 900);
  ::kill(child, SIGKILL);
  EXPECT_TRUE(eventually([&] { return gpu_.state() == TestGpu::State(); }));
  ::waitpid(child, nullptr, 0);
}

TEST_F(ClockChannelTest, JoiningALeaseGivesChannelsAndItsEndTakesThem) {
  start();
  const auto lease = controller_->take(peer_, {{0}, 60_s, false, ""});
  ASSERT_TRUE(lease.ok());
  auto channel = ClockChannel::join(options_.clock_socket, lease->id);
  ASSERT_TRUE(channel.ok()) << channel.error().text();
  EXPECT_EQ(channel->lease(), lease->id);
  served(*channel, channel->set(0, 900_MHz));
  std::promise<Status> released;
  controller_->release(peer_, lease->id,
                       [&](Status status) { released.set_value(std::move(status)); });
  EXPECT_TRUE(released.get_future().get().ok());
  EXPECT_EQ(locked(), std::nullopt);
  EXPECT_EQ(channel->served(0).outcome, ClockOutcome::kEnded);
  channel->set(0, 600_MHz);
  // A later request has passed through the owner's queue, so the command was ignored.
  const auto next = controller_->take(peer_, {{0}, 60_s, false, ""});
  ASSERT_TRUE(next.ok());
  std::promise<void> asked;
  controller_->supported_clocks(peer_, 0, ClockDomain::kGraphics,
                                [&](const auto&) { asked.set_value(); });
  asked.get_future().wait();
  EXPECT_EQ(locked(), std::nullopt);
}

TEST_F(ClockChannelTest, ASecondChannelOfOneLeaseTakesThePlaceOfTheFirst) {
  start();
  const auto lease = controller_->take(peer_, {{0}, 60_s, false, ""});
  auto first = ClockChannel::join(options_.clock_socket, lease->id);
  auto second = ClockChannel::join(options_.clock_socket, lease->id);
  ASSERT_TRUE(first.ok() && second.ok());
  EXPECT_TRUE(eventually([&] { return first->served(0).outcome == ClockOutcome::kEnded; }));
  EXPECT_EQ(served(*second, second->set(0, 600_MHz)).outcome, ClockOutcome::kApplied);
}

TEST_F(ClockChannelTest, RenewingKeepsTheLease) {
  clock_ = &test_clock_;
  start();
  ClockChannel channel = taken();
  test_clock_.advance(50_s);
  ASSERT_TRUE(channel.renew(5000_s).ok());
  EXPECT_NEAR(channel.duration().value, 100, 1e-6) << "no longer than the policy allows";
  test_clock_.advance(99_s);
  EXPECT_EQ(controller_->leases(peer_).size(), 1);
  test_clock_.advance(2_s);
  EXPECT_THAT(controller_->leases(peer_), IsEmpty());
  EXPECT_TRUE(eventually([&] { return channel.served(0).outcome == ClockOutcome::kEnded; }));
  EXPECT_FALSE(channel.renew(10_s).ok());
}

TEST_F(ClockChannelTest, WhatComesTooSoonWaitsTheNewestWinsAndIsNeverLost) {
  clock_ = &test_clock_;
  options_.minimum_dwell = 0.02_s;
  start();
  ClockChannel channel = taken();
  std::uint32_t sequence = served(channel, channel.set(0, 300_MHz)).sequence;
  for (int round = 0; round < 20; ++round) {
    const int calls = gpu_.calls("set_locked_clocks");
    for (int clock = 315; clock <= 900; clock += 15) sequence = channel.set(0, {clock});
    sequence = channel.set(0, {round % 2 == 0 ? 1005 : 990});
    test_clock_.advance(0.019_s);
    EXPECT_EQ(gpu_.calls("set_locked_clocks"), calls) << "within the dwell";
    test_clock_.advance(0.002_s);
    EXPECT_EQ(served(channel, sequence).outcome, ClockOutcome::kApplied);
    EXPECT_EQ(gpu_.calls("set_locked_clocks"), calls + 1);
    EXPECT_EQ(locked(), round % 2 == 0 ? 1005 : 990);
  }
  EXPECT_EQ(controller_->counts().clock_commands, 21);
  EXPECT_EQ(controller_->counts().clock_commands_coalesced, 800);
}

TEST_F(ClockChannelTest, ASlowDriverBlocksNoCallerAndTheNewestWinsAfterIt) {
  std::latch entered(1), leave(1);
  std::atomic<bool> slow = true;
  gpu_.before([&](const std::string& call) {
    if (call == "set_locked_clocks" && slow.exchange(false)) {
      entered.count_down();
      leave.wait();
    }
    return ok_status();
  });
  start();
  ClockChannel channel = taken({0, 1});
  channel.set(0, 300_MHz);
  entered.wait();
  std::uint32_t last = 0;
  for (int i = 0; i < 100000; ++i) last = channel.set(0, {300 + 15 * (i % 60)});
  last = channel.set(0, 600_MHz);
  const std::uint32_t on_other = channel.set(1, 450_MHz);
  EXPECT_TRUE(eventually([&] { return channel.served(1).sequence == on_other; }));
  EXPECT_EQ(locked(), std::nullopt) << "the driver is still at it";
  leave.count_down();
  EXPECT_EQ(served(channel, last).outcome, ClockOutcome::kApplied);
  EXPECT_EQ(locked(), 600);
  EXPECT_EQ(gpu_.calls("set_locked_clocks"), 2);
}

TEST_F(ClockChannelTest, EveryCallerMayCallFromManyThreads) {
  start();
  ClockChannel channel = taken();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&channel, i] {
      for (int j = 0; j < 500; ++j) channel.set(0, {300 + 15 * ((i * 7 + j) % 60)});
    });
  }
  for (std::thread& thread : threads) thread.join();
  const std::uint32_t last = channel.set(0, 705_MHz);
  EXPECT_EQ(last, 2001);
  EXPECT_EQ(served(channel, last).clock, 705_MHz);
  EXPECT_EQ(locked(), 705);
}

TEST_F(ClockChannelTest, WhatIsNoRequestIsRefusedAndTheAgentLivesOn) {
  start();
  for (const char* text :
       {"", "x", "harpe.clock/2 lease a", "harpe.clock/1", "harpe.clock/1 lease ",
        "harpe.clock/1 lease unknown", "harpe.clock/1 take", "harpe.clock/1 take 60",
        "harpe.clock/1 take -1 0 x", "harpe.clock/1 take nan 0 x", "harpe.clock/1 take 60 0,0 x",
        "harpe.clock/1 take 60 0, x", "harpe.clock/1 take 60 99 x", "harpe.clock/1 take 60 -1 x",
        "renew 60", "renew"}) {
    ClockSocketClient client(options_.clock_socket);
    ASSERT_TRUE(client.connected());
    client.say(text);
    const std::string response = client.hear();
    EXPECT_TRUE(response.empty() || response.starts_with("error ")) << text << ": " << response;
    EXPECT_EQ(client.hear(), "") << "it hangs up";
  }
  ClockSocketClient(options_.clock_socket).say(std::string(100000, 'x'));
  EXPECT_THAT(controller_->leases(peer_), IsEmpty());
  ClockChannel channel = taken();
  EXPECT_EQ(served(channel, channel.set(0, 900_MHz)).clock, 900_MHz);
}

TEST_F(ClockChannelTest, AClientThatLeavesBeforeItsAnswerLeavesNoLease) {
  start();
  for (int i = 0; i < 50; ++i)
    ClockSocketClient(options_.clock_socket).say("harpe.clock/1 take 60 0,1 x");
  EXPECT_TRUE(eventually([&] { return controller_->leases(peer_).empty(); }));
  // The agent handles the earlier messages before this request.
  EXPECT_TRUE(eventually(
      [&] { return ClockChannel::take(options_.clock_socket, {0, 1}, 60_s, "x").ok(); }));
  EXPECT_EQ(gpu_.state(), TestGpu::State());
}

TEST_F(ClockChannelTest, NothingWrittenToTheMemoryLeadsOutOfThePolicy) {
  start();
  ClockSocketClient client(options_.clock_socket);
  client.say("harpe.clock/1 take 60 0 raw");
  ASSERT_EQ(client.hear(), "gpu 0");
  ASSERT_THAT(client.hear(), HasSubstr("ready "));
  const int file = client.descriptor;
  EXPECT_NE(::ftruncate(file, 0), 0) << "sealed";
  EXPECT_NE(::ftruncate(file, 1 << 20), 0);
  auto* memory = static_cast<std::uint64_t*>(
      ::mmap(nullptr, ClockMemory::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  ASSERT_NE(memory, MAP_FAILED);
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  auto* const wanted = reinterpret_cast<std::atomic<std::uint64_t>*>(memory) + 8;
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  for (int i = 0; i < 3000 || gpu_.calls("set_locked_clocks") < 10; ++i) {
    ASSERT_LT(std::chrono::steady_clock::now(), until);
    const std::uint64_t garbage = random();
    const std::uint64_t plausible = random() % 2000;
    wanted->store(i % 2 == 0 ? garbage : (garbage & ~0xffffffffULL) | plausible);
    // Overwrites all other words, too, including the agent's own, and rings the doorbell at random.
    for (std::size_t word = 9; word < 32; ++word) {
      reinterpret_cast<std::atomic<std::uint64_t>*>(memory)[word] = random();
    }
    auto& doorbell = *(reinterpret_cast<std::atomic<std::uint32_t>*>(memory) + 34);
    if (i % 3 == 0) doorbell = static_cast<std::uint32_t>(random() % 2);
    if (i % 2 == 0) futex_wake(doorbell);
    const auto lock = gpu_.state().graphics;
    ASSERT_TRUE(!lock || (lock->lowest >= 300_MHz && lock->highest <= 1200_MHz));
  }
  ::munmap(memory, ClockMemory::kBytes);
  ::close(client.descriptor);
}

TEST_F(ClockChannelTest, AClientThatSilencesItsDoorbellDelaysNothingElse) {
  start();
  ClockSocketClient client(options_.clock_socket);
  client.say("harpe.clock/1 take 60 0 raw");
  ASSERT_EQ(client.hear(), "gpu 0");
  const std::string ready = client.hear();
  const std::string lease = ready.substr(6, ready.find(' ', 6) - 6);
  auto* memory = static_cast<ClockMemory*>(::mmap(
      nullptr, ClockMemory::kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, client.descriptor, 0));
  ASSERT_NE(memory, MAP_FAILED);
  memory->wanted = std::uint64_t{1} << 32 | 600;
  futex_wake(memory->doorbell);
  ASSERT_TRUE(eventually([&] { return locked() == 600; }));
  std::atomic<bool> leave = false;
  std::thread silencer([&] {
    while (!leave) memory->doorbell = memory->doorbell == 0 ? 2 : 0;
  });
  std::promise<void> released;
  controller_->release(peer_, lease, [&](const auto&) { released.set_value(); });
  EXPECT_EQ(released.get_future().wait_for(std::chrono::seconds(5)), std::future_status::ready);
  EXPECT_EQ(locked(), std::nullopt);
  leave = true;
  silencer.join();
  ::munmap(memory, ClockMemory::kBytes);
  ::close(client.descriptor);
}

TEST_F(ClockChannelTest, AnotherUserGetsNoChannelOfAKnownLease) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  std::array<int, 2> ready{};
  ASSERT_EQ(::pipe(ready.data()), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    std::array<char, 64> id{};
    const ssize_t size = ::read(ready[0], id.data(), id.size());
    if (size <= 0 || ::setgid(54321) != 0 || ::setuid(54321) != 0) ::_exit(3);
    const auto joined = ClockChannel::join(options_.clock_socket,
                                           std::string(id.data(), static_cast<std::size_t>(size)));
    if (joined.ok()) ::_exit(1);
    ::_exit(joined.error().text().find("no such lease") == std::string::npos ? 2 : 0);
  }
  start();
  const auto lease = controller_->take(peer_, {{0}, 60_s, false, ""});
  ASSERT_TRUE(lease.ok());
  ASSERT_GT(::write(ready[1], lease->id.data(), lease->id.size()), 0);
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

TEST_F(ClockChannelTest, ASocketThatNobodyListensOnIsTakenOverAndALiveOneIsNot) {
  {
    const UniqueFd stale(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
  }
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, options_.clock_socket.c_str(), sizeof address.sun_path - 1);
  {
    const UniqueFd stale(::socket(AF_UNIX, SOCK_SEQPACKET, 0));
    ASSERT_EQ(::bind(stale.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
  }
  start();
  ControllerOptions second = options_;
  second.state_file = directory_.path() / "second.json";
  Devices devices;
  auto made = Controller::start(std::move(devices), Policy(), second, *clock_);
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code, ErrorCode::kConflict);
  ClockChannel channel = taken();
  controller_.reset();
  EXPECT_FALSE(fs::exists(options_.clock_socket));
  std::ofstream(options_.clock_socket) << "no socket";
  Devices none;
  made = Controller::start(std::move(none), Policy(), second, *clock_);
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().text(), HasSubstr("is not a socket"));
}

TEST(ClockRequest, NamesAreMadePrintable) {
  const auto request = parse_clock_request("harpe.clock/1 take 60 3,1 a\x1b[31m name");
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->name, "a?[31m name");
  EXPECT_THAT(request->gpus, ElementsAre(3, 1));
}

// The owner thread of a GPU has priority over all others, so the administrator chooses its CPUs.
TEST_F(ClockChannelTest, AClientDoesNotChooseTheCpuOfTheOwner) {
  cpu_set_t all;
  ASSERT_EQ(::sched_getaffinity(0, sizeof all, &all), 0);
  std::vector<int> cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &all)) cpus.push_back(cpu);
  }
  if (cpus.size() < 2) GTEST_SKIP() << "there is one CPU";
  Mutex mutex;
  std::vector<int> seen;  // CPUs on which the owner may run, at the last call
  gpu_.before([&](const std::string& call) {
    cpu_set_t set;
    if (call == "set_locked_clocks" && ::sched_getaffinity(0, sizeof set, &set) == 0) {
      const MutexLock lock(mutex);
      seen.clear();
      for (const int cpu : cpus) {
        if (CPU_ISSET(cpu, &set)) seen.push_back(cpu);
      }
    }
    return ok_status();
  });
  const auto where_it_runs = [&] {
    start();
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpus[1], &one);
    EXPECT_EQ(::sched_setaffinity(0, sizeof one, &one), 0);
    {
      ClockChannel channel = taken();
      for (int i = 0; i < 3; ++i) served(channel, channel.set(0, {900 + 15 * i}));
    }
    EXPECT_EQ(::sched_setaffinity(0, sizeof all, &all), 0);
    controller_.reset();
    const MutexLock lock(mutex);
    return seen;
  };
  EXPECT_EQ(where_it_runs(), cpus) << "wherever the client is";
  options_.owner_cpus = {cpus[0]};
  EXPECT_THAT(where_it_runs(), ElementsAre(cpus[0]));
  options_.owner_cpus = {cpus[0], cpus[1]};
  EXPECT_THAT(where_it_runs(), ElementsAre(cpus[1])) << "that of the client, which is allowed";
}

}  // namespace
}  // namespace harpe::node
