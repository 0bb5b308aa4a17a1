#pragma once
/// \file
/// The recorded runs among the measured data.

#include <filesystem>
#include <map>
#include <string>

#include "harpe/base/file.h"
#include "harpe/base/source_tree_testing.h"
#include "harpe/lab/replay/limit_replay.h"

namespace harpe::lab {

/// Returns the runs by file name without ".csv"; none if the data are missing.
inline std::map<std::string, RecordedRun> recorded_runs() {
  std::map<std::string, RecordedRun> runs;
  const std::filesystem::path directory = measured_data() / "zeus" / "power_limit_runs";
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(directory, missing)) {
    const auto text = read_file(entry.path());
    auto run = parse_recorded_run(text.value(), entry.path().string());
    runs.emplace(entry.path().stem().string(), std::move(run).take());
  }
  return runs;
}

}  // namespace harpe::lab
