#pragma once
/// \file
/// The layout of a job's ranks: degrees of parallelism and rank coordinates.
///
///   const harpe::JobShape shape{.data = 2, .stages = 4};
///   const std::size_t rank = shape.index({.data = 1, .stage = 2});  // 6 of shape.ranks() = 8

#include <compare>
#include <cstddef>

namespace harpe {

/// Coordinates of a rank: data replica (pipeline), stage of the pipeline, and tensor shard.
struct RankCoordinates {
  int data = 0;
  int stage = 0;
  int tensor = 0;
  friend auto operator<=>(const RankCoordinates&, const RankCoordinates&) = default;
};

/// Degrees of parallelism. Harpe orders ranks the same way for every framework: the tensor shard
/// varies fastest, then the stage, then the pipeline.
struct JobShape {
  int data = 1;
  int stages = 1;
  int tensor = 1;

  int ranks() const { return data * stages * tensor; }
  /// Returns the number of groups. A group is the ranks of one stage of one pipeline, which run the
  /// same instructions in lock-step.
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
