#include "harpe/zeus/batch_size/will_not_reach.h"

#include <algorithm>

namespace harpe::zeus {
namespace {

// Beforehand one in five jobs has a late jump, as from a schedule of learning rates; that counts as
// one training. With none that converged, nothing says that this job is not one of them.
constexpr double kJumps = 0.2, kJumpWeight = 1, kJumpUnknown = 0.5;

/// Whether its own curve said at some time that it would not converge.
bool has_jumped(const MetricCurve& converged, MetricTarget target) {
  target.last_epoch = converged.newest_epoch();
  for (const double share : {0.3, 0.5, 0.7, 0.85}) {
    const auto epoch = static_cast<int>(share * converged.newest_epoch());
    const auto chance = chance_to_reach(converged.until(epoch), target, 0);
    if (chance && *chance < kLeastChance) return true;
  }
  return false;
}

/// The longest run of metrics that are no numbers, and how many numbers there are.
struct Measured {
  int longest = 0, numbers = 0;
};

Measured measured(const MetricCurve& curve) {
  Measured found;
  int run = 0;
  for (const MetricPoint& point : curve.points()) {
    run = point.metric ? 0 : run + 1;
    found.longest = std::max(found.longest, run);
    found.numbers += point.metric ? 1 : 0;
  }
  return found;
}

/// A metric that is the same all along says no more than that the target is not there yet.
bool has_moved(const MetricCurve& curve) {
  std::optional<double> first;
  for (const MetricPoint& point : curve.points()) {
    if (!first) first = point.metric;
    if (point.metric && *point.metric != *first) return true;
  }
  return false;
}

}  // namespace

double jump_chance(std::span<const MetricCurve* const> converged, const MetricTarget& target) {
  if (converged.empty()) return kJumpUnknown;
  const auto jumped = std::ranges::count_if(
      converged, [&target](const MetricCurve* one) { return has_jumped(*one, target); });
  return (kJumps * kJumpWeight + static_cast<double>(jumped)) /
         (kJumpWeight + static_cast<double>(converged.size()));
}

bool has_diverged(const MetricCurve& curve, std::span<const MetricCurve* const> converged) {
  const int missing = curve.missing_at_end();
  bool is_measured = curve.numbers() >= kLeastMetrics;
  int most = kMostMissing;
  for (const MetricCurve* one : converged) {
    const Measured found = measured(*one);
    is_measured = is_measured || found.numbers >= kLeastMetrics;
    most = std::max(most, 2 * found.longest);
  }
  const int before = measured(curve.until(curve.newest_epoch() - missing)).longest;
  return is_measured && missing > std::max(most, 2 * before);
}

bool will_not_reach(const MetricCurve& curve, std::span<const MetricCurve* const> converged,
                    const MetricTarget& target) {
  if (has_diverged(curve, converged)) return true;
  if (converged.empty() && !has_moved(curve)) return false;
  for (const MetricCurve* one : converged) {
    if (keeps_up(curve, *one, target)) return false;
  }
  // What is likely without a jump need not know of jumps.
  const auto smooth = chance_to_reach(curve, target, 0);
  if (!smooth || *smooth >= kLeastChance) return false;
  return chance_to_reach(curve, target, jump_chance(converged, target)) < kLeastChance;
}

}  // namespace harpe::zeus
