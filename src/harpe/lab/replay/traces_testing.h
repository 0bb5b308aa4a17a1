#pragma once
/// \file
/// A reader of the recorded traces, for tests.

#include <filesystem>
#include <string>

#include "harpe/base/file.h"
#include "harpe/lab/replay/traces.h"

namespace harpe::lab {

/// Reads summary_train.csv and summary_power_<gpu>.csv.
inline Result<Traces> read_traces(const std::filesystem::path& directory, const std::string& gpu) {
  const std::filesystem::path train = directory / "summary_train.csv";
  const std::filesystem::path power = directory / ("summary_power_" + gpu + ".csv");
  Traces traces;
  const std::string train_rows = HARPE_TRY(read_file(train));
  traces.train = HARPE_TRY(parse_train_rows(train_rows, train.string()));
  const std::string power_rows = HARPE_TRY(read_file(power));
  traces.power = HARPE_TRY(parse_power_rows(power_rows, power.string()));
  return traces;
}

}  // namespace harpe::lab
