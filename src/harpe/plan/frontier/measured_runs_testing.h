#pragma once
/// \file
/// Plans of Perseus with their time and energy on real GPUs, and inputs for predictions, for tests.

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "harpe/base/csv.h"
#include "harpe/base/file.h"
#include "harpe/base/json.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/base/text.h"
#include "harpe/plan/frontier/plan_testing.h"
#include "harpe/plan/frontier/predict.h"

namespace harpe::plan::measured {

/// Rows of a CSV by column name.
using Row = std::map<std::string, std::string>;

inline std::vector<Row> read_table(const std::filesystem::path& path) {
  Diagnostics diagnostics(path.string());
  const auto rows = split_csv(must(read_file(path)), diagnostics);
  if (!diagnostics.empty()) throw std::runtime_error("cannot read " + path.string());
  std::vector<Row> table;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    Row& row = table.emplace_back();
    for (std::size_t c = 0; c < rows[r].cells.size(); ++c) {
      row[rows[0].cells[c].text] = rows[r].cells[c].text;
    }
  }
  return table;
}

inline double number(const Row& row, const std::string& column) {
  return parse_number(row.at(column)).value();
}

/// One workload: the inputs for predictions of its plans, and the plans with their measurements.
struct Workload {
  std::string name;
  int stages = 0;
  int micro_batches = 0;
  Watts blocking_power;
  PredictOptions options;
  Profile profile;
  struct Run {
    std::vector<std::vector<Megahertz>> clocks;
    Seconds time;
    Joules energy;
    Seconds calibrated_time;
    Joules calibrated_energy;
  };
  std::vector<Run> runs;
};

/// Reads the clocks of each plan, by plan number.
inline std::map<std::string, std::vector<std::vector<Megahertz>>> read_clocks(
    const std::filesystem::path& path) {
  std::map<std::string, std::vector<std::vector<Megahertz>>> clocks;
  const JsonValue root = must(parse_json(must(read_file(path)), path.string()));
  for (const JsonValue& plan : root.find("plans")->items) {
    auto& stages = clocks[std::to_string(plan.find("plan")->integer)];
    for (const JsonValue& stage : plan.find("stages")->items) {
      auto& list = stages.emplace_back();
      for (const JsonValue& clock : stage.items) list.push_back({static_cast<int>(clock.integer)});
    }
  }
  return clocks;
}

inline Workload read_workload(const std::filesystem::path& data, const Row& constants) {
  Workload workload;
  workload.name = constants.at("workload");
  workload.stages = static_cast<int>(number(constants, "stages"));
  workload.micro_batches = static_cast<int>(number(constants, "microbatches"));
  workload.blocking_power = {number(constants, "p_blocking_w")};
  workload.profile = must(read_profile(data / (workload.name + ".csv")));
  workload.options.switch_latency = Seconds{number(constants, "switch_delay_s")};
  workload.options.fixed_extra = {number(constants, "fixed_extra_s")};
  std::istringstream loads(constants.at("load_s_per_stage"));
  for (double load; loads >> load;) workload.options.load.push_back({load});
  auto clocks = read_clocks(data / (workload.name + ".plans.json"));
  for (const Row& row : read_table(data / "measured_plans.csv")) {
    // Other rows warm up the GPUs or set a power limit.
    if (row.at("workload") != workload.name || row.at("kind") != "perseus") continue;
    workload.runs.push_back({.clocks = clocks.at(row.at("plan")),
                             .time = {number(row, "measured_time_s")},
                             .energy = {number(row, "measured_energy_j")},
                             .calibrated_time = {number(row, "calibrated_time_s")},
                             .calibrated_energy = {number(row, "calibrated_energy_j")}});
  }
  return workload;
}

/// Returns every workload; none if the data are missing.
inline std::vector<Workload> measured_workloads() {
  const std::filesystem::path data = measured_data() / "sosp24" / "measured";
  if (!std::filesystem::exists(data / "constants.csv")) return {};
  std::vector<Workload> workloads;
  for (const Row& constants : read_table(data / "constants.csv")) {
    workloads.push_back(read_workload(data, constants));
  }
  return workloads;
}

/// Returns the pipeline that ran: sender and receiver wait for each other; the time of transfers is
/// in the fixed extra.
inline Pipeline pipeline_of(const Workload& workload) {
  const std::vector<Seconds> none(static_cast<std::size_t>(workload.stages - 1));
  return must(Pipeline::build(
      must(one_f_one_b({.stages = workload.stages, .micro_batches = workload.micro_batches})),
      {Transfers::Mode::kRendezvous, none, none}));
}

}  // namespace harpe::plan::measured
