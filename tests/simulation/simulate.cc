// Runs seeds of a simulated cluster: docs/reliability.md.
//
//   simulate --seeds FIRST COUNT     each in a separate process, on all cores
//   simulate --list SEED...          these seeds
//   simulate --seed N [--trace]      one seed, and prints every event
//
// `simulate --plans N ...` computes frontiers of N plans instead of 12. With 4, a seed takes half
// as long. Its history differs from that with 12.

#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "simulation/cluster.h"
#include "simulation/require.h"

namespace harpe::simulation {
namespace {

constexpr double kWithin = 0.93;    // least share of claims within their 95 % intervals
constexpr unsigned kLongest = 600;  // s for a seed, which takes about one

struct Total {
  Figures figures;
  std::uint64_t events = 0, seeds = 0;
};

/// A request of the command line.
struct Request {
  std::vector<std::uint64_t> seeds;
  Cluster::Options options;  ///< of each seed
  bool is_single = false;
};

Total play(std::uint64_t seed, Cluster::Options options) {
  options.seed = seed;
  Cluster cluster(std::move(options));
  Total total;
  total.figures = cluster.run();
  total.events = cluster.events();
  total.seeds = 1;
  return total;
}

void print(const Total& total, double seconds) {
  const Figures& all = total.figures;
  std::printf(
      "%llu seeds, %llu events, %llu requests, %llu diagnostics: %llu iterations (%llu by plans), "
      "%llu "
      "of them mixed, for %.1f s at the longest; %llu ranks at free clocks; %llu moves of jobs, "
      "%llu deletions, %llu starts of training; %llu times 100 iterations, at most %.2f %% slower "
      "than their objective; %llu pauses, of %llu of which not all ranks knew; %llu of %llu claims "
      "of savings within their bar; %.1f s\n",
      static_cast<unsigned long long>(total.seeds), static_cast<unsigned long long>(total.events),
      static_cast<unsigned long long>(all.requests),
      static_cast<unsigned long long>(all.diagnostics),
      static_cast<unsigned long long>(all.iterations), static_cast<unsigned long long>(all.planned),
      static_cast<unsigned long long>(all.mixed), all.longest_mixed,
      static_cast<unsigned long long>(all.free), static_cast<unsigned long long>(all.moves),
      static_cast<unsigned long long>(all.deletions), static_cast<unsigned long long>(all.starts),
      static_cast<unsigned long long>(all.windows), all.slowest_window * 100,
      static_cast<unsigned long long>(all.pauses), static_cast<unsigned long long>(all.split),
      static_cast<unsigned long long>(all.claims_within),
      static_cast<unsigned long long>(all.claims), seconds);
}

/// A seed in a separate process, since it can end in the middle.
struct Child {
  pid_t pid = -1;
  int figures = -1;  ///< pipe for its figures
  std::uint64_t seed = 0;
  std::size_t slot = 0;
};

/// A scheduler stays on the CPU where it starts, so no two start on the same one.
void move_to(std::size_t slot) {
  cpu_set_t all;
  if (::sched_getaffinity(0, sizeof all, &all) != 0) return;
  for (std::size_t cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &all) || slot-- > 0) continue;
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(cpu, &one);
    (void)::sched_setaffinity(0, sizeof one, &one);
    return;
  }
}

Child begin(std::uint64_t seed, const Cluster::Options& options, std::size_t slot) {
  int ends[2];
  if (::pipe(ends) != 0) std::abort();
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::close(ends[0]);
    move_to(slot);
    ::alarm(kLongest);
    const Total total = play(seed, options);
    if (::write(ends[1], &total, sizeof total) != static_cast<ssize_t>(sizeof total)) ::_exit(1);
    ::_exit(0);
  }
  ::close(ends[1]);
  return {pid, ends[0], seed, slot};
}

int play_all(const Request& request) {
  const std::vector<std::uint64_t>& seeds = request.seeds;
  const auto began = std::chrono::steady_clock::now();
  std::vector<std::size_t> slots(std::max(1U, std::thread::hardware_concurrency()));
  std::iota(slots.begin(), slots.end(), std::size_t{0});
  std::vector<Child> children;
  Total total;
  std::vector<std::uint64_t> failed;
  std::size_t next = 0;
  while (next < seeds.size() || !children.empty()) {
    while (next < seeds.size() && !slots.empty()) {
      children.push_back(begin(seeds[next++], request.options, slots.back()));
      slots.pop_back();
    }
    int status = 0;
    const pid_t ended = ::wait(&status);
    const auto child =
        std::ranges::find_if(children, [&](const Child& one) { return one.pid == ended; });
    if (child == children.end()) continue;
    Total one;
    const bool whole = ::read(child->figures, &one, sizeof one) == static_cast<ssize_t>(sizeof one);
    ::close(child->figures);
    if (status != 0 || !whole) {
      if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM) {
        std::fprintf(stderr, "seed %llu: not through after %u s\n",
                     static_cast<unsigned long long>(child->seed), kLongest);
      }
      failed.push_back(child->seed);
    } else {
      total.figures.add(one.figures);
      total.events += one.events;
      ++total.seeds;
    }
    slots.push_back(child->slot);
    children.erase(child);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  print(total, took.count());
  const bool claims_too_much = static_cast<double>(total.figures.claims_within) <
                               kWithin * static_cast<double>(total.figures.claims);
  if (claims_too_much) std::fputs("bars of savings hold too seldom\n", stderr);
  if (failed.empty()) return claims_too_much ? kBrokenStatus : 0;
  std::ranges::sort(failed);
  std::string list;
  for (const std::uint64_t seed : failed) list += " " + std::to_string(seed);
  std::fprintf(
      stderr,
      "broken by %zu of %zu seeds:%s\nto see one: simulate --plans %d --seed %llu --trace\n",
      failed.size(), seeds.size(), list.c_str(), request.options.plans,
      static_cast<unsigned long long>(failed.front()));
  return kBrokenStatus;
}

/// Returns nullopt if the arguments are wrong.
std::optional<Request> parse(std::vector<std::string> arguments) {
  Request request;
  const auto number = [&](std::size_t at) {
    return std::strtoull(arguments[at].c_str(), nullptr, 10);
  };
  if (arguments.size() > 2 && arguments[0] == "--plans") {
    request.options.plans = static_cast<int>(number(1));
    arguments.erase(arguments.begin(), arguments.begin() + 2);
  }
  const std::size_t count = arguments.size();
  if (count == 3 && arguments[0] == "--seeds") {
    request.seeds.resize(number(2));
    std::iota(request.seeds.begin(), request.seeds.end(), number(1));
    return request;
  }
  if (count > 1 && arguments[0] == "--list") {
    for (std::size_t at = 1; at < count; ++at) request.seeds.push_back(number(at));
    return request;
  }
  const bool traces = count == 3 && arguments[2] == "--trace";
  if ((count != 2 && !traces) || arguments[0] != "--seed") return {};
  request.is_single = true;
  request.seeds = {number(1)};
  if (traces) request.options.trace = [](const std::string& line) { std::puts(line.c_str()); };
  return request;
}

int run(const std::vector<std::string>& arguments) {
  const std::optional<Request> request = parse(arguments);
  if (!request) {
    std::fputs(
        "usage: simulate [--plans N] --seeds FIRST COUNT | --list SEED... | --seed N [--trace]\n",
        stderr);
    return 2;
  }
  if (!request->is_single) return play_all(*request);
  const auto began = std::chrono::steady_clock::now();
  const Total total = play(request->seeds.front(), request->options);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
  print(total, took.count());
  return 0;
}

}  // namespace
}  // namespace harpe::simulation

int main(int argc, char** argv) {
  return harpe::simulation::run({argv + 1, argv + argc});
}
