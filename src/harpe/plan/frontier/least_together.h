#pragma once
/// \file
/// What two paths between the same events must lose together. For loops.cc and loss_sharing.cc.

#include <algorithm>
#include <cstddef>
#include <limits>
#include <span>
#include <vector>

namespace harpe::plan {

/// A path with its points, by rising time; the loss of each; and what waiting costs, J/s.
template <class Point, class Loss>
struct LossyPath {
  std::span<const Point> points;
  const Loss& loss;
  double wait_price;
};

/// Tells for each point of `own` the least loss together with any of `other`, where the shorter one
/// waits for the longer. O(points)
/// \param longer  scratch
template <class Point, class OwnLoss, class OtherLoss, class Tell>
void least_together(const LossyPath<Point, OwnLoss>& own, const LossyPath<Point, OtherLoss>& other,
                    std::vector<double>& longer, const Tell& tell) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  // Of those that are longer than what is to come: the least of loss + price x time.
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
