// Starts a server of training jobs, runs thousands of simulated ranks against it, and reports lost
// messages, the delay until a change of plan reaches all ranks, and the resources that the server
// used.

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <string>

#include "load_job.h"
#include "load_run.h"
#include "load_server.h"

namespace harpe::bench {
namespace {

struct Settings {
  std::string harpe;
  std::vector<std::string> more;  ///< arguments of `harpe serve`
  LoadOptions load;
  int ranks = 10'000;
  int server_nice = 0;
  double most_p99 = 0.5, most_memory_mib = 1024;
};

double quantile_of(std::vector<double> values, double q) {
  if (values.empty()) return std::nan("");
  std::ranges::sort(values);
  const double at = q * static_cast<double>(values.size());
  const auto index = static_cast<std::size_t>(std::max(0.0, std::ceil(at) - 1));
  return values[std::min(index, values.size() - 1)];
}

void print_quantiles(const char* what, const std::vector<double>& seconds) {
  std::printf("%-46s p50 %7.1f  p99 %7.1f  max %7.1f ms  (%zu)\n", what,
              1e3 * quantile_of(seconds, 0.5), 1e3 * quantile_of(seconds, 0.99),
              1e3 * quantile_of(seconds, 1), seconds.size());
}

/// Checks all promises. Returns the broken ones, one per line.
std::vector<std::string> broken_promises(const Settings& settings, const LoadResult& result,
                                         const ProcessUse& use) {
  std::vector<std::string> broken;
  const auto expect = [&](bool kept, const std::string& what) {
    if (!kept) broken.push_back(what);
  };
  expect(result.accepted == result.sent, "not every report was accepted");
  expect(result.counted_by_server == result.sent,
         "the server counted other reports than were sent");
  expect(result.changes > 0 && !result.delays.empty(), "no change was made");
  expect(result.ranks_missed == 0, "a change did not reach every rank");
  expect(result.ranks_behind == 0, "ranks ended with old assignments");
  expect(result.connections_lost == 0, "connections were lost");
  expect(quantile_of(result.delays, 0.99) < settings.most_p99, "changes reach ranks too late");
  expect(use.most_memory_mib < settings.most_memory_mib, "the server needs too much memory");
  return broken;
}

int measure(const Settings& settings) {
  const auto failed = [](const Error& error) {
    std::fprintf(stderr, "%s\n", error.text().c_str());
    return 1;
  };
  // One event stream per rank, plus the connections for reports; the server needs as many.
  const auto ranks = static_cast<std::size_t>(settings.ranks);
  const std::size_t descriptors =
      std::min(ranks, static_cast<std::size_t>(settings.load.listeners)) +
      ranks / static_cast<std::size_t>(settings.load.ranks_a_connection) + 150;
  if (Status allowed = allow_descriptors(descriptors); !allowed.ok())
    return failed(allowed.error());
  Result<LoadJob> job = LoadJob::make(settings.load.shape);
  if (!job.ok()) return failed(job.error());

  std::string folder = (std::filesystem::temp_directory_path() / "harpe-load-XXXXXX").string();
  if (::mkdtemp(folder.data()) == nullptr) return failed(Error::io(folder, "cannot create"));
  std::vector<std::string> arguments{settings.harpe, "serve",   "--tcp",
                                     "127.0.0.1:0",  "--store", "sqlite:" + folder + "/jobs.db"};
  arguments.insert(arguments.end(), settings.more.begin(), settings.more.end());
  int status = 1;
  {
    Result<LoadServer> server = LoadServer::start(arguments, folder + "/log", settings.server_nice);
    if (!server.ok()) return failed(server.error());
    std::printf("%d ranks: %d pipelines of %d stages; iterations of %.2f s, for %.0f s\n",
                settings.ranks, settings.load.shape.data, settings.load.shape.stages,
                settings.load.shape.iteration.value, settings.load.train.value);
    std::fflush(stdout);
    LoadRun run(settings.load, *job, server->address(), server->port());
    const auto begin = std::chrono::steady_clock::now();
    const Result<LoadResult> result = run.run();
    const double wall =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const ProcessUse use = use_of(server->process()), own = use_of(::getpid());
    if (!result.ok()) {
      std::fprintf(stderr, "%s\n(the server's log: %s/log)\n", result.error().text().c_str(),
                   folder.c_str());
      return 1;
    }
    std::printf("registered in %.2f s, listening in %.2f s, planned in %.2f s more\n",
                result->register_s, result->subscribe_s, result->plan_s);
    std::printf(
        "%lld iterations; reports: %lld sent, %lld accepted, %lld refused; the server counted "
        "%lld\n",
        static_cast<long long>(result->iterations), static_cast<long long>(result->sent),
        static_cast<long long>(result->accepted), static_cast<long long>(result->refused),
        static_cast<long long>(result->counted_by_server));
    std::printf(
        "%d changes; ranks that missed one: %d; behind at the end: %d; assignments that came late: "
        "%lld\n",
        result->changes, result->ranks_missed, result->ranks_behind,
        static_cast<long long>(result->assignments_late));
    print_quantiles("from asking for a change to a rank's assignments", result->delays);
    if (!result->delays_of_others.empty())
      print_quantiles("the same, of ranks that do not listen", result->delays_of_others);
    print_quantiles("until the last rank has them", result->whole);
    print_quantiles("from a report to its response", result->responses);
    std::printf("server: %.0f MiB at most, %.1f s CPU in %.1f s; ranks: %.1f s CPU\n",
                use.most_memory_mib, use.cpu.value, wall, own.cpu.value);
    if (!result->first_fault.empty()) std::printf("first error: %s\n", result->first_fault.c_str());
    const auto broken = broken_promises(settings, *result, use);
    for (const std::string& one : broken) std::printf("NOT KEPT: %s\n", one.c_str());
    status = broken.empty() ? 0 : 1;
  }
  if (status == 0) std::filesystem::remove_all(folder);
  return status;
}

}  // namespace
}  // namespace harpe::bench

int main(int argc, char** argv) {
  harpe::bench::Settings settings;
  harpe::bench::LoadOptions& load = settings.load;
  double iteration = load.shape.iteration.value, train = load.train.value;
  double change_every = load.change_every.value, spread = load.spread.value;
  CLI::App app("Measures `harpe serve` under the load of a large training job.");
  app.add_option("--harpe", settings.harpe, "the harpe command")->required();
  app.add_option("--ranks", settings.ranks, "ranks (a multiple of the stages)")
      ->capture_default_str();
  app.add_option("--stages", load.shape.stages, "stages of a pipeline")->capture_default_str();
  app.add_option("--iteration", iteration, "seconds of an iteration")->capture_default_str();
  app.add_option("--train", train, "seconds to train for")->capture_default_str();
  app.add_option("--change-every", change_every, "seconds between changes")->capture_default_str();
  app.add_option("--spread", spread, "seconds within which ranks report")->capture_default_str();
  app.add_option("--ranks-a-connection", load.ranks_a_connection,
                 "ranks that report over one connection (each listens on its own)")
      ->check(CLI::Range(1, 1000))
      ->capture_default_str();
  app.add_option("--listeners", load.listeners,
                 "ranks that listen (default: all); the others learn by responses to their reports")
      ->check(CLI::Range(1, harpe::kMaxRanks));
  app.add_option("--server-nice", settings.server_nice,
                 "precedence of the server on this machine, as root below 0")
      ->check(CLI::Range(-20, 19))
      ->capture_default_str();
  app.add_option("--seed", load.seed, "of what is random")->capture_default_str();
  app.add_option("--most-p99", settings.most_p99, "seconds that a change may take")
      ->capture_default_str();
  app.add_option("--most-memory-mib", settings.most_memory_mib, "of the server")
      ->capture_default_str();
  app.add_option("--server-argument", settings.more, "more arguments of `harpe serve`");
  CLI11_PARSE(app, argc, argv);
  load.shape.data = std::max(1, settings.ranks / load.shape.stages);
  settings.ranks = load.shape.data * load.shape.stages;
  load.shape.iteration = harpe::Seconds{iteration};
  load.train = harpe::Seconds{train};
  load.change_every = harpe::Seconds{change_every};
  load.spread = harpe::Seconds{spread};
  return harpe::bench::measure(settings);
}
