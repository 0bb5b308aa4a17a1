#include "harpe/lab/replay/job_groups.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <map>
#include <utility>

#include "harpe/base/csv_table.h"
#include "harpe/base/hashed_random.h"
#include "harpe/base/text.h"
#include "harpe/lab/replay/traced_job.h"

namespace harpe {
namespace {

constexpr std::array kColumns{"group", "start_time", "end_time", "dataset", "runtime_ratio"};

// What the draws are for.
constexpr std::uint64_t kGaps = 3, kRatios = 4;
constexpr double kMeanRuntime = 3600;  // s
constexpr double kRuntimeDeviation = 0.5;

}  // namespace

Result<std::vector<JobGroup>> parse_job_groups(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  std::vector<JobGroup> groups;
  std::map<std::string, std::size_t> by_name;
  CsvTable table(text, kColumns, diagnostics);
  table.each([&] {
    const std::string& name = table.text(0);
    const std::string& dataset = table.text(3);
    if (name.empty()) table.refuse(0, "expected the name of a group");
    if (dataset.empty()) table.refuse(3, "expected a dataset");
    GroupedJob job{.start = Seconds{table.number(1, 0)},
                   .end = Seconds{table.number(2, 0)},
                   .runtime_ratio = table.number(4, 1e-9)};
    if (job.end < job.start) table.refuse(2, "expected an end that is not before the start");
    const auto [at, is_new] = by_name.try_emplace(name, groups.size());
    if (is_new) groups.push_back({.name = name, .dataset = dataset, .jobs = {}});
    JobGroup& group = groups[at->second];
    if (group.dataset != dataset) {
      table.refuse(3, "expected " + group.dataset + ", as in the group's first row");
    }
    group.jobs.push_back(job);
  });
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  for (JobGroup& group : groups) {
    std::multimap<double, GroupedJob> by_start;  // equals stay in their order
    for (const GroupedJob& job : group.jobs) by_start.emplace(job.start.value, job);
    group.jobs.clear();
    for (const auto& [start, job] : by_start) group.jobs.push_back(job);
  }
  return groups;
}

std::string cell_text(const std::string& text) {
  const auto is_plain = [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  };
  if (std::ranges::all_of(text, is_plain)) return text;
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' ? "\"\"" : std::string(1, c);
  return quoted + "\"";
}

std::string job_groups_csv(const std::vector<JobGroup>& groups, const std::string& origin) {
  std::string text = "# " + origin + "\ngroup,start_time,end_time,dataset,runtime_ratio\n";
  for (const JobGroup& group : groups) {
    for (const GroupedJob& job : group.jobs) {
      text += cell_text(group.name) + "," + shortest(job.start.value) + "," +
              shortest(job.end.value) + "," + cell_text(group.dataset) + "," +
              shortest(job.runtime_ratio) + "\n";
    }
  }
  return text;
}

std::vector<JobGroup> synthetic_groups(std::uint64_t seed, const SyntheticGroups& shape) {
  std::vector<JobGroup> groups;
  std::uint64_t number = 0;
  const double mean_gap = kMeanRuntime / shape.in_flight;
  for (const TracedDataset& dataset : traced_datasets()) {
    for (int i = 1; i <= shape.groups_per_dataset; ++i) {
      JobGroup& group = groups.emplace_back();
      group.dataset = dataset.name;
      group.name = "synthetic-" + group.dataset + "-" + std::to_string(i);
      double now = 0;
      for (int job = 0; job < shape.jobs; ++job) {
        now -= mean_gap * std::log(1 - uniform(mixed(seed, kGaps, number)));
        // With a mean of 1.
        const double ratio = std::exp(kRuntimeDeviation * normal(mixed(seed, kRatios, number)) -
                                      kRuntimeDeviation * kRuntimeDeviation / 2);
        ++number;
        // In whole seconds and thousandths, as traces have them.
        const double start = std::round(now),
                     length = std::max(1.0, std::round(ratio * kMeanRuntime));
        group.jobs.push_back({.start = Seconds{start},
                              .end = Seconds{start + length},
                              .runtime_ratio = std::round(ratio * 1000) / 1000});
      }
    }
  }
  return groups;
}

}  // namespace harpe
