#pragma once
/// \file
/// Division of the losses of common arcs among loops (loops.h).

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "harpe/plan/frontier/loops.h"

namespace harpe::plan {

/// Shares of losses. They start even and change so that the least total loss of all loops rises.
///
/// Each loop in turn moves losses to the next loop with each of its arcs: for every choice of the
/// arc, a share of the loop's least loss with this choice in excess of its least loss with any
/// choice. The least loss of this loop does not fall, and that of the next loop can only rise. A
/// second pass does the same from the last loop to the first. The loops of an arc gradually agree
/// on its choice. If all agree, their total loss is that of a plan (sequential reweighted message
/// passing: Kolmogorov 2015). Only the choices of each arc with the least losses are used.
/// Deterministic.
class LossSharing {
 public:
  /// \param choices  largest number of choices of each arc to use
  LossSharing(std::span<const CertificateLoop> loops, std::span<const LossyArc> arcs,
              std::size_t choices);

  /// Passes over all loops forwards and backwards. `least` never falls. O(loops x choices^2)
  void improve();
  /// Returns the least total loss of the loops if arcs have only the choices in use.
  Joules least();
  /// Writes the shares into the certificate of these loops, rounded.
  void write_transfers(Certificate& certificate) const;

 private:
  static constexpr double kInfinity = std::numeric_limits<double>::infinity();

  /// An arc in a loop.
  struct Use {
    int arc;
    std::vector<double> loss;  ///< for each choice in use, the share of this loop
  };
  /// A combination of choices of the arcs of a path.
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
  /// Returns the loss of a choice that moves from the uses of an arc up to `use` to later ones.
  double moved_on(int arc, std::size_t use, std::size_t k) const;
  LossTransfer transfer(int arc, std::size_t use, Seconds time_unit, Joules loss_unit) const;

  std::span<const LossyArc> arcs_;
  std::vector<std::vector<int>> choices_;  // choices in use of each arc, fastest first
  std::vector<std::vector<int>> uses_of_;  // uses of each arc, in the order of loops
  std::vector<Use> uses_;
  std::vector<Loop> loops_;
  std::vector<int> loop_of_, rank_;     // per use: its loop, its position among the uses of its arc
  std::vector<double> longer_, least_;  // scratch
};

}  // namespace harpe::plan
