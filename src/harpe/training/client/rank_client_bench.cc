// The cost of the calls around instructions for training.
//
//   rank_client_bench [iterations] [change]
//
// A rank runs a schedule of one stage with only a pause between the calls. The server's
// assignments, the agent's clock channel and the client's threads are real. By default all
// instructions have one clock, as during profiling and for most of the neighbours in a plan. With
// `change`, the clock changes at every instruction, which wakes the agent.
//
// It checks that every instruction arrived in a report and that each change was requested once. For
// comparison, the same run measures a bare call through a pointer, and two readings of the clock,
// which are the least cost of noting a time. Exits with 1 if a check fails, whatever the times are.

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "harpe/device/hw/system_clock.h"
#include "harpe/node/agent/controller_testing.h"
#include "harpe/node/agent/gpu_testing.h"
#include "harpe/training/client/client.h"
#include "harpe/training/client/client_testing.h"

namespace harpe::training {
namespace {

constexpr int kMicroBatches = 32;

/// Returns the duration in nanoseconds, including the reading of the clock.
template <class Call>
double timed(const Call& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - begin).count();
}

struct Times {
  double p50 = 0, p90 = 0, p99 = 0, p999 = 0;
};

Times print(const char* what, std::vector<double>& ns, double bare) {
  std::ranges::sort(ns);
  const auto at = [&](double share) {
    return ns[std::min(ns.size() - 1,
                       static_cast<std::size_t>(share * static_cast<double>(ns.size())))];
  };
  const Times times{at(0.5), at(0.9), at(0.99), at(0.999)};
  std::printf("%-24s %8zu calls  p50 %7.0f  p90 %7.0f  p99 %7.0f  p99.9 %8.0f ns", what, ns.size(),
              times.p50, times.p90, times.p99, times.p999);
  if (bare > 0) std::printf("   %.1f x a bare call", times.p50 / bare);
  std::printf("\n");
  return times;
}

void nothing() {}

int run(int iterations, bool change) {
  TestDirectory directory;
  TestServer server;
  node::TestGpu gpu(0);
  Devices devices;
  devices.gpus.push_back(gpu.device());
  node::ControllerOptions agent = node::options_in(directory);
  auto controller = node::Controller::start(std::move(devices),
                                            node::policy_of_this_user("clocks_mhz = [300, 1410]\n"),
                                            agent, system_clock());
  if (!controller.ok()) return 2;

  JobSpec spec;
  spec.schedule = *one_f_one_b({.stages = 1, .micro_batches = kMicroBatches});
  std::string clocks;
  for (int i = 0; i < 2 * kMicroBatches; ++i) {
    clocks += (i > 0 ? "," : "") + std::to_string(change && i % 2 == 1 ? 900 : 1200);
  }
  std::atomic<int> reports = 0, reported = 0;
  server.respond_by([&](const net::HttpRequest& request) -> std::optional<net::HttpResponse> {
    if (request.path.ends_with("/events")) return std::nullopt;
    std::string body = "{}";
    if (request.path.ends_with("/ranks")) {
      body =
          R"({"assignments": [{"version": 1, "from_iteration": 0, "purpose": "plan", "clocks_mhz": [)" +
          clocks + "]}]}";
    } else if (const auto report = parse_iteration_report(request.body); report.ok()) {
      ++reports;
      for (const InstructionTotals& totals : report->instructions) reported += totals.count;
    }
    return net::HttpResponse{.status = 200, .content_type = "application/json", .body = body};
  });
  RankClientOptions options;
  options.server = server.url();
  options.job = "bench";
  options.spec = spec;
  options.clock_socket = agent.clock_socket;
  const std::unique_ptr<Gpu> device = gpu.device();
  options.measured = device.get();
  options.log = [](const std::string& text) { std::printf("log: %s\n", text.c_str()); };
  auto client = RankClient::start(options);
  if (!client.ok() || !eventually([&] { return (*client)->registered(); })) return 2;

  std::vector<double> begins, ends, bare, stamps;
  const auto calls = static_cast<std::size_t>(iterations) * 2 * kMicroBatches;
  for (auto* all : {&begins, &ends, &bare, &stamps}) all->reserve(calls);
  void (*volatile call)() = &nothing;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    (*client)->on_iteration_begin(iteration);
    for (int i = 0; i < 2 * kMicroBatches; ++i) {
      const auto kind = i % 2 == 0 ? InstructionKind::kForward : InstructionKind::kBackward;
      begins.push_back(timed([&] { (*client)->on_instruction_begin(kind, 0, i / 2); }));
      ::usleep(50);  // cold caches, as after other work of the CPU
      ends.push_back(timed([&] { (*client)->on_instruction_end(); }));
      bare.push_back(timed([&] { call(); }));
      stamps.push_back(timed([&] { (void)system_clock().now(); }));
    }
  }
  const RankClient::Counts counts = (*client)->counts();
  client->reset();
  std::vector<double> copy = bare;
  std::ranges::nth_element(copy, copy.begin() + static_cast<std::ptrdiff_t>(copy.size() / 2));
  const double bare_ns = copy[copy.size() / 2];
  std::printf("%d iterations of %d instructions, %s\n", iterations, 2 * kMicroBatches,
              change ? "a clock change at each" : "one clock");
  const Times begin = print("on_instruction_begin", begins, bare_ns);
  print("on_instruction_end", ends, bare_ns);
  print("a bare call", bare, 0);
  print("reading the clock", stamps, 0);
  std::printf("%llu clock changes; the call at p99 %s 1 us\n",
              static_cast<unsigned long long>(counts.clock_changes),
              begin.p99 < 1000 ? "is below" : "IS NOT BELOW");

  bool good = counts.events_lost == 0 && counts.unexpected == 0 && counts.unknown == 0;
  if (counts.instructions != calls || reported != static_cast<int>(calls)) good = false;
  const std::uint64_t changes = change ? calls : 1;
  if (counts.clock_changes < changes || counts.clock_changes > changes + 1) good = false;
  std::printf("%d reports with %d instructions; %s\n", reports.load(), reported.load(),
              good ? "as it should be" : "WRONG");
  return good ? 0 : 1;
}

}  // namespace
}  // namespace harpe::training

int main(int argc, char** argv) {
  const int iterations = argc > 1 ? std::atoi(argv[1]) : 100;
  const bool change = argc > 2 && std::string(argv[2]) == "change";
  if (iterations < 2) {
    std::fprintf(stderr, "rank_client_bench [iterations] [change]\n");
    return 2;
  }
  return harpe::training::run(iterations, change);
}
