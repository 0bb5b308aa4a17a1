#pragma once
/// \file
/// How a job is spread over its ranks.

#include <compare>
#include <cstddef>

namespace harpe {

/// Where a rank stands: which replica (pipeline), which stage of it, which tensor shard.
struct Place {
  int data = 0;
  int stage = 0;
  int tensor = 0;
  friend auto operator<=>(const Place&, const Place&) = default;
};

/// Degrees of parallelism. Harpe's own order of ranks, whatever the framework's: tensor shards of a
/// stage stand together, then stages, then pipelines.
struct JobShape {
  int data = 1;
  int stages = 1;
  int tensor = 1;

  int ranks() const { return data * stages * tensor; }
  /// Groups of ranks that run the same instructions in lock-step: a stage of one pipeline.
  int groups() const { return data * stages; }
  bool holds(Place place) const {
    return place.data >= 0 && place.data < data && place.stage >= 0 && place.stage < stages &&
           place.tensor >= 0 && place.tensor < tensor;
  }
  std::size_t index(Place place) const {
    return (static_cast<std::size_t>(place.data) * stages + place.stage) * tensor + place.tensor;
  }
  std::size_t group(int pipeline, int stage) const {
    return static_cast<std::size_t>(pipeline) * stages + stage;
  }
  friend bool operator==(const JobShape&, const JobShape&) = default;
};

}  // namespace harpe
