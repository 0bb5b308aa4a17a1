#include "harpe/plan/baseline/modelled_limits.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace harpe::plan {
namespace {

constexpr double kStep = 0.01;  ///< from one limit to the next, as a share of the highest

Watts mean_power(const OperatingPoint& point) {
  return point.energy / point.time;
}

/// Returns the power that an instruction would draw without the limit under which it was measured,
/// as a fraction of the limit: the inverse of `limited`. An instruction measured at the limit can
/// demand any higher power; the result is the least of them.
double demand_behind(double measured, double softness) {
  const double bend = 1 - softness;
  if (measured <= bend || softness <= 0) return measured;
  const double rest = std::max(0.0, 1 - (measured - bend) / softness);
  return bend + 2 * softness * (1 - std::sqrt(rest));
}

std::vector<OperatingPoint> without_knobs(std::span<const OperatingPoint> points) {
  std::vector<OperatingPoint> plain(points.begin(), points.end());
  std::erase_if(plain, [](const OperatingPoint& point) {
    return !point.knobs.empty() || !(point.time > Seconds{0});
  });
  return plain;
}

/// Returns the entry with one point for each limit, or unchanged if the kind has no choice of
/// clock. Nullopt if the profile has no clocks low enough for any limit.
std::optional<InstructionProfile> limited_entry(const InstructionProfile& entry,
                                                const GpuModel& gpu) {
  if (is_fixed_time(entry.kind)) return entry;
  InstructionProfile limited{entry.stage, entry.chunk, entry.kind, {}};
  for (double share = 1; share > kStep / 2; share -= kStep) {
    const Watts limit{std::round(gpu.power_limit.value * share)};
    const auto point = under_limit(entry.points, limit, gpu);
    if (!point) break;
    limited.points.push_back(*point);
  }
  if (limited.points.empty()) return std::nullopt;
  std::ranges::reverse(limited.points);  // by rising limit
  return limited;
}

}  // namespace

std::optional<OperatingPoint> under_limit(std::span<const OperatingPoint> points, Watts limit,
                                          const GpuModel& gpu) {
  const std::vector<OperatingPoint> plain = without_knobs(points);
  if (plain.empty()) return std::nullopt;
  const OperatingPoint& highest = plain.back();
  OperatingPoint found = highest;
  found.knobs.power_limit = limit;
  const Watts demand =
      gpu.power_limit * demand_behind(mean_power(highest) / gpu.power_limit, gpu.limit_softness);
  const Watts allowed = limit * limited(demand / limit, gpu.limit_softness);
  if (mean_power(highest) <= allowed) return found;
  // The highest clock that is low enough, and the next clock, which is not.
  const auto low = std::find_if(plain.rbegin(), plain.rend(), [&](const OperatingPoint& point) {
    return mean_power(point) <= allowed;
  });
  if (low == plain.rend()) return std::nullopt;
  const OperatingPoint& below = *low;
  const OperatingPoint& above = *std::prev(low);
  const double share = (allowed - mean_power(below)) / (mean_power(above) - mean_power(below));
  const Seconds time = below.time + (above.time - below.time) * share;
  const double clock = below.clock.value + share * (above.clock.value - below.clock.value);
  const double withheld = (highest.clock.value - clock) / gpu.max_clock.value;
  found.time = time / std::max(0.1, 1 - gpu.throttle_loss * withheld);
  found.energy = allowed * found.time;
  return found;
}

Result<std::vector<OneSettingPoint>> modelled_limits(const Frontier& frontier,
                                                     const GpuModel& gpu) {
  std::vector<InstructionProfile> entries;
  for (const InstructionProfile& entry : frontier.profile().entries()) {
    auto limited = limited_entry(entry, gpu);
    if (!limited) return std::vector<OneSettingPoint>{};
    entries.push_back(*std::move(limited));
  }
  const Plan all_max = frontier.all_max();
  const Profile limited = frontier.profile().with_entries(std::move(entries));
  const Pipeline whole =
      HARPE_TRY(Pipeline::build(frontier.pipeline().schedule(), frontier.pipeline().transfers()));
  const Frontier under_limits = HARPE_TRY(characterize(
      whole, limited,
      {.blocking_power = all_max.blocking_power, .gpus_per_stage = all_max.gpus_per_stage}));
  return under_limits.one_setting();
}

}  // namespace harpe::plan
