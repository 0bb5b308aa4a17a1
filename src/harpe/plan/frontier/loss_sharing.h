#pragma once
/// \file
/// How loops share what the arcs lose that they have in common (loops.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "harpe/plan/frontier/loops.h"

namespace harpe::plan {

/// Shares of losses, from even ones to such that all loops together must lose much.
///
/// Loop by loop, what it loses at least with a choice of an arc, above what it loses at least with
/// any, is handed on to the next loop with that arc: this one loses no less without it, and the
/// next can only lose more. Then back, from the last to the first. What each arc is shared by
/// comes to agree on its choice; where all do, the loops lose together what a plan would.
/// (Sequential reweighted message passing: Kolmogorov 2015.) Of each arc only some choices take
/// part, those that lose least. Deterministic.
class LossSharing {
 public:
  /// \param choices  of each arc that take part, at most
  LossSharing(std::span<const CertificateLoop> loops, std::span<const LossyArc> arcs,
              std::size_t choices);

  /// Goes through all loops once, and back. `least` never falls. O(loops x choices^2)
  void improve();
  /// What loops must lose together where arcs have no other choices.
  Joules least();
  /// Writes the shares into the certificate of these loops, rounded.
  void write_transfers(Certificate& certificate) const;

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// An arc in a loop.
  struct Use {
    int arc;
    std::vector<double> loss;  ///< of each choice that takes part, as far as it counts here
  };
  /// What the arcs of a path can be together.
  struct Point {
    double time;
    std::uint16_t first, second;  ///< choices of its arcs
  };
  struct Path {
    std::vector<int> uses;      ///< one or two
    std::vector<Point> points;  ///< by rising time
    double wait_price = kInfinity;
  };
  using Loop = std::array<Path, 2>;

  void choose(std::size_t most);
  Path path_of(const std::vector<int>& arcs);
  void sort_points(Path& path) const;
  double loss_of(const Path& path, const Point& point) const;
  template <class Tell>
  void merge(const Path& own, const Path& other, const Tell& tell);
  double least_of(const Loop& loop);
  void set_least_by_choice(const Loop& loop, int use);
  void hand_on(const Loop& loop, bool forwards);
  /// What the uses of an arc up to one of them leave to those after it, of a choice.
  double moved_on(int arc, std::size_t use, std::size_t k) const;
  LossTransfer transfer(int arc, std::size_t use, Seconds time_unit, Joules loss_unit) const;

  std::span<const LossyArc> arcs_;
  std::vector<std::vector<int>> choices_;  // of each arc that take part, fastest first
  std::vector<std::vector<int>> uses_of_;  // of each arc, in the order of loops
  std::vector<Use> uses_;
  std::vector<Loop> loops_;
  std::vector<int> loop_of_, rank_;     // of each use: its loop, its place among those of its arc
  std::vector<double> longer_, least_;  // scratch
};

}  // namespace harpe::plan
