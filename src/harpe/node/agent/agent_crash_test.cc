// Kills the agent a thousand times at random points, while clients take leases and set clocks and
// limits on simulated GPUs that all processes share. The next agent must restore every setting.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <future>
#include <random>
#include <string>
#include <thread>

#include "harpe/base/file.h"
#include "harpe/base/test_directory_testing.h"
#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller.h"
#include "harpe/node/node_client/clock_channel.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
constexpr int kGpus = 2;
constexpr int kRounds = 1000;

void pause_for(std::int64_t microseconds) {
  const timespec time{0, static_cast<long>(microseconds * 1000)};
  ::clock_nanosleep(CLOCK_MONOTONIC, 0, &time, nullptr);
}

/// All settings that the agent can change.
struct Settings {
  std::optional<ClockRange> graphics, memory;
  Watts limit;
  bool persistence = false;
  friend bool operator==(const Settings&, const Settings&) = default;
};

Settings settings_of(Gpu& gpu) {
  Settings settings;
  settings.graphics = *gpu.locked_clocks(ClockDomain::kGraphics);
  settings.memory = *gpu.locked_clocks(ClockDomain::kMemory);
  settings.limit = *gpu.power_limit();
  settings.persistence = *gpu.persistence_mode();
  return settings;
}

std::ostream& operator<<(std::ostream& out, const Settings& settings) {
  return out << settings.limit.value << " W, "
             << (settings.graphics ? settings.graphics->lowest.value : 0) << " MHz, memory "
             << (settings.memory ? settings.memory->lowest.value : 0) << " MHz, persistence "
             << settings.persistence;
}

class AgentCrash : public ::testing::Test {
 protected:
  AgentCrash() {
    options_.state_file = directory_ / "state.json";
    options_.clock_socket = directory_ / "clock.sock";
    options_.minimum_dwell = 0_s;
    options_.prompt_owners = false;
    options_.leases = {.per_user = 64, .per_second = 1e6, .at_once = 1e6};
    EXPECT_TRUE(write_file(directory_ / "sim.toml",
                           "state_file = \"" + (directory_ / "gpus").string() +
                               "\"\n[[gpu]]\nmodel = \"a100-sxm\"\ncount = 2\ncall_ms = 0.1\n")
                    .ok());
    simulation_ = *Simulation::open(directory_ / "sim.toml");
    for (int i = 0; i < kGpus; ++i) gpus_[static_cast<std::size_t>(i)] = simulation_->gpu(i);
  }

  std::unique_ptr<Controller> started() const {
    const auto simulation = *Simulation::open(directory_ / "sim.toml");
    Devices devices;
    for (int i = 0; i < kGpus; ++i) devices.gpus.push_back(simulation->gpu(i));
    const std::string me = std::to_string(::getuid());
    auto policy = Policy::parse("[[allow]]\nusers = [" + me +
                                    "]\ngpus = '*'\nclocks_mhz = [210, 1410]\n"
                                    "memory_clocks_mhz = [1, 9999]\npower_limit_w = [100, 400]\n"
                                    "persistence_mode = true\n",
                                "policy.toml");
    auto controller = Controller::start(std::move(devices), *policy, options_, system_clock());
    if (!controller.ok()) {
      std::fprintf(stderr, "%s\n", controller.error().text().c_str());
      ::_exit(1);
    }
    return *std::move(controller);
  }

  /// Takes leases of GPU 1 and changes all settings, until it is killed.
  [[noreturn]] static void use(Controller& controller, unsigned seed) {
    std::mt19937 random(seed);
    const auto upto = [&](int highest) {
      return std::uniform_int_distribution<int>(0, highest)(random);
    };
    net::Peer peer;
    peer.uid = ::getuid();
    for (;;) {
      const auto lease = controller.take(peer, {{1}, 60_s, false, "use"});
      if (!lease.ok()) continue;
      for (int i = 1 + upto(5); i > 0; --i) {
        Setting setting;
        const int kind = upto(3);
        if (kind == 0) {
          setting.kind = Setting::Kind::kPowerLimit;
          setting.limit = Watts{150.0 + upto(200)};
        } else if (kind == 1) {
          const int clock = 210 + 15 * upto(80);
          setting.clocks = {{clock}, {clock}};
        } else if (kind == 2) {
          setting.domain = ClockDomain::kMemory;
          setting.clocks = {{1593}, {1593}};
        } else {
          setting.kind = Setting::Kind::kPersistenceMode;
          setting.enabled = upto(1) == 0;
        }
        std::promise<void> done;
        controller.apply(peer, lease->id, 1, setting,
                         [&](const Result<Applied>&) { done.set_value(); });
        done.get_future().wait();
      }
      std::promise<void> done;
      controller.release(peer, lease->id, [&](const Status&) { done.set_value(); });
      done.get_future().wait();
    }
  }

  /// Runs the agent's process: reports that it is ready, waits for a signal, serves until killed.
  [[noreturn]] void run_agent(int says, int hears, unsigned seed) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    const auto controller = started();
    char word = 'r';
    if (::write(says, &word, 1) != 1 || ::read(hears, &word, 1) != 1) ::_exit(0);
    use(*controller, seed);
  }

  /// Runs a client's process, which repeatedly takes GPU 0 through a clock channel and sets clocks.
  [[noreturn]] void run_client(unsigned seed) const {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // also if the test fails
    std::mt19937 random(seed);
    std::uniform_int_distribution<int> clock(210, 1410), count(1, 40);
    for (;;) {
      auto channel = ClockChannel::take(options_.clock_socket, {0}, 60_s, "client");
      if (!channel.ok()) {
        pause_for(200);
        continue;
      }
      for (int i = count(random); i > 0; --i) {
        channel->set(0, {clock(random)});
        pause_for(50);
      }
    }
  }

  /// Stops the client process, so that it takes no lease until it is continued.
  static void hold(pid_t client) {
    ::kill(client, SIGSTOP);
    ::waitpid(client, nullptr, WUNTRACED);
  }

  Settings random_settings(std::mt19937& random, Gpu& gpu) const {
    std::uniform_int_distribution<int> step(0, 80), watts(150, 400), coin(0, 1);
    const int low = 210 + 15 * step(random);
    const bool locked = coin(random) == 0;
    if (locked) {
      EXPECT_TRUE(gpu.set_locked_clocks(ClockDomain::kGraphics, {{low}, {1410}}).ok());
    } else {
      EXPECT_TRUE(gpu.reset_locked_clocks(ClockDomain::kGraphics).ok());
    }
    EXPECT_TRUE(gpu.set_power_limit({static_cast<double>(watts(random))}).ok());
    EXPECT_TRUE(gpu.set_persistence_mode(coin(random) == 0).ok());
    return settings_of(gpu);
  }

  /// In memory, as /run is, so that a thousand starts take seconds.
  const TestDirectory directory_{fs::exists("/dev/shm") ? "/dev/shm" : fs::temp_directory_path()};
  ControllerOptions options_;
  std::shared_ptr<Simulation> simulation_;
  std::array<std::unique_ptr<Gpu>, kGpus> gpus_;
};

TEST_F(AgentCrash, LeavesNoGpuChangedWithoutALeaseAfterTheNextStart) {
  const char* given = std::getenv("HARPE_SEED");
  const unsigned seed =
      given != nullptr ? static_cast<unsigned>(std::atol(given)) : std::random_device()();
  std::printf("seed %u (HARPE_SEED)\n", seed);
  std::mt19937 random(seed);
  const auto upto = [&](int highest) {
    return std::uniform_int_distribution<int>(0, highest)(random);
  };
  const pid_t client = ::fork();
  if (client == 0) run_client(seed + 1);
  std::array<Settings, kGpus> before;
  for (std::size_t i = 0; i < kGpus; ++i) before[i] = random_settings(random, *gpus_[i]);

  int left_changed = 0, killed_while_starting = 0;
  for (int round = 0; round < kRounds; ++round) {
    std::array<int, 2> from_agent{}, to_agent{};
    ASSERT_EQ(::pipe(from_agent.data()) + ::pipe(to_agent.data()), 0);
    const auto agent_seed = static_cast<unsigned>(random());
    const bool early = round + 1 < kRounds && upto(3) == 0;
    if (!early) hold(client);
    const pid_t agent = ::fork();
    if (agent == 0) run_agent(from_agent[1], to_agent[0], agent_seed);
    ::close(from_agent[1]);
    ::close(to_agent[0]);
    if (early) {
      pause_for(upto(4000));
      ++killed_while_starting;
    } else {
      char word = 0;
      ASSERT_EQ(::read(from_agent[0], &word, 1), 1) << "the agent did not start, round " << round;
      for (std::size_t i = 0; i < kGpus; ++i) {
        ASSERT_EQ(settings_of(*gpus_[i]), before[i]) << "seed " << seed << " round " << round;
        if (upto(3) == 0) before[i] = random_settings(random, *gpus_[i]);
      }
      ::kill(client, SIGCONT);
      ASSERT_EQ(::write(to_agent[1], &word, 1), 1);
      pause_for(upto(8000));
    }
    ::kill(agent, SIGKILL);
    ::waitpid(agent, nullptr, 0);
    ::close(from_agent[0]);
    ::close(to_agent[1]);
    for (std::size_t i = 0; i < kGpus; ++i) left_changed += settings_of(*gpus_[i]) != before[i];
  }
  ::kill(client, SIGKILL);
  ::waitpid(client, nullptr, 0);
  // Without a client, the next agent has no lease on either GPU.
  const pid_t agent = ::fork();
  if (agent == 0) {
    started().reset();
    ::_exit(0);
  }
  int status = 0;
  ::waitpid(agent, &status, 0);
  EXPECT_EQ(status, 0);
  for (std::size_t i = 0; i < kGpus; ++i) EXPECT_EQ(settings_of(*gpus_[i]), before[i]) << i;
  std::printf("%d agents killed, %d of them while starting; %d times a GPU was left changed\n",
              kRounds, killed_while_starting, left_changed);
  EXPECT_GT(left_changed, kRounds / 10) << "the agent was not killed where it matters";
}

}  // namespace
}  // namespace harpe::node
