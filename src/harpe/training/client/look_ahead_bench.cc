// The benefit of asking for clocks ahead, on a simulated GPU whose clock takes 10 ms to change.
//
//   look_ahead_bench [iterations] [switch milliseconds]
//
// A rank runs forwards and backwards at two clocks, by a plan, without gaps or with pauses, as
// between stages. The clock of each instruction is requested
//   at its start      through the agent's channel, as without a client
//   at the last end   by the client, when the previous instruction has ended
//   ahead             by the client, 0.7 of a switch before that end (instruction/asking_ahead.h)
// The same is repeated with training an iteration ahead of its device. The client then asks
//   at the calls      when training puts the work into the device's queue
//   on the device     ahead, following the queue (RankClient::follow_stream)
// All are compared with the plan: the time and energy of the same instructions if each runs at its
// clock throughout. The agent, its channel and the server's assignments are real. The GPU is
// simulated, its queue is an imitation of CUDA's driver (scripted_cuda.cc), and figures of the GPU
// are exact values of the simulation. The lateness of a clock follows from the time of its
// instruction. It is compared with the lateness that a plan counts: the longest switch, or its
// remainder if the client asks ahead. Exits with 1 if asking ahead is no better than asking at the
// start, or following the queue no better than not following it.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller_testing.h"
#include "harpe/node/node_client/clock_channel.h"
#include "harpe/plan/instruction/asking_ahead.h"
#include "harpe/training/client/client.h"
#include "harpe/training/client/client_testing.h"
#include "harpe/training/client/scripted_cuda_testing.h"

namespace harpe::training {
namespace {

constexpr int kMicroBatches = 8;
constexpr Megahertz kForwardClock{1410}, kBackwardClock{1050};
constexpr Seconds kForwardTime{0.03}, kBackwardTime{0.06};  // at the highest clock
constexpr double kMemoryBound = 0.15;
constexpr int kWarmUp = 2;  // iterations
/// The longest of some hundred switches over their median: their logarithms have a deviation of
/// 0.05 (`switch_spread`).
constexpr double kLongestSwitch = 1.15;
constexpr Seconds kToCall{0.001};  // `call_ms`; the bench cannot detect less

enum class Asking { kAtItsStart, kAtTheLastEnd, kAhead, kAtTheCalls, kOnTheDevice };
constexpr const char* kNames[] = {"at its start", "at the last end", "ahead", "at the calls",
                                  "on the device"};

struct Outcome {
  double time = 0, energy = 0;  ///< of an iteration
  int began = 0, at_clock = 0;  ///< instructions; number that began at their clock
  double wrong = 0;             ///< seconds of all instructions at the clock of a neighbour
  int as_counted = 0;           ///< instructions that are at that clock no longer than plans count
};

/// Returns the lateness that plans count for the longest switch.
Seconds counted(Asking asking, double switch_ms) {
  const LatencyByClock longest = Seconds{kLongestSwitch * switch_ms / 1000};
  const bool is_ahead = asking == Asking::kAhead || asking == Asking::kOnTheDevice;
  return is_ahead ? plan::remaining_latency(longest, {}, kForwardTime).longest()
                  : longest.longest();
}

struct Bench {
  ScriptedCuda cuda;
  TestDirectory directory;
  std::shared_ptr<Simulation> simulation;
  std::unique_ptr<node::Controller> controller;
  SimulatedWork forward, backward;
  std::unique_ptr<Gpu> measured;
  node::ControllerOptions agent;

  bool start(double switch_ms) {
    const std::filesystem::path file = directory.path() / "simulation.toml";
    std::ofstream(file) << "state_file = \"" << (directory.path() / "gpus").string()
                        << "\"\n[[gpu]]\nmodel = \"a100-sxm\"\ngain = 1.0\nlimit_softness = 0.0\n"
                           "call_ms = 1\nswitch_spread = 0.1\nslow_target_share = 0\n"
                           "slow_pair_share = 0\nidle_power_w = 83.64\nleakage = 0.0\nswitch_ms = "
                        << switch_ms << "\n";
    auto opened = Simulation::open(file);
    if (!opened.ok()) return false;
    simulation = *std::move(opened);
    Devices devices;
    devices.gpus.push_back(simulation->gpu(0));
    measured = simulation->gpu(0);
    agent = node::options_in(directory);
    auto made = node::Controller::start(std::move(devices),
                                        node::policy_of_this_user("clocks_mhz = [210, 1410]\n"),
                                        agent, system_clock());
    if (!made.ok()) return false;
    controller = *std::move(made);
    forward = simulation->model_work(0, kForwardTime, kMemoryBound);
    backward = simulation->model_work(0, kBackwardTime, kMemoryBound);
    return true;
  }

  static const SimulatedWork::Point& at(const SimulatedWork& work, Megahertz clock) {
    for (const SimulatedWork::Point& point : work.points) {
      if (point.clock == clock) return point;
    }
    return work.points.back();
  }
  /// Returns how long an instruction ran at the clock of the other kind, based on its duration.
  double wrong_time(bool is_forward, const Simulation::Span& span) const {
    const SimulatedWork& work = is_forward ? forward : backward;
    const double right = at(work, is_forward ? kForwardClock : kBackwardClock).time.value;
    const double wrong = at(work, is_forward ? kBackwardClock : kForwardClock).time.value;
    return std::max(0.0, (1 - (span.end - span.begin).value / right) / (1 / wrong - 1 / right));
  }
  double planned_time(double pause) const {
    return kMicroBatches * (at(forward, kForwardClock).time.value +
                            at(backward, kBackwardClock).time.value + 2 * pause);
  }
  double planned_energy(double pause) const {
    const auto used = [](const SimulatedWork::Point& point) {
      return (point.power * point.time).value;
    };
    return kMicroBatches * (used(at(forward, kForwardClock)) + used(at(backward, kBackwardClock)) +
                            2 * pause * 83.64);
  }

  Outcome run(Asking asking, int iterations, double pause, double switch_ms) {
    TestServer server;
    std::string clocks;
    for (int i = 0; i < 2 * kMicroBatches; ++i) {
      clocks += (i > 0 ? "," : "") +
                std::to_string(i % 2 == 0 ? kForwardClock.value : kBackwardClock.value);
    }
    server.respond_by([&](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
      if (request.path.ends_with("/events")) return std::nullopt;
      return net::HttpResponse{
          .status = 200,
          .content_type = "application/json",
          .body = R"({"assignments": [{"version": 1, "from_iteration": 0, "purpose": )"
                  R"("plan", "clocks_mhz": [)" +
                  clocks + "]}]}"};
    });
    std::optional<node::ClockChannel> channel;
    std::unique_ptr<RankClient> client;
    if (asking == Asking::kAtItsStart) {
      auto taken = node::ClockChannel::take(agent.clock_socket, {0}, Seconds{60}, "bench");
      if (!taken.ok()) std::abort();
      channel = *std::move(taken);
    } else {
      RankClientOptions options;
      options.server = server.url();
      options.job = "bench";
      options.spec.schedule = *one_f_one_b({.stages = 1, .micro_batches = kMicroBatches});
      options.clock_socket = agent.clock_socket;
      options.measured = measured.get();
      options.log = [](const std::string&) {};  // the stream is not followed on purpose
      options.spec.switch_latency = Seconds{kLongestSwitch * switch_ms / 1000};
      if (asking == Asking::kAtTheLastEnd) options.look_ahead = Seconds{0};
      auto started = RankClient::start(options);
      if (!started.ok()) std::abort();
      client = *std::move(started);
      if (!eventually([&] { return client->registered(); })) std::abort();
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    const bool runs_ahead = asking == Asking::kAtTheCalls || asking == Asking::kOnTheDevice;
    if (asking == Asking::kOnTheDevice && !client->follow_stream(nullptr).ok()) std::abort();
    Outcome outcome;
    SimulatedTruth begin{};
    // Runs work on the device, when the device reaches it.
    const auto put = [&](std::function<void()> work) {
      if (runs_ahead) {
        cuda.put(std::move(work));
      } else {
        work();
      }
    };
    for (int iteration = 0; iteration < iterations + kWarmUp; ++iteration) {
      if (client) client->on_iteration_begin(iteration);
      for (int i = 0; i < 2 * kMicroBatches; ++i) {
        const bool is_forward = i % 2 == 0;
        const auto kind = is_forward ? InstructionKind::kForward : InstructionKind::kBackward;
        put([&, iteration, i] {
          if (iteration == kWarmUp && i == 0) begin = simulation->truth(0);
          if (pause > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pause));
        });
        if (client) client->on_instruction_begin(kind, 0, i / 2);
        put([&, iteration, is_forward] {
          const Megahertz clock = is_forward ? kForwardClock : kBackwardClock;
          if (channel) channel->set(0, clock);
          if (iteration >= kWarmUp) {
            ++outcome.began;
            outcome.at_clock += simulation->truth(0).clock == clock ? 1 : 0;
          }
          const auto span = simulation->run(0, is_forward ? forward : backward);
          if (!span.ok()) std::abort();
          if (iteration < kWarmUp) return;
          const double wrong = wrong_time(is_forward, *span);
          outcome.wrong += wrong;
          outcome.as_counted += wrong <= (counted(asking, switch_ms) + kToCall).value ? 1 : 0;
        });
        if (client) client->on_instruction_end();
      }
      if (runs_ahead) cuda.wait();
    }
    const SimulatedTruth end = simulation->truth(0);
    outcome.time = (end.time - begin.time).value / iterations;
    outcome.energy = (end.energy - begin.energy).value / iterations;
    return outcome;
  }
};

int run(int iterations, double switch_ms) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  Bench bench;
  if (!bench.start(switch_ms)) return 2;
  bool good = true;
  for (const double pause : {0.0, 0.005, 0.02}) {
    const double time = bench.planned_time(pause), energy = bench.planned_energy(pause);
    std::printf(
        "pauses of %.0f ms, a switch takes %.0f ms; the plan: %.1f ms, %.1f J an iteration\n",
        1000 * pause, switch_ms, 1000 * time, energy);
    double wrong[std::size(kNames)] = {};
    for (std::size_t how = 0; how < std::size(kNames); ++how) {
      const Outcome outcome = bench.run(static_cast<Asking>(how), iterations, pause, switch_ms);
      wrong[how] = 1000 * outcome.wrong / outcome.began;
      std::printf(
          "  %-16s %5.1f %% began at their clock; %5.2f ms each at the clock of a neighbour, %5.1f "
          "%% "
          "of them no longer than the %.1f ms of a plan; time %+5.2f %%, energy %+5.2f %%\n",
          kNames[how], 100.0 * outcome.at_clock / outcome.began, wrong[how],
          100.0 * outcome.as_counted / outcome.began,
          1000 * counted(static_cast<Asking>(how), switch_ms).value,
          100 * (outcome.time / time - 1), 100 * (outcome.energy / energy - 1));
    }
    good = good && wrong[2] < 0.6 * wrong[0] && wrong[4] < 0.6 * wrong[3];
  }
  std::printf("%s\n", good ? "asking ahead and following are better" : "NO BETTER");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace harpe::training

int main(int argc, char** argv) {
  const int iterations = argc > 1 ? std::atoi(argv[1]) : 5;
  const double switch_ms = argc > 2 ? std::atof(argv[2]) : 10;
  if (iterations < 1 || !(switch_ms > 0)) {
    std::fprintf(stderr, "look_ahead_bench [iterations] [switch milliseconds]\n");
    return 2;
  }
  return harpe::training::run(iterations, switch_ms);
}
