#pragma once
/// \file
/// How a job is spread over its ranks.
///
///   const harpe::JobShape shape{.data = 2, .stages = 4};
///   const std::size_t rank = shape.index({.data = 1, .stage = 2});  // 6 of shape.ranks() = 8

#include <compare>
#include <cstddef>

namespace harpe {

/// Where a rank stands: which replica (pipeline), which stage of it, which tensor shard.
struct RankCoordinates {
  int data = 0;
  int stage = 0;
  int tensor = 0;
  friend auto operator<=>(const RankCoordinates&, const RankCoordinates&) = default;
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
  bool holds(RankCoordinates coordinates) const {
    return coordinates.data >= 0 && coordinates.data < data && coordinates.stage >= 0 &&
           coordinates.stage < stages && coordinates.tensor >= 0 && coordinates.tensor < tensor;
  }
  std::size_t index(RankCoordinates coordinates) const {
    return (static_cast<std::size_t>(coordinates.data) * stages + coordinates.stage) * tensor +
           coordinates.tensor;
  }
  std::size_t group(int pipeline, int stage) const {
    return static_cast<std::size_t>(pipeline) * stages + stage;
  }
  friend bool operator==(const JobShape&, const JobShape&) = default;
};

}  // namespace harpe
