#include "harpe/lab/replay/comparison.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

namespace harpe::lab {
namespace {

constexpr std::size_t kLast = 5;

std::span<const Recurrence> last_of(const Recurrences& all) {
  return std::span(all).last(std::min(all.size(), kLast));
}

WayFigures figures_of(const TracedJob& job, const Recurrences& all, const Recurrences& by_default) {
  WayFigures figures{.cost_over_oracle = cost_over_oracle(job, all)};
  figures.regret = regret_of(job, all);
  std::map<std::pair<int, int>, int> chosen;
  Joules energy{}, default_energy{};
  Seconds time{}, default_time{};
  for (const Recurrence& one : last_of(all)) {
    energy += one.energy;
    time += one.time;
    ++chosen[{one.batch_size, one.power_limit}];
  }
  for (const Recurrence& one : last_of(by_default)) {
    default_energy += one.energy;
    default_time += one.time;
  }
  figures.last_energy = energy / default_energy;
  figures.last_time = time / default_time;
  int most = 0;
  for (const auto& [setting, times] : chosen) {
    if (times <= most) continue;
    most = times;
    figures.batch_size = setting.first;
    figures.power_limit = setting.second;
  }
  return figures;
}

}  // namespace

std::vector<double> regret_of(const TracedJob& job, const Recurrences& recurrences) {
  const double oracle = job.oracle_cost();
  std::vector<double> regret;
  double paid = 0;
  for (const Recurrence& one : recurrences) {
    paid += one.cost / oracle - 1;
    regret.push_back(paid);
  }
  return regret;
}

Result<SeedFigures> compare_seed(const TracedJob& job, std::uint64_t seed,
                                 const zeus::PayBackPrior& prior,
                                 const std::vector<zeus::KnownEpochs>& known) {
  const Recurrences by_default = recur_by_default(job, seed);
  const Result<Recurrences> by_zeus = recur_by_zeus(job, seed);
  if (!by_zeus.ok() && by_zeus.error().code != ErrorCode::kInfeasible) return by_zeus.error();
  TracedJob told = job;
  told.job.known_epochs = known;
  const Recurrences by_harpe = HARPE_TRY(recur_by_harpe(told, seed, prior));
  SeedFigures figures{.by_default = cost_over_oracle(job, by_default),
                      .by_grid = cost_over_oracle(job, recur_by_grid(job, seed)),
                      .harpe = figures_of(job, by_harpe, by_default),
                      .default_regret = regret_of(job, by_default)};
  if (by_zeus.ok()) figures.zeus = figures_of(job, *by_zeus, by_default);
  return figures;
}

Spread spread_of(std::span<const double> values) {
  Spread spread;
  if (values.empty()) return spread;
  const auto count = static_cast<double>(values.size());
  for (const double value : values) {
    spread.mean += value / count;
    spread.highest = std::max(spread.highest, value);
  }
  for (const double value : values) {
    spread.deviation += (value - spread.mean) * (value - spread.mean) / count;
  }
  spread.deviation = std::sqrt(spread.deviation);
  return spread;
}

}  // namespace harpe::lab
