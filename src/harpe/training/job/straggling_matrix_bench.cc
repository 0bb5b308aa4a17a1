// Costs of stragglers of every kind, detected and handled, in simulated training: a row per case.
// Exits with 1 if a job is slower than its objective by more than 0.5 % after ten iterations.
//
//   straggling_matrix_bench [--markdown | --events] [PART OF A CASE'S TEXT]
//
//   --markdown  a table with the worst of all factors for each shape and kind
//   --events   also prints the events of each job

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/training/job/straggling_matrix_testing.h"

namespace harpe::training {
namespace {

constexpr double kAllowed = 1.005;
constexpr std::pair<int, int> kShapes[] = {{4, 1}, {1, 4}, {2, 2}, {2, 4}, {3, 2},
                                           {3, 4}, {4, 4}, {8, 4}, {3, 8}};
constexpr double kFactors[] = {1.05, 1.15, 1.3, 1.6};

/// The worst results of one shape and kind, over all factors, declared or not.
struct Worst {
  int found = 0, cases = 0;
  int found_after = 0;
  std::set<std::string> causes;
  double first_time = 0, time = 0, healed_time = 0;
  std::optional<double> saved_share;

  void add(const StragglingOutcome& outcome) {
    ++cases;
    found += outcome.found_after ? 1 : 0;
    found_after = std::max(found_after, outcome.found_after.value_or(0));
    if (!outcome.cause.empty()) causes.insert(outcome.cause);
    first_time = std::max(first_time, outcome.first_time);
    time = std::max(time, outcome.time);
    healed_time = std::max(healed_time, outcome.healed_time);
    if (outcome.saved_share)
      saved_share = std::min(saved_share.value_or(*outcome.saved_share), *outcome.saved_share);
  }
};

std::string percent(double fraction) {
  return shortest(fraction * 100, 1) + " %";
}

void print_markdown(const std::string& shape, Straggling straggling, const Worst& worst) {
  std::string causes;
  for (const std::string& cause : worst.causes) causes += (causes.empty() ? "" : ", ") + cause;
  std::printf("| %s | %s | %d of %d | %s | %s | %s | %s | %s | %s |\n", shape.c_str(),
              name_of(straggling), worst.found, worst.cases,
              worst.found > 0 ? std::to_string(worst.found_after).c_str() : "", causes.c_str(),
              percent(worst.first_time - 1).c_str(), percent(worst.time - 1).c_str(),
              percent(worst.healed_time - 1).c_str(),
              worst.saved_share ? percent(*worst.saved_share).c_str() : "");
}

void print_case(const StragglingCase& one, const StragglingOutcome& outcome, bool is_slow) {
  std::printf("\"%s\",%s,%s,%.4f,%.4f,%.4f,%.4f,%lld,%.4f,%s%s\n", one.text().c_str(),
              outcome.found_after ? std::to_string(*outcome.found_after).c_str() : "",
              outcome.cause.c_str(), outcome.first_time, outcome.time, outcome.worst_ten,
              outcome.healed_time, static_cast<long long>(outcome.profiled), outcome.saved,
              outcome.saved_share ? std::to_string(*outcome.saved_share).c_str() : "",
              is_slow ? ",SLOW" : "");
}

struct Options {
  bool markdown = false, events = false;
  std::string part;
};

/// Returns the number of slow cases.
int play(int data, int stages, Straggling straggling, const Options& options, int& cases) {
  int slow = 0;
  Worst worst;
  for (const double factor : kFactors) {
    for (const bool declared : {false, true}) {
      const StragglingCase one{
          .data = data, .stages = stages, .error = {straggling, factor}, .declared = declared};
      if (one.text().find(options.part) == std::string::npos) continue;
      StragglingRun played(one);
      const StragglingOutcome outcome = played.run();
      const bool is_slow = outcome.time > kAllowed || outcome.healed_time > kAllowed;
      ++cases;
      slow += is_slow ? 1 : 0;
      worst.add(outcome);
      if (!options.markdown) print_case(one, outcome, is_slow);
      if (!options.events) continue;
      for (const JobEvent& event : played.events) std::printf("    %s\n", event.text.c_str());
    }
  }
  const std::string shape = std::to_string(data) + "x" + std::to_string(stages);
  if (options.markdown && worst.cases > 0) print_markdown(shape, straggling, worst);
  std::fflush(stdout);
  return slow;
}

int run(const Options& options) {
  int cases = 0, slow = 0;
  std::printf(options.markdown
                  ? "| shape | straggling | found | after, iterations | cause | first ten | then | "
                    "healed | saved of possible |\n"
                    "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n"
                  : "case,found_after,cause,first_time,time,worst_ten,healed_time,profiled,saved,"
                    "share\n");
  for (const auto& [data, stages] : kShapes)
    for (const Straggling straggling : kAllStraggling)
      slow += play(data, stages, straggling, options, cases);
  std::printf("%s%d cases, %d slower than their objective\n", options.markdown ? "\n" : "", cases,
              slow);
  return slow == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace harpe::training

int main(int argc, char** argv) {
  harpe::training::Options options;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--events") == 0) {
      options.events = true;
    } else if (std::strcmp(argv[i], "--markdown") == 0) {
      options.markdown = true;
    } else {
      options.part = argv[i];
    }
  }
  return harpe::training::run(options);
}
