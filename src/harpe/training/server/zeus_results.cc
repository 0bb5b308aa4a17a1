#include "harpe/training/server/zeus_results.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "harpe/base/text.h"
#include "harpe/plan/instruction/instruction.h"
#include "harpe/plan/instruction/likely_instruction.h"

namespace harpe {
namespace {

constexpr std::size_t kMostIterations = 100'000;  // in one result

/// Of iteration `i`: none where the result has no such entry.
const std::vector<double>* of_iteration(const ZeusBreakdown& breakdown, const std::string& name,
                                        std::size_t i) {
  const auto found = breakdown.find(name);
  if (found == breakdown.end() || i >= found->second.size()) return nullptr;
  return &found->second[i];
}

double sum(const std::vector<double>& values) {
  double total = 0;
  for (const double value : values) total += value;
  return total;
}

}  // namespace

Status check_zeus_result(const ZeusResult& result) {
  if (result.iteration_time.empty()) return Error::invalid("iter_time is empty");
  if (result.iteration_time.size() > kMostIterations) {
    return Error::invalid("more than " + std::to_string(kMostIterations) + " iterations at once");
  }
  if (result.iteration_energy.size() != result.iteration_time.size()) {
    return Error::invalid("iter_time and iter_energy have different lengths");
  }
  const auto is_time = [](double value) { return value > 0 && value < 1e9; };
  const auto is_amount = [](double value) { return value >= 0 && value < 1e18; };
  // The job decides which energies are possible.
  const auto is_number = [](double value) { return std::abs(value) < 1e18; };
  bool good = std::ranges::all_of(result.iteration_time, is_time) &&
              std::ranges::all_of(result.iteration_energy, is_number);
  for (const ZeusBreakdown* breakdown : {&result.time, &result.energy}) {
    for (const auto& [name, iterations] : *breakdown) {
      if (!instruction_kind(name)) {
        const auto likely = likely_instruction(name);
        return Error::invalid("unknown instruction " + in_quotes(name) +
                              (likely ? "; did you mean '" + *likely + "'?" : ""));
      }
      if (iterations.size() != result.iteration_time.size()) {
        return Error::invalid("the breakdown of " + name + " has not one list an iteration");
      }
      const bool is_time_of = breakdown == &result.time;
      for (const auto& values : iterations) {
        good = good && values.size() <= kMostIterations &&
               (is_time_of ? std::ranges::all_of(values, is_amount)
                           : std::ranges::all_of(values, is_number));
      }
    }
  }
  if (!good) return Error::invalid("times are positive numbers of s, energies numbers of J");
  return ok_status();
}

IterationReport report_of_zeus_result(const ZeusResult& result, std::size_t i) {
  IterationReport report;
  report.time = Seconds{result.iteration_time[i]};
  report.energy = Joules{result.iteration_energy[i]};
  for (const auto& [name, iterations] : result.time) {
    const std::vector<double>& times = iterations[i];
    if (times.empty()) continue;
    const std::vector<double>* energies = of_iteration(result.energy, name, i);
    const bool measured = energies != nullptr && energies->size() == times.size();
    report.instructions.push_back(
        {.kind = *instruction_kind(name),
         .count = static_cast<int>(times.size()),
         .time = Seconds{sum(times)},
         .energy = Joules{measured ? sum(*energies) : std::numeric_limits<double>::quiet_NaN()}});
  }
  return report;
}

}  // namespace harpe
