#pragma once
/// \file
/// The least total loss of two paths between the same events. For loops.cc and loss_sharing.cc.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace harpe::plan {

/// A path with its points, by rising time; the loss of each point; and the price of waiting, J/s.
template <class Point, class Loss>
struct LossyPath {
  std::span<const Point> points;
  const Loss& loss;
  double wait_price;
};

/// Calls `tell` for each point of `own` with the least total loss of this point and any point of
/// `other`, if the shorter path waits for the longer one. O(points)
/// \param longer  scratch
template <class Point, class OwnLoss, class OtherLoss, class Tell>
void least_together(const LossyPath<Point, OwnLoss>& own, const LossyPath<Point, OtherLoss>& other,
                    std::vector<double>& longer, const Tell& tell) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // For each point of `other`, the least loss + price x time of this point and all longer ones.
  longer.resize(other.points.size() + 1);
  longer.back() = kInfinity;
  for (std::size_t i = other.points.size(); i-- > 0;) {
    const Point& point = other.points[i];
    longer[i] = std::min(longer[i + 1], other.loss(point) + own.wait_price * point.time);
  }
  double shorter = kInfinity;
  std::size_t next = 0;
  for (const Point& point : own.points) {
    for (; next < other.points.size() && other.points[next].time <= point.time; ++next) {
      const Point& before = other.points[next];
      shorter = std::min(shorter, other.loss(before) - other.wait_price * before.time);
    }
    tell(point, own.loss(point) + std::min(shorter + other.wait_price * point.time,
                                           longer[next] - own.wait_price * point.time));
  }
}

}  // namespace harpe::plan
