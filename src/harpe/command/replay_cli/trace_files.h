#pragma once
/// \file
/// The files of recorded traces that a user has in a directory, plain or compressed by gzip.

#include <filesystem>
#include <string>

#include "harpe/lab/replay/traces.h"

namespace harpe {

/// Returns the path of summary_train.csv, with ".gz" if a plain one is missing and that is there.
std::filesystem::path train_file(const std::filesystem::path& directory);
/// The same of summary_power_<gpu>.csv, which has one GPU.
std::filesystem::path power_file(const std::filesystem::path& directory, const std::string& gpu);

/// Reads these two.
Result<Traces> read_traces(const std::filesystem::path& directory, const std::string& gpu);

}  // namespace harpe
