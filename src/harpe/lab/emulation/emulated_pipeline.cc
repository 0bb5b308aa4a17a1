#include "harpe/lab/emulation/emulated_pipeline.h"

#include <algorithm>
#include <string>
#include <tuple>

#include "harpe/base/check.h"
#include "harpe/base/hashed_random.h"
#include "harpe/plan/frontier/at_setting.h"

namespace harpe::lab {
namespace {

/// Generator of nearly standard normal numbers, never beyond 4.9: sums of eight uniform 16-bit
/// numbers (Irwin-Hall). Takes a quarter of the time of `normal` in hashed_random.h, with the same
/// numbers on every machine.
class FastNormal {
 public:
  explicit FastNormal(std::uint64_t draws) : state_(draws) {}

  double next() {
    const std::uint64_t sum = pairs(next_bits()) + pairs(next_bits());
    return (static_cast<double>((sum & 0xffffffff) + (sum >> 32)) - kMean) * kScale;
  }

 private:
  // Two sums of two 16-bit numbers, in the halves of a 64-bit number.
  static std::uint64_t pairs(std::uint64_t bits) {
    constexpr std::uint64_t kEverySecond = 0x0000ffff0000ffff;
    return (bits & kEverySecond) + ((bits >> 16) & kEverySecond);
  }
  // SplitMix64, whose state is a counter.
  std::uint64_t next_bits() { return mixed(state_ += 0x9e3779b97f4a7c15); }

  static constexpr double kMean = 8 * 65535 / 2.0;
  static constexpr double kScale = 1 / 53509.91992145;  // sqrt(8 (2^32 - 1) / 12)
  std::uint64_t state_;
};

}  // namespace

EmulatedPipeline::EmulatedPipeline(const Pipeline& pipeline, const Profile& profile,
                                   std::vector<Watts> blocking_power, LatencyByClock switch_latency)
    : blocking_power_(std::move(blocking_power)),
      latency_(std::move(switch_latency)),
      is_late_(latency_.longest() > Seconds{0}) {
  HARPE_CHECK(blocking_power_.size() == pipeline.schedule().lists.size(),
              "a pipeline has one blocking power per stage");
  std::map<std::tuple<int, int, InstructionKind>, std::size_t> known;
  for (const PipelineNode& node : pipeline.nodes()) {
    if (node.stage < 0) {
      transfers_.push_back(node.transfer_time);
      continue;
    }
    while (first_of_stage_.size() <= static_cast<std::size_t>(node.stage))
      first_of_stage_.push_back(rows_.size());
    const InstructionKind kind = node.instruction.kind;
    const auto [row, is_new] = known.try_emplace({node.stage, node.chunk, kind}, points_.size());
    if (is_new) {
      const auto points = profile.points(node.stage, node.chunk, kind);
      points_.emplace_back(points.begin(), points.end());
    }
    rows_.push_back(row->second);
    is_computation_.push_back(is_fixed_time(kind) ? 0 : 1);
  }
  first_of_stage_.resize(blocking_power_.size() + 1, rows_.size());
  cost_of_setting_.resize(points_.size());

  std::vector<std::vector<Dependency>> before(pipeline.nodes().size());
  for (const Dependency& dependency : pipeline.dependencies())
    before[dependency.to].push_back(dependency);
  order_.assign(pipeline.order().begin(), pipeline.order().end());
  first_.push_back(0);
  for (const int node : order_) {
    for (const Dependency& dependency : before[node]) {
      from_.push_back(dependency.from);
      lag_.push_back(dependency.lag.value);
    }
    first_.push_back(static_cast<int>(from_.size()));
  }
}

int EmulatedPipeline::setting_number(const InstructionSetting& setting) {
  const int next = static_cast<int>(latency_to_.size());
  const auto [entry, is_new] = settings_.try_emplace(setting, next);
  if (!is_new) return entry->second;
  setting_of_.push_back(setting);
  latency_to_.push_back(latency_.to(setting.clock));
  for (std::size_t row = 0; row < points_.size(); ++row) {
    const auto point = plan::at_setting(points_[row], setting);
    cost_of_setting_[row].push_back(point ? plan::InstructionCost{point->time, point->energy}
                                          : plan::InstructionCost{});
  }
  return next;
}

plan::InstructionCost EmulatedPipeline::cost_at(std::size_t instruction, int setting) const {
  const std::size_t row = rows_[instruction];
  if (setting >= 0 && is_computation_[instruction] != 0) return cost_of_setting_[row][setting];
  if (points_[row].empty()) return {};  // a fixed-time instruction that the profile lacks
  return {points_[row].front().time, points_[row].front().energy};
}

Result<std::size_t> EmulatedPipeline::add(const plan::TablePlan& plan) {
  PlanCosts costs;
  for (std::size_t stage = 0; stage < stages(); ++stage) {
    const std::size_t count = first_of_stage_[stage + 1] - first_of_stage_[stage];
    if (stage >= plan.clocks.size() || plan.clocks[stage].size() != count) {
      return Error::invalid("the plan is of another pipeline: it does not have " +
                            std::to_string(count) + " clocks for stage " + std::to_string(stage));
    }
    for (std::size_t i = 0; i < count; ++i) {
      const InstructionSetting setting = plan.setting(stage, i);
      costs.setting.push_back(setting.clock == Megahertz{0} ? -1 : setting_number(setting));
      const plan::InstructionCost cost = cost_at(costs.time.size(), costs.setting.back());
      costs.time.push_back(cost.time.value);
      costs.energy.push_back(cost.energy.value);
    }
  }
  plans_.push_back(std::move(costs));
  return plans_.size() - 1;
}

Megahertz EmulatedPipeline::lowest_clock() const {
  Megahertz lowest{0};
  for (std::size_t i = 0; i < instructions(); ++i) {
    if (is_computation_[i] == 0 || points_[rows_[i]].empty()) continue;
    const Megahertz clock = points_[rows_[i]].front().clock;
    lowest = lowest == Megahertz{0} ? clock : std::min(lowest, clock);
  }
  return lowest;
}

std::size_t EmulatedPipeline::throttled(std::size_t plan, Megahertz held_to) {
  const auto [entry, is_new] = variants_.try_emplace({plan, held_to}, plan);
  if (!is_new) return entry->second;
  PlanCosts costs = plans_[plan];
  for (std::size_t i = 0; i < instructions(); ++i) {
    if (costs.setting[i] < 0 || is_computation_[i] == 0) continue;
    InstructionSetting setting = setting_of_[costs.setting[i]];
    setting.clock = std::min(setting.clock, held_to);
    costs.setting[i] = setting_number(setting);
    const plan::InstructionCost cost = cost_at(i, costs.setting[i]);
    costs.time[i] = cost.time.value;
    costs.energy[i] = cost.energy.value;
  }
  if (costs.setting == plans_[plan].setting) return plan;
  plans_.push_back(std::move(costs));
  return entry->second = plans_.size() - 1;
}

void EmulatedPipeline::draw(std::uint64_t draws, double deviation, Noise& noise) const {
  noise.time.resize(instructions());
  noise.energy.resize(instructions());
  FastNormal normal(draws);
  for (std::size_t i = 0; i < instructions(); ++i) {
    noise.time[i] = 1 + deviation * normal.next();
    noise.energy[i] = 1 + deviation * normal.next();
  }
}

EmulatedPipeline::Clocks EmulatedPipeline::steady_clocks(std::size_t plan) const {
  Clocks clocks;
  if (!is_late_) return clocks;
  Run run;
  run.time.resize(instructions());
  run.energy.resize(instructions());
  for (std::size_t stage = 0; stage < stages(); ++stage) {
    plan::SettingState<int>& gpu = clocks.emplace_back(plan::SettingState<int>{.in_force = -1});
    for (std::size_t i = first_of_stage_[stage]; i < first_of_stage_[stage + 1]; ++i)
      if (plans_[plan].setting[i] >= 0) gpu.in_force = plans_[plan].setting[i];
    plan::settle(gpu, [&] { run_late(stage, plans_[plan], {}, gpu, run); });
  }
  return clocks;
}

void EmulatedPipeline::run_on_time(const PlanCosts& costs, const Conditions& conditions,
                                   Run& run) const {
  const double more = conditions.slowdown - 1;
  for (std::size_t i = 0; i < instructions(); ++i) {
    const double factor = 1 + more * is_computation_[i];
    run.time[i] = costs.time[i] * factor;
    run.energy[i] = costs.energy[i] * factor;
  }
  if (conditions.noise == nullptr) return;
  for (std::size_t i = 0; i < instructions(); ++i) {
    run.time[i] *= conditions.noise->time[i];
    run.energy[i] *= conditions.noise->energy[i];
  }
}

void EmulatedPipeline::run_late(std::size_t stage, const PlanCosts& costs,
                                const Conditions& conditions, plan::SettingState<int>& gpu,
                                Run& run) const {
  for (std::size_t i = first_of_stage_[stage]; i < first_of_stage_[stage + 1]; ++i) {
    const double factor = is_computation_[i] != 0 ? conditions.slowdown : 1;
    const double time_factor =
        factor * (conditions.noise == nullptr ? 1 : conditions.noise->time[i]);
    const double energy_factor =
        factor * (conditions.noise == nullptr ? 1 : conditions.noise->energy[i]);
    const int setting = costs.setting[i];
    if (setting < 0) {
      run.time[i] = costs.time[i] * time_factor;
      run.energy[i] = costs.energy[i] * energy_factor;
      if (!gpu.pending.empty()) gpu.pass(Seconds{run.time[i]});
      continue;
    }
    gpu.request(setting, latency_to_[setting]);
    if (gpu.pending.empty()) {
      run.time[i] = costs.time[i] * time_factor;
      run.energy[i] = costs.energy[i] * energy_factor;
      continue;
    }
    const plan::InstructionCost cost = plan::run_instruction(gpu, [&](int at) {
      const plan::InstructionCost whole = cost_at(i, at);
      return plan::InstructionCost{whole.time * time_factor, whole.energy * energy_factor};
    });
    run.time[i] = cost.time.value;
    run.energy[i] = cost.energy.value;
  }
}

/// Sets the ends of all instructions, as early as possible: `Pipeline::earliest` over arrays that
/// are made once, since an emulated year places millions of iterations.
void EmulatedPipeline::place(Run& run) const {
  double makespan = 0;
  for (std::size_t k = 0; k < order_.size(); ++k) {
    double start = 0;
    for (int d = first_[k]; d < first_[k + 1]; ++d)
      start = std::max(start, run.end[from_[d]] + lag_[d]);
    const auto node = static_cast<std::size_t>(order_[k]);
    const double time =
        node < run.time.size() ? run.time[node] : transfers_[node - run.time.size()].value;
    run.end[node] = start + time;
    makespan = std::max(makespan, start + time);
  }
  run.makespan = Seconds{makespan};
}

void EmulatedPipeline::run(const Conditions& conditions, Clocks& clocks, Run& run) const {
  run.time.resize(instructions());
  run.energy.resize(instructions());
  run.end.resize(order_.size());
  run.effective.resize(stages());
  const PlanCosts& costs = plans_[conditions.plan];
  if (!is_late_) {
    run_on_time(costs, conditions, run);
  } else {
    for (std::size_t stage = 0; stage < stages(); ++stage)
      run_late(stage, costs, conditions, clocks[stage], run);
  }
  for (std::size_t stage = 0; stage < stages(); ++stage) {
    double energy = 0, time = 0;
    for (std::size_t i = first_of_stage_[stage]; i < first_of_stage_[stage + 1]; ++i) {
      energy += run.energy[i];
      time += run.time[i];
    }
    run.effective[stage] = Joules{energy} - blocking_power_[stage] * Seconds{time};
  }
  place(run);
}

}  // namespace harpe::lab
