#pragma once
/// \file
/// Paths of the files of tests and benchmarks: the source tree, and the measured data sets outside
/// of it.

#include <cstdlib>
#include <filesystem>

namespace harpe {

/// Defined by the build (cmake/HarpeRoom.cmake), in one file, so that only it depends on the path.
const char* source_tree();

/// Returns $HARPE_SHARED, or `shared` beside the source tree if unset. It may not exist.
inline std::filesystem::path shared_directory() {
  const char* shared = std::getenv("HARPE_SHARED");  // NOLINT(concurrency-mt-unsafe)
  if (shared != nullptr) return shared;
  return std::filesystem::path(source_tree()) / ".." / "shared";
}

inline std::filesystem::path measured_data() {
  return shared_directory() / "data";
}

}  // namespace harpe
