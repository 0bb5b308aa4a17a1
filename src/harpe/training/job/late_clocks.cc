#include "harpe/training/job/late_clocks.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "harpe/base/statistics.h"
#include "harpe/plan/frontier/predict.h"

namespace harpe::training {
namespace {

constexpr std::size_t kNewest = 8, kFewestIterations = 4;  // iterations
// Shorter latencies cost less than measurements resolve; no GPU takes longer than the longest.
constexpr Seconds kShortest{0.5e-3}, kLongest{0.5};
constexpr double kStep = 1.25;
constexpr int kRefinements = 8;
constexpr double kLeftUnexplained = 0.25;  // share of squared differences
// Most instructions replayed for one latency: about 50 latencies are tried on the thread of the
// job. In long lists, a few stages show as much as all.
constexpr std::size_t kMostInstructions = 4096;

/// Returns the lists of a plan for a replay.
std::vector<std::vector<PlannedInstruction>> lists_of(const Schedule& schedule,
                                                      const plan::TablePlan& plan) {
  std::vector<std::vector<PlannedInstruction>> lists;
  for (std::size_t stage = 0; stage < plan.clocks.size(); ++stage) {
    std::vector<PlannedInstruction>& list = lists.emplace_back();
    for (std::size_t i = 0; i < plan.clocks[stage].size(); ++i) {
      const Instruction& instruction = schedule.lists[stage][i];
      const InstructionSetting setting = plan.setting(stage, i);
      list.push_back({.kind = instruction.kind,
                      .chunk = std::max(0, schedule.chunk(instruction.part)),
                      .clock = setting.clock,
                      .knobs = setting.knobs});
    }
  }
  return lists;
}

}  // namespace

void LateClocks::add(std::uint64_t version, std::vector<double> items) {
  if (std::exchange(version_, version) != version) newest_.clear();
  newest_.push_back(std::move(items));
  if (newest_.size() > kNewest) newest_.pop_front();
}

std::vector<double> LateClocks::measured() const {
  std::vector<double> medians;
  if (newest_.size() < kFewestIterations) return medians;
  for (std::size_t i = 0; i < newest_.front().size(); ++i) {
    std::vector<double> values;
    for (const std::vector<double>& one : newest_) values.push_back(one[i]);
    medians.push_back(quantile(values, 0.5));
  }
  return medians;
}

std::optional<Seconds> latency_of(const Schedule& schedule, const plan::ScheduleWork& work,
                                  const Profile& profile, const plan::TablePlan& plan,
                                  std::span<const double> measured) {
  const auto lists = lists_of(schedule, plan);
  std::size_t instructions = 0;
  for (const auto& list : lists) instructions += list.size();
  const int stride = static_cast<int>(1 + instructions / kMostInstructions);
  // Sum of the squared differences of all work items, s^2.
  const auto unexplained = [&](Seconds latency) {
    double sum = 0;
    for (int stage = 0; stage < static_cast<int>(lists.size()); stage += stride) {
      const auto& list = lists[static_cast<std::size_t>(stage)];
      const std::vector<Seconds> times = replay_stage(list, profile, stage, latency);
      const std::vector<plan::WorkItem>& items = work.stage(stage);
      for (std::size_t k = 0; k < items.size(); ++k) {
        double planned = 0;
        for (std::size_t i = 0; i < list.size(); ++i) {
          if (list[i].kind == items[k].kind && list[i].chunk == items[k].chunk)
            planned += times[i].value;
        }
        const double difference = measured[work.first(stage) + k] * items[k].count - planned;
        if (std::isfinite(difference)) sum += difference * difference;
      }
    }
    return sum;
  };
  const double without = unexplained(Seconds{0});
  Seconds best{0};
  double least = without;
  const auto consider = [&](Seconds latency) {
    const double left = unexplained(latency);
    if (left >= least) return;
    least = left;
    best = latency;
  };
  for (Seconds latency = kShortest; latency <= kLongest; latency = latency * kStep)
    consider(latency);
  double step = kStep;
  for (int i = 0; i < kRefinements; ++i) {
    step = std::sqrt(step);
    const Seconds middle = best;
    consider(middle * step);
    consider(middle * (1 / step));
  }
  if (best <= Seconds{0} || !(least <= kLeftUnexplained * without)) return std::nullopt;
  return best;
}

}  // namespace harpe::training
