#include "harpe/plan/profile/check.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <utility>

#include "harpe/base/check.h"
#include "harpe/base/text.h"
#include "harpe/plan/profile/smooth.h"
#include "harpe/plan/profile/stage_list.h"

namespace harpe {
namespace {

constexpr std::size_t kFewClocks = 4;
constexpr double kHighestPower = 1500;  // W, above any existing GPU
constexpr double kNoiseSigmas = 5;
constexpr double kTopSigmas = 3;         // for the top clock, where throttling is expected
constexpr double kLeastNoise = 0.001;    // measurements are not more precise than this
constexpr double kTimeOutlier = 0.015;   // relative
constexpr double kEnergyOutlier = 0.03;  // relative
constexpr double kPowerJump = 0.12;      // relative, between neighbours on a clock grid
constexpr std::size_t kBesideJump = 7;   // clocks
constexpr double kSteepestPower = 5;     // power grows at most as the clock to this exponent

using Points = std::span<const OperatingPoint>;

std::string number(double value, int digits) {
  const double scale = std::pow(10.0, digits - 1 - std::floor(std::log10(std::abs(value))));
  return std::isfinite(scale) && value != 0 ? shortest(std::round(value * scale) / scale)
                                            : shortest(value);
}
std::string percent(double share) {
  return number(100 * share, 2) + " %";
}
std::string text(Megahertz clock) {
  return std::to_string(clock.value) + " MHz";
}
std::string text(Seconds time) {
  return number(time.value, 4) + " s";
}
std::string text(Watts power) {
  return number(power.value, 4) + " W";
}
Watts power(const OperatingPoint& point) {
  return point.energy / point.time;
}

/// Returns the points of a Pareto set that lie on its lower convex hull.
std::vector<int> hull_of(Points points, std::span<const double> cost, std::span<const int> pareto) {
  const auto x = [&](int i) { return points[static_cast<std::size_t>(i)].time.value; };
  const auto y = [&](int i) { return cost[static_cast<std::size_t>(i)]; };
  std::vector<int> hull;
  for (const int i : pareto) {
    while (hull.size() >= 2) {
      const int a = hull[hull.size() - 2], b = hull.back();
      // Slopes are negative and must flatten: b is dropped unless it lies below the line from
      // a to i.
      if ((y(b) - y(a)) * (x(i) - x(a)) < (y(i) - y(a)) * (x(b) - x(a))) break;
      hull.pop_back();
    }
    hull.push_back(i);
  }
  return hull;
}

/// Returns the clocks missing from the grid that most neighbours follow.
std::vector<Megahertz> missing_clocks(Points points) {
  std::map<int, int> steps;
  for (std::size_t i = 1; i < points.size(); ++i) {
    ++steps[points[i].clock.value - points[i - 1].clock.value];
  }
  const auto usual = std::max_element(
      steps.begin(), steps.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  std::vector<Megahertz> missing;
  if (points.size() < kFewClocks || 3 * usual->second < 2 * static_cast<int>(points.size() - 1)) {
    return missing;
  }
  const int step = usual->first;
  for (std::size_t i = 1; i < points.size(); ++i) {
    const int low = points[i - 1].clock.value, high = points[i].clock.value;
    if ((high - low) % step != 0) continue;
    for (int clock = low + step; clock < high; clock += step) missing.push_back({clock});
  }
  if (missing.size() > points.size() / 2) missing.clear();  // the grid is not regular
  return missing;
}

/// Check of one curve for signs of unsound measurements.
class Suspicion {
 public:
  Suspicion(const InstructionProfile& entry, Watts blocking_power, InstructionCheck& check)
      : points_(entry.points), blocking_power_(blocking_power), check_(check) {}

  /// \param only_curve  true if the instruction has no points with other knobs
  void look(bool only_curve) {
    power_range();
    if (is_fixed_time(check_.kind)) return;
    if (only_curve) few_clocks();
    const plan::Scatter time =
        scatter_of([](const OperatingPoint& p) { return p.time.value; }, kTimeOutlier);
    const plan::Scatter energy =
        scatter_of([](const OperatingPoint& p) { return p.energy.value; }, kEnergyOutlier);
    check_.time_noise = time.noise;
    check_.energy_noise = energy.noise;
    noisy(time.noise, "time");
    noisy(energy.noise, "energy");
    const bool throttled = slow_top(time);
    outliers(time, "time", kTimeOutlier, throttled, {});
    outliers(energy, "energy", kEnergyOutlier, false, power_jumps(time.noise + energy.noise));
    rising_time(time, throttled);
  }

 private:
  template <class Value>
  plan::Scatter scatter_of(Value value, double tolerance) const {
    std::vector<double> x, y;
    for (const OperatingPoint& point : points_) {
      x.push_back(std::log(point.clock.value));
      y.push_back(std::log(value(point)));
    }
    return plan::scatter(x, y, tolerance);
  }

  const OperatingPoint& fastest() const {
    return *std::min_element(points_.begin(), points_.end(),
                             [](const auto& a, const auto& b) { return a.time < b.time; });
  }

  void say(std::string sentence) { check_.suspicious.push_back(std::move(sentence)); }

  void power_range() {
    int high = 0, low = 0;
    const OperatingPoint* highest = &points_.front();
    const OperatingPoint* lowest = &points_.front();
    for (const OperatingPoint& point : points_) {
      high += power(point).value > kHighestPower;
      // A transfer draws the blocking power; only computing must draw more.
      low += !is_fixed_time(check_.kind) && power(point) < blocking_power_;
      if (power(point) > power(*highest)) highest = &point;
      if (power(point) < power(*lowest)) lowest = &point;
    }
    const auto clocks = [](int count) {
      return std::to_string(count) + (count == 1 ? " clock" : " clocks");
    };
    if (high > 0) {
      say("draws over " + text(Watts{kHighestPower}) + " at " + clocks(high) + ", " +
          text(power(*highest)) + " at most: energy must be in joules of one GPU, time in seconds");
    }
    if (low > 0) {
      say("draws less than the blocking power of " + text(blocking_power_) + " at " + clocks(low) +
          ", " + text(power(*lowest)) + " at least: computing should need more power than waiting");
    }
  }

  void noisy(double noise, const std::string& what) {
    if (noise < kNoisyProfile) return;
    say(what + " scatters by " + percent(noise) +
        " around its curve: measure longer, or while nothing else runs on the machine");
  }

  void few_clocks() {
    if (points_.size() >= kFewClocks) return;
    say("has only " + std::to_string(points_.size()) +
        (points_.size() == 1 ? " clock: no choice to plan with"
                             : " clocks: plans have little to choose from"));
  }

  void outliers(const plan::Scatter& scatter, const std::string& what, double tolerance,
                bool without_top, const std::vector<std::size_t>& jumps) {
    // The curve cannot follow a jump, so points beside a jump are not reported.
    const auto beside_jump = [&](std::size_t i) {
      return std::any_of(jumps.begin(), jumps.end(), [&](std::size_t jump) {
        return i + kBesideJump >= jump && i < jump + kBesideJump;
      });
    };
    for (std::size_t i = 0; i < points_.size() - (without_top ? 1 : 0); ++i) {
      const double off = std::expm1(scatter.deviation[i]);
      if (!scatter.outlier[i] || std::abs(off) <= tolerance || beside_jump(i)) continue;
      say(what + " at " + text(points_[i].clock) + " is " + percent(std::abs(off)) +
          (off > 0 ? " above" : " below") + " the curve through its neighbours");
    }
  }

  /// Reports a throttled top clock: at the power limit, a higher clock makes the GPU slower.
  /// Returns true if it reported one.
  bool slow_top(const plan::Scatter& scatter) {
    const OperatingPoint& top = points_.back();
    const OperatingPoint& best = fastest();
    const double excess = top.time / best.time - 1;
    if (excess <= std::max(kLeastNoise, kTopSigmas * scatter.noise)) return false;
    say(text(top.clock) + " is " + percent(excess) + " slower than " + text(best.clock) +
        ": the power limit probably throttled the top clocks");
    return true;
  }

  /// \param throttled  the top clock is known to be throttled, and clocks below it can be too.
  void rising_time(const plan::Scatter& scatter, bool throttled) {
    const OperatingPoint& best = fastest();
    const OperatingPoint* before = nullptr;  // the fastest point at a lower clock
    const OperatingPoint *worst = nullptr, *worst_before = nullptr;
    double most = kNoiseSigmas * std::max(kLeastNoise, scatter.noise);
    for (std::size_t i = 0; i < points_.size(); ++i) {
      const OperatingPoint& point = points_[i];
      if (scatter.outlier[i] || (throttled && point.clock > best.clock)) continue;
      if (before != nullptr && point.time / before->time - 1 > most) {
        most = point.time / before->time - 1;
        worst = &point;
        worst_before = before;
      }
      if (before == nullptr || point.time < before->time) before = &point;
    }
    if (worst == nullptr) return;
    say("time rises with the clock, from " + text(worst_before->time) + " at " +
        text(worst_before->clock) + " to " + text(worst->time) + " at " + text(worst->clock) +
        ", which is more than noise: throttling, or a clock that was not in force");
  }

  /// Returns true if the power at clock `b` is implausible after the power at the lower clock `a`.
  bool jumps(std::size_t a, std::size_t b, double noise) const {
    const double rise = std::log(power(points_[b]) / power(points_[a]));
    const double clocks =
        std::log(points_[b].clock.value / static_cast<double>(points_[a].clock.value));
    const double slack = std::max(kPowerJump, kNoiseSigmas * noise);
    return rise > kSteepestPower * clocks + slack || rise < -slack;
  }

  /// Reports and returns the points at which power jumps to another level. A single outlier is not
  /// a jump: its neighbours agree with each other.
  std::vector<std::size_t> power_jumps(double noise) {
    std::vector<std::size_t> found;
    for (std::size_t i = 1; i < points_.size(); ++i) {
      if (!jumps(i - 1, i, noise)) continue;
      if (i >= 2 && !jumps(i - 2, i, noise)) continue;
      if (i + 1 < points_.size() && !jumps(i - 1, i + 1, noise)) continue;
      found.push_back(i);
      say("power jumps from " + text(power(points_[i - 1])) + " at " + text(points_[i - 1].clock) +
          " to " + text(power(points_[i])) + " at " + text(points_[i].clock));
    }
    return found;
  }

  Points points_;
  Watts blocking_power_;
  InstructionCheck& check_;
};

std::vector<double> costs_of(Points points, Watts blocking_power) {
  std::vector<double> costs;
  costs.reserve(points.size());
  for (const OperatingPoint& point : points) {
    costs.push_back(effective_energy(point, blocking_power).value);
  }
  return costs;
}

/// Returns the number of points with these knobs among the indices `chosen`.
int count_with(const Knobs& knobs, Points points, std::span<const int> chosen) {
  return static_cast<int>(std::ranges::count_if(
      chosen, [&](int i) { return points[static_cast<std::size_t>(i)].knobs == knobs; }));
}

/// \param curve  points of `entry` with the same knobs
InstructionCheck check_curve(const InstructionProfile& curve, const InstructionProfile& entry,
                             Watts blocking_power) {
  InstructionCheck check;
  check.stage = entry.stage;
  check.chunk = entry.chunk;
  check.kind = entry.kind;
  check.knobs = curve.points.front().knobs;
  check.points = static_cast<int>(curve.points.size());
  const std::vector<double> all_costs = costs_of(entry.points, blocking_power);
  const std::vector<int> pareto = pareto_set(entry.points, all_costs);
  check.pareto = count_with(check.knobs, entry.points, pareto);
  check.hull = count_with(check.knobs, entry.points, hull_of(entry.points, all_costs, pareto));
  for (std::size_t i = 0; i < entry.points.size(); ++i) {
    if (entry.points[i].knobs != check.knobs) continue;
    if (std::ranges::find(pareto, static_cast<int>(i)) == pareto.end()) {
      check.dominated.push_back(entry.points[i].clock);
    }
  }
  const std::vector<int> own = pareto_set(curve.points, costs_of(curve.points, blocking_power));
  const auto clock = [&](int i) { return curve.points[static_cast<std::size_t>(i)].clock; };
  check.fastest = clock(own.front());
  check.most_efficient = clock(own.back());
  if (!is_fixed_time(entry.kind)) check.missing = missing_clocks(curve.points);
  Suspicion(curve, blocking_power, check).look(curve.points.size() == entry.points.size());
  return check;
}

void note_identical_stages(const Profile& profile, std::vector<std::string>& notes) {
  using Key = std::vector<std::tuple<int, int, int, double, double>>;
  std::map<int, Key> content;
  for (const InstructionProfile& entry : profile.entries()) {
    for (const OperatingPoint& point : entry.points) {
      content[entry.stage].emplace_back(entry.chunk, static_cast<int>(entry.kind),
                                        point.clock.value, point.time.value, point.energy.value);
    }
  }
  std::map<Key, std::vector<int>> stages_with;
  for (auto& [stage, key] : content) stages_with[std::move(key)].push_back(stage);
  std::vector<std::vector<int>> groups;
  for (auto& [key, stages] : stages_with) {
    if (stages.size() > 1) groups.push_back(std::move(stages));
  }
  std::sort(groups.begin(), groups.end());
  for (const std::vector<int>& group : groups) {
    notes.push_back(plan::stage_list(group) +
                    " are identical to the last digit: copies, not measurements");
  }
}

void note_partial_kinds(const Profile& profile, std::vector<std::string>& notes) {
  std::map<InstructionKind, std::vector<int>> stages_with;
  for (const InstructionProfile& entry : profile.entries()) {
    std::vector<int>& stages = stages_with[entry.kind];
    if (stages.empty() || stages.back() != entry.stage) stages.push_back(entry.stage);
  }
  for (const auto& [kind, stages] : stages_with) {
    if (static_cast<int>(stages.size()) < profile.stages()) {
      notes.push_back("only " + plan::stage_list(stages) +
                      (stages.size() == 1 ? " has " : " have ") + std::string(name(kind)) +
                      " rows");
    }
  }
}

}  // namespace

ProfileCheck check_profile(const Profile& profile, const ProfileCheckOptions& options) {
  const std::vector<Watts>& powers = options.blocking_power;
  const auto stages = static_cast<std::size_t>(profile.stages());
  HARPE_CHECK(powers.size() <= 1 || powers.size() == stages,
              "blocking powers are one for all stages, or one each");
  ProfileCheck check;
  for (const InstructionProfile& entry : profile.entries()) {
    const auto stage = static_cast<std::size_t>(entry.stage);
    const Watts blocking_power = powers.empty() ? Watts{0} : powers[powers.size() == 1 ? 0 : stage];
    for (const InstructionProfile& curve : plan::curves_of(entry)) {
      check.instructions.push_back(check_curve(curve, entry, blocking_power));
    }
  }
  note_identical_stages(profile, check.notes);
  note_partial_kinds(profile, check.notes);
  return check;
}

}  // namespace harpe
