#pragma once
/// \file
/// Where tests and benchmarks find files: those of the source tree, and the measured data sets,
/// which lie outside of it.

#include <cstdlib>
#include <filesystem>

namespace harpe {

/// The build defines it (cmake/HarpeRoom.cmake), in one file, so that no other depends on the path.
const char* source_tree();

/// $HARPE_SHARED, else `shared` beside the source tree; it may be missing.
inline std::filesystem::path shared_directory() {
  const char* shared = std::getenv("HARPE_SHARED");  // NOLINT(concurrency-mt-unsafe)
  if (shared != nullptr) return shared;
  return std::filesystem::path(source_tree()) / ".." / "shared";
}

inline std::filesystem::path measured_data() {
  return shared_directory() / "data";
}

}  // namespace harpe
