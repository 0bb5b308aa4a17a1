#include "harpe/report/sentences.h"

#include <algorithm>
#include <cmath>

#include "harpe/plan/profile/profile.h"
#include "harpe/report/curve.h"
#include "harpe/report/markup.h"

namespace harpe::report {
namespace {

constexpr double kShown = 0.05;  ///< percent that one decimal shows as at least 0.1
/// Percent by which a plan is called faster: profiles have about 0.2 % of noise.
constexpr double kFaster = 0.5;

std::string percent(double value, int decimals = 1) {
  return concat({fixed(value, decimals), "\u00A0%"});
}

std::string speed(double time_change) {
  const double percents = 100 * time_change;
  if (std::abs(time_change) <= 1e-9) return "no slowdown";
  if (percents <= -kFaster) return percent(-percents) + " faster";
  if (percents < 0) return "no slowdown";
  return concat(
      {percents < kShown ? "less than " : "", percent(std::max(0.1, percents)), " slower"});
}

/// How far the plan is above a bound, as tables show it; never nothing, for a bound is rounded.
std::string gap_words(const ReportPoint& point, Joules bound) {
  const double gap = 100 * (point.energy / bound - 1);
  return (gap < 0.001 ? "less than " : "") + percent(std::max(0.001, gap), 3);
}

std::string saving_words(double saving) {
  const double percents = 100 * saving;
  if (percents >= kShown) return percent(percents) + " less energy";
  if (percents <= -kShown) return percent(-percents) + " more energy";
  return "the same energy";
}

}  // namespace

Comparison compare(const Plan& all_max, Seconds time, Joules energy) {
  if (!(all_max.iteration_time > Seconds{0}) || !(all_max.iteration_energy > Joules{0})) return {};
  return {time / all_max.iteration_time - 1, 1 - energy / all_max.iteration_energy};
}

std::string_view synthetic_remark(const Plan& plan) {
  return plan.synthetic ? kSyntheticRemark : std::string_view();
}

std::string headline(const Plan& all_max, const ReportPoint& point) {
  const auto [time_change, saving] = compare(all_max, point.time, point.energy);
  return concat({"Same computation, ", speed(time_change), ": ", saving_words(saving), "."});
}

std::string explanation(const Plan& all_max, const ReportPoint& point) {
  const DisplayUnit energy = energy_unit(all_max.iteration_energy.value);
  const DisplayUnit time = time_unit(all_max.iteration_time.value);
  const int gpus = all_max.stages * all_max.gpus_per_stage;
  std::string words =
      concat({"An iteration takes ", in_unit(point.energy.value, energy), " and ",
              in_unit(point.time.value, time), " on ", std::to_string(gpus),
              gpus == 1 ? " GPU" : " GPUs", "; with every instruction at its highest clock, ",
              in_unit(all_max.iteration_energy.value, energy), " and ",
              in_unit(all_max.iteration_time.value, time), "."});
  // A plan below its bound would be a defect elsewhere: nothing is claimed then.
  const Joules bound = has_tight_bound(point) ? point.tight_bound : point.lower_bound;
  if (bound > Joules{0} && point.energy >= (1 - 1e-9) * bound) {
    words += concat({" No choice of settings that ends in that time can need less than ",
                     in_unit(bound.value, energy), ": this plan is within ",
                     gap_words(point, bound), " of the best possible."});
  }
  return words;
}

}  // namespace harpe::report
