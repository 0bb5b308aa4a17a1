// Time of a clock command from the client's call to the driver's call: the agent's own overhead.
//
//   clock_channel_bench [seconds] [clients] [commands a second of each] [prompt|plain] [free|bound]
//                       [follow|stay]
//
// Clients are processes, each with a lease on its own GPU, that send commands at random times
// around the rate; `bound` binds each to one CPU, as batch systems do with ranks. The GPUs only
// record the time and the clock of each driver call; the minimum dwell is off. For comparison, in
// the same run, the same clients wake a bare thread of the same priority on the same CPU through a
// pipe (a tenth as often). This is the time of a wake-up by the kernel, without the agent.
//
// The benchmark checks that the last clock requested by each client was applied, and that no
// command was applied twice or out of order. It exits with 1 if a check fails, at any speed.

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller_testing.h"
#include "harpe/node/node_client/clock_channel.h"

namespace harpe::node {
namespace {

namespace fs = std::filesystem;
constexpr int kClocks = 4096;
constexpr int kMostClients = 64;
constexpr int kBareEvery = 10;

std::int64_t now_ns() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return std::int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

void sleep_until_ns(std::int64_t when) {
  const timespec time{static_cast<time_t>(when / 1'000'000'000),
                      static_cast<long>(when % 1'000'000'000)};
  ::clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &time, nullptr);
}

/// Memory shared by the clients and the benchmark.
struct Shared {
  struct alignas(64) Client {
    std::array<std::atomic<std::int64_t>, kClocks> called;  ///< time of the request for each clock
    std::array<std::atomic<bool>, kClocks> moved;  ///< requested from another CPU than before
    std::atomic<int> last_clock;
    std::atomic<int> finished;  ///< 1: the last command was served; 2: it was not
    std::atomic<std::int64_t> bare_called;
    std::atomic<int> cpu;
    std::atomic<std::int64_t> calls_took;  ///< ns, sum over all calls
  };
  std::array<Client, kMostClients> clients;
  std::atomic<int> go, leave;
};

/// A GPU that records the time of each driver call.
class NotingGpu final : public Gpu {
 public:
  NotingGpu(int index, Shared::Client& client) : client_(client) {
    identity_.index = index;
    identity_.uuid = "GPU-bench-" + std::to_string(index);
  }
  const GpuIdentity& identity() const override { return identity_; }
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain) override {
    std::vector<Megahertz> clocks;
    for (int clock = 1; clock <= kClocks; ++clock) clocks.push_back({clock});
    return clocks;
  }
  Status set_locked_clocks(ClockDomain, ClockRange range) override {
    const std::int64_t now = now_ns();
    const auto position = static_cast<std::size_t>(range.lowest.value - 1);
    (client_.moved[position] ? moved : stayed).push_back(now - client_.called[position].load());
    applied.push_back(range.lowest.value);
    return ok_status();
  }
  Status reset_locked_clocks(ClockDomain) override { return ok_status(); }

  std::vector<std::int64_t> moved, stayed;  ///< ns, from the client's call to the driver's call
  std::vector<int> applied;

 private:
  GpuIdentity identity_;
  Shared::Client& client_;
};

/// A device for the controller to own. The records of the NotingGpu are read after the controller
/// is gone.
class LentGpu final : public Gpu {
 public:
  explicit LentGpu(NotingGpu& gpu) : gpu_(gpu) {}
  const GpuIdentity& identity() const override { return gpu_.identity(); }
  std::filesystem::path owner_lock() const override { return {}; }
  Result<std::vector<Megahertz>> supported_clocks(ClockDomain domain) override {
    return gpu_.supported_clocks(domain);
  }
  Status set_locked_clocks(ClockDomain domain, ClockRange range) override {
    return gpu_.set_locked_clocks(domain, range);
  }
  Status reset_locked_clocks(ClockDomain domain) override {
    return gpu_.reset_locked_clocks(domain);
  }

 private:
  NotingGpu& gpu_;
};

struct Settings {
  double seconds = 10;
  int clients = 8;
  double rate = 200;
  bool prompt = true;
  bool bound = false;
  bool follow = true;  ///< owners may move to the CPUs of their clients
};

void bind_to_cpu(int cpu) {
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(cpu, &one);
  ::sched_setaffinity(0, sizeof one, &one);
}

[[noreturn]] void run_client(const Settings& settings, int index, Shared& shared,
                             const fs::path& socket, int bare) {
  ::prctl(PR_SET_TIMERSLACK, 1);
  if (settings.bound) bind_to_cpu(index % static_cast<int>(std::thread::hardware_concurrency()));
  Shared::Client& mine = shared.clients[static_cast<std::size_t>(index)];
  while (shared.go == 0) sleep_until_ns(now_ns() + 1'000'000);
  auto channel = ClockChannel::take(socket, {index}, 600_s, "bench");
  if (!channel.ok()) {
    std::fprintf(stderr, "client %d: %s\n", index, channel.error().text().c_str());
    mine.finished = 2;
    ::_exit(1);
  }
  std::mt19937_64 random(static_cast<unsigned>(index) + 1);
  const double period = 1e9 / settings.rate;
  std::uniform_real_distribution<double> pause(0.4 * period, 1.6 * period);
  const int commands = static_cast<int>(settings.seconds * settings.rate);
  std::uint32_t sequence = 0;
  int clock = 0, cpu = -1;
  std::int64_t next = now_ns();
  for (int i = 0; i < commands; ++i) {
    next = std::max(now_ns(), next + static_cast<std::int64_t>(pause(random)));
    sleep_until_ns(next);
    clock = 1 + i % kClocks;
    const int cpu_before = std::exchange(cpu, ::sched_getcpu());
    mine.moved[static_cast<std::size_t>(clock - 1)] = cpu != cpu_before;
    const std::int64_t begin = now_ns();
    mine.called[static_cast<std::size_t>(clock - 1)] = begin;
    sequence = channel->set(0, {clock});
    mine.calls_took += now_ns() - begin;
    if (i % kBareEvery == 0) {
      sleep_until_ns(now_ns() + static_cast<std::int64_t>(period / 3));
      mine.cpu = ::sched_getcpu();
      mine.bare_called = now_ns();
      const char who = static_cast<char>(index);
      [[maybe_unused]] const ssize_t written = ::write(bare, &who, 1);
    }
  }
  mine.last_clock = clock;
  const std::int64_t until = now_ns() + 5'000'000'000;
  while (channel->served(0).sequence != sequence && now_ns() < until) {
    sleep_until_ns(now_ns() + 1'000'000);
  }
  const ClockChannel::Served served = channel->served(0);
  const bool good = served.sequence == sequence && served.outcome == ClockOutcome::kApplied &&
                    served.clock.value == clock;
  mine.finished = good ? 1 : 2;
  while (shared.leave == 0) sleep_until_ns(now_ns() + 1'000'000);
  ::_exit(0);
}

/// Runs a thread like that of an owner, but without work.
void run_bare(int descriptor, bool prompt, Shared& shared, std::vector<std::int64_t>& latencies) {
  if (prompt) {
    sched_param first{};
    first.sched_priority = 1;
    ::pthread_setschedparam(::pthread_self(), SCHED_FIFO, &first);
  }
  int cpu = -1;
  for (;;) {
    pollfd polled{descriptor, POLLIN, 0};
    ::ppoll(&polled, 1, nullptr, nullptr);
    const std::int64_t now = now_ns();
    char who = 0;
    if (::read(descriptor, &who, 1) != 1) return;
    Shared::Client& client = shared.clients[static_cast<unsigned char>(who)];
    latencies.push_back(now - client.bare_called);
    if (!prompt || client.cpu == cpu) continue;
    cpu = client.cpu;
    bind_to_cpu(cpu);
  }
}

void print(const char* what, std::vector<std::int64_t>& ns) {
  std::ranges::sort(ns);
  const auto at = [&](double share) {
    if (ns.empty()) return 0.0;
    const auto position = static_cast<std::size_t>(share * static_cast<double>(ns.size()));
    return static_cast<double>(ns[std::min(position, ns.size() - 1)]) / 1000;
  };
  std::printf("%-26s %7zu  p50 %6.1f  p90 %6.1f  p99 %6.1f  p99.9 %6.1f  most %6.1f us\n", what,
              ns.size(), at(0.5), at(0.9), at(0.99), at(0.999), at(1));
}

int run(const Settings& settings) {
  void* memory =
      ::mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto& shared = *new (memory) Shared{};
  const TestDirectory directory;
  std::array<int, 2> bare{};
  if (::pipe2(bare.data(), O_CLOEXEC) != 0) return 1;
  ControllerOptions options = options_in(directory);
  options.prompt_owners = settings.prompt;
  const int cpus = static_cast<int>(std::thread::hardware_concurrency());
  for (int cpu = 0; settings.follow && cpu < cpus; ++cpu) options.owner_cpus.push_back(cpu);
  for (int i = 0; i < settings.clients; ++i) {
    if (::fork() == 0) run_client(settings, i, shared, options.clock_socket, bare[1]);
  }
  ::close(bare[1]);

  std::vector<std::unique_ptr<NotingGpu>> gpus;
  Devices devices;
  for (int i = 0; i < settings.clients; ++i) {
    gpus.push_back(std::make_unique<NotingGpu>(i, shared.clients[static_cast<std::size_t>(i)]));
    gpus.back()->moved.reserve(1 << 20);
    gpus.back()->stayed.reserve(1 << 20);
    gpus.back()->applied.reserve(1 << 20);
    devices.gpus.push_back(std::make_unique<LentGpu>(*gpus.back()));
  }
  auto controller = Controller::start(
      std::move(devices), policy_of_this_user("clocks_mhz = [1, 4096]\n"), options, system_clock());
  if (!controller.ok()) {
    std::fprintf(stderr, "%s\n", controller.error().text().c_str());
    shared.go = shared.leave = 1;
    return 1;
  }
  std::vector<std::int64_t> bare_latencies;
  bare_latencies.reserve(1 << 20);
  std::thread bare_thread([&] { run_bare(bare[0], settings.prompt, shared, bare_latencies); });
  shared.go = 1;
  bool good = true;
  for (int i = 0; i < settings.clients; ++i) {
    while (shared.clients[static_cast<std::size_t>(i)].finished == 0) {
      sleep_until_ns(now_ns() + 20'000'000);
    }
  }
  std::vector<std::int64_t> moved, stayed;
  double calls_took = 0;
  for (int i = 0; i < settings.clients; ++i) {
    const auto& client = shared.clients[static_cast<std::size_t>(i)];
    const NotingGpu& gpu = *gpus[static_cast<std::size_t>(i)];
    const auto is_step = [](int a, int b) { return b > a || (a > kClocks / 2 && b < kClocks / 2); };
    bool in_order = !gpu.applied.empty();
    for (std::size_t j = 1; j < gpu.applied.size(); ++j) {
      in_order &= is_step(gpu.applied[j - 1], gpu.applied[j]);
    }
    if (client.finished != 1 || !in_order || gpu.applied.back() != client.last_clock) {
      std::printf("client %d: the last clock wanted, %d MHz, was not the last applied\n", i,
                  client.last_clock.load());
      good = false;
    }
    moved.insert(moved.end(), gpu.moved.begin(), gpu.moved.end());
    stayed.insert(stayed.end(), gpu.stayed.begin(), gpu.stayed.end());
    calls_took += static_cast<double>(client.calls_took);
  }
  shared.leave = 1;
  while (::wait(nullptr) > 0) {
  }
  bare_thread.join();
  const Controller::Counts counts = (*controller)->counts();
  controller->reset();
  std::printf("%d %s clients, each %.0f commands a second for %.0f s, %s owners, %u CPUs\n",
              settings.clients, settings.bound ? "bound" : "free", settings.rate, settings.seconds,
              settings.prompt ? "prompt" : "plain", std::thread::hardware_concurrency());
  std::vector<std::int64_t> all = stayed;
  all.insert(all.end(), moved.begin(), moved.end());
  print("client call to driver call", all);
  print("  from the CPU as before", stayed);
  print("  from another CPU", moved);
  print("bare wake-up, same run", bare_latencies);
  std::printf("a call took the client %.1f us on average; %llu commands were overtaken by newer\n",
              calls_took / 1000 / (settings.seconds * settings.rate * settings.clients),
              static_cast<unsigned long long>(counts.clock_commands_coalesced));
  return good ? 0 : 1;
}

}  // namespace
}  // namespace harpe::node

int main(int argc, char** argv) {
  harpe::node::Settings settings;
  if (argc > 1) settings.seconds = std::atof(argv[1]);
  if (argc > 2) settings.clients = std::atoi(argv[2]);
  if (argc > 3) settings.rate = std::atof(argv[3]);
  if (argc > 4) settings.prompt = std::string(argv[4]) != "plain";
  if (argc > 5) settings.bound = std::string(argv[5]) == "bound";
  if (argc > 6) settings.follow = std::string(argv[6]) != "stay";
  if (!(settings.seconds > 0) || settings.clients < 1 ||
      settings.clients > harpe::node::kMostClients || !(settings.rate > 0)) {
    std::fprintf(stderr,
                 "clock_channel_bench [seconds] [clients] [rate] [prompt|plain] [free|bound] "
                 "[follow|stay]\n");
    return 2;
  }
  return harpe::node::run(settings);
}
