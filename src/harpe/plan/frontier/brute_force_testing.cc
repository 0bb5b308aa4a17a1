#include "harpe/plan/frontier/brute_force_testing.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>
#include <vector>

#include "harpe/plan/frontier/planned_work_testing.h"
#include "harpe/plan/frontier/work_graph_testing.h"

namespace harpe::plan {
namespace {

/// Time in units of a power of two, so that all times of a case are integers.
__extension__ using Ticks = __int128;

class TickScale {
 public:
  void add(Seconds time) {
    if (time.value == 0) return;
    int exponent = 0;
    auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(time.value, &exponent), 53));
    exponent -= 53;
    for (; mantissa % 2 == 0; mantissa /= 2) ++exponent;
    exponent_ = std::min(exponent_, exponent);
    sum_ += std::abs(static_cast<long double>(time.value));
  }
  /// Returns true if the sum of all times fits the integers.
  bool fits() const { return sum_ < std::ldexp(1.0L, 124 + exponent_); }

  Ticks exactly(Seconds time) const {
    int exponent = 0;
    const double mantissa = std::frexp(time.value, &exponent);
    if (mantissa == 0) return 0;
    const auto digits = static_cast<Ticks>(std::ldexp(mantissa, 53));
    const int shift = exponent - 53 - exponent_;
    return shift >= 0 ? digits << shift : digits >> -shift;  // the digits shifted out are 0
  }
  /// Returns the time, raised by its possible rounding error and rounded up.
  Ticks rounded_up(long double time) const {
    if (time == 0) return 0;
    const long double more = time * (1 + 16 * std::numeric_limits<long double>::epsilon());
    return static_cast<Ticks>(std::ldexp(more, -exponent_)) + 1;
  }
  long double seconds(Ticks ticks) const {
    return std::ldexp(static_cast<long double>(ticks), exponent_);
  }

 private:
  int exponent_ = -70;  // fine enough for costs of late settings, which are rounded
  long double sum_ = 0;
};

/// Effective energy of one GPU, with the sum of the sizes of its terms.
struct Energy {
  long double value = 0;
  long double size = 0;

  static Energy effective(Joules energy, Watts power, Seconds time) {
    const long double blocking = static_cast<long double>(power.value) * time.value;
    return {energy.value - blocking, energy.value + blocking};
  }
  Energy& operator+=(const Energy& other) {
    value += other.value;
    size += std::abs(other.size);
    return *this;
  }
};

/// The operating points that one instruction, or one part of it, can run at.
struct Item {
  struct Choice {
    OperatingPoint point;
    Ticks time = 0;
    Energy energy;
  };
  struct Late {
    Ticks time = 0;
    Energy energy;
  };
  int node = 0;
  int stage = 0;
  std::vector<Choice> choices;
  std::vector<OperatingPoint> points = {};  ///< of the choices
};

class BruteForce {
 public:
  BruteForce(const Plan& plan, const Schedule& schedule, const Profile& profile,
             const LatencyByClock* latency)
      : plan_(plan),
        profile_(rows_of_chunks(profile, schedule)),
        latency_(latency),
        work_(planned_work(plan, schedule, profile_)) {}

  Truth truth() {
    Truth truth{.mismatch = work_.mismatch};
    if (!truth.mismatch.empty()) return truth;
    graph_.emplace(work_.schedule, plan_.transfers);
    collect_times();
    if (!scale_.fits() || static_cast<int>(graph_->order().size()) < graph_->nodes()) return truth;
    truth.is_known = true;
    add_items();
    const Ticks makespan = makespan_of(durations_of_plan());
    period_ = std::max(makespan, scale_.exactly(plan_.iteration_time));
    truth.makespan = scale_.seconds(makespan);
    truth.period = scale_.seconds(period_);
    truth.energy = whole(energy_of_plan(), truth.rounding);
    if (latency_ != nullptr) add_own_late_costs(truth);
    truth.assignments = count();
    if (truth.assignments > 0) find_optimum(truth);
    return truth;
  }

 private:
  /// Items of a stage, and the costs of late settings by the choices of the items.
  struct Stage {
    std::size_t first = 0, end = 0;
    std::map<std::vector<std::size_t>, std::vector<Item::Late>> late;
  };

  template <class Visit>
  void each_entry(Visit visit) const {
    for (std::size_t r = 0; r < work_.runs.size(); ++r) {
      for (const std::size_t e : work_.runs[r].entries)
        visit(static_cast<int>(r), work_.runs[r].stage, plan_.instructions[work_.runs[r].stage][e]);
    }
  }

  /// Returns the point of an entry. `switch` and fixed-time instructions without rows have the time
  /// and energy of the plan.
  OperatingPoint point_of(int stage, const PlannedInstruction& entry) const {
    const auto points = profile_.points(stage, entry.chunk, entry.kind);
    if (entry.kind == InstructionKind::kSwitch || points.empty())
      return {.clock = {}, .time = entry.time, .energy = entry.energy};
    if (is_fixed_time(entry.kind)) return points.front();
    for (const OperatingPoint& point : points) {
      if (point.setting() == entry.setting()) return point;
    }
    return {.clock = {}, .time = entry.time, .energy = entry.energy};
  }

  void collect_times() {
    scale_.add(plan_.iteration_time);
    for (const auto* times : {&plan_.transfers.forward, &plan_.transfers.backward}) {
      // Each transfer may be on the longest path once for every micro-batch.
      for (int k = 0; k < plan_.micro_batches; ++k) {
        for (const Seconds time : *times) scale_.add(time);
      }
    }
    each_entry([&](int, int stage, const PlannedInstruction& entry) {
      scale_.add(point_of(stage, entry).time);
      for (const OperatingPoint& p : profile_.points(stage, entry.chunk, entry.kind))
        scale_.add(p.time);
    });
    for (const InstructionProfile& entry : profile_.entries()) {
      for (const OperatingPoint& point : entry.points) scale_.add(point.time);
    }
  }

  std::vector<Ticks> durations_of_plan() const {
    std::vector<Ticks> durations(graph_->nodes());
    each_entry([&](int node, int stage, const PlannedInstruction& entry) {
      durations[node] += scale_.exactly(point_of(stage, entry).time);
    });
    add_transfers(durations);
    return durations;
  }
  void add_transfers(std::vector<Ticks>& durations) const {
    for (std::size_t t = 0; t < graph_->transfer_times().size(); ++t)
      durations[graph_->instructions() + t] = scale_.exactly(graph_->transfer_times()[t]);
  }
  Energy energy_of_plan() const {
    Energy sum;
    each_entry([&](int, int stage, const PlannedInstruction& entry) {
      const OperatingPoint point = point_of(stage, entry);
      sum += Energy::effective(point.energy, plan_.blocking_power[stage], point.time);
    });
    return sum;
  }

  Ticks makespan_of(const std::vector<Ticks>& durations) const {
    std::vector<Ticks>& end = ends_;
    end.assign(durations.size(), 0);
    Ticks last = 0;
    for (const int node : graph_->order()) {
      Ticks start = 0;
      for (const WorkGraph::Edge& edge : graph_->into(node)) {
        const Ticks lag = edge.lag == Seconds{0} ? 0 : scale_.exactly(edge.lag);
        start = std::max(start, end[edge.from] + lag);
      }
      end[node] = start + durations[node];
      last = std::max(last, end[node]);
    }
    return last;
  }

  /// Returns the energy of the whole pipeline, given the effective energy of one GPU a stage.
  long double whole(const Energy& effective, long double& rounding) const {
    const long double period = scale_.seconds(period_);
    long double blocking = 0;
    for (const Watts power : plan_.blocking_power) blocking += power.value * period;
    // The factor is far above the number of roundings of a small case.
    const long double error = 64 * std::numeric_limits<long double>::epsilon();
    rounding = std::max(rounding, error * plan_.gpus_per_stage * (effective.size + blocking));
    return plan_.gpus_per_stage * (effective.value + blocking);
  }

  void add_items() {
    fixed_.assign(graph_->nodes(), 0);
    add_transfers(fixed_);
    int node = 0;
    for (int stage = 0; stage < work_.schedule.stages; ++stage) {
      const std::size_t first = items_.size();
      for (const Instruction& whole : work_.schedule.lists[stage]) {
        for (const Instruction& part : runs_as(whole, stage, work_.schedule, profile_)) {
          if (is_fixed_time(part.kind)) {
            add_fixed(node, stage);
          } else {
            add_item(node, stage, part);
          }
        }
        ++node;
      }
      stages_.push_back({.first = first, .end = items_.size(), .late = {}});
    }
  }
  void add_fixed(int node, int stage) {
    for (const std::size_t e : work_.runs[node].entries) {
      const PlannedInstruction& entry = plan_.instructions[stage][e];
      if (entry.kind == InstructionKind::kSwitch) continue;  // no plan must wait for a setting
      const OperatingPoint point = point_of(stage, entry);
      fixed_[node] += scale_.exactly(point.time);
      fixed_energy_ += Energy::effective(point.energy, plan_.blocking_power[stage], point.time);
    }
  }
  void add_item(int node, int stage, const Instruction& part) {
    Item& item = items_.emplace_back();
    item.node = node;
    item.stage = stage;
    const int chunk = chunk_of(work_.schedule, part.part);
    for (const OperatingPoint& point : profile_.points(stage, chunk, part.kind)) {
      item.choices.push_back(
          {point, scale_.exactly(point.time),
           Energy::effective(point.energy, plan_.blocking_power[stage], point.time)});
      item.points.push_back(point);
    }
  }
  /// Returns the cost of late settings for each item of a stage. Assignments of the pipeline that
  /// agree on the stage share the result.
  const std::vector<Item::Late>& late_of(Stage& stage, const std::vector<std::size_t>& choice) {
    std::vector<std::size_t> own(choice.begin() + static_cast<std::ptrdiff_t>(stage.first),
                                 choice.begin() + static_cast<std::ptrdiff_t>(stage.end));
    const auto [at, is_new] = stage.late.try_emplace(std::move(own));
    if (!is_new) return at->second;
    std::vector<LateRun> runs;
    for (std::size_t i = stage.first; i < stage.end; ++i)
      runs.push_back({items_[i].points, items_[i].points[choice[i]]});
    const Watts power = plan_.blocking_power[items_[stage.first].stage];
    for (const LateCost& cost : late_costs(runs, power, *latency_))
      at->second.push_back({scale_.rounded_up(cost.time), {cost.energy, cost.energy}});
    return at->second;
  }
  template <class Visit>
  void each_late(const std::vector<std::size_t>& choice, Visit visit) {
    if (latency_ == nullptr) return;
    for (Stage& stage : stages_) {
      if (stage.first == stage.end) continue;
      const std::vector<Item::Late>& late = late_of(stage, choice);
      for (std::size_t i = stage.first; i < stage.end; ++i) visit(items_[i], late[i - stage.first]);
    }
  }

  /// Number of assignments, 0 if there are too many or none.
  std::uint64_t count() const {
    std::uint64_t assignments = 1;
    for (const Item& item : items_) {
      assignments *= item.choices.size();
      if (assignments > kMostAssignments) return 0;
    }
    return assignments;
  }

  Energy energy_of(const std::vector<std::size_t>& choice) {
    Energy sum = fixed_energy_;
    for (std::size_t i = 0; i < items_.size(); ++i) sum += items_[i].choices[choice[i]].energy;
    each_late(choice, [&](const Item&, const Item::Late& late) { sum += late.energy; });
    return sum;
  }
  Ticks makespan_with(const std::vector<std::size_t>& choice) {
    durations_ = fixed_;
    for (std::size_t i = 0; i < items_.size(); ++i)
      durations_[items_[i].node] += items_[i].choices[choice[i]].time;
    each_late(choice, [&](const Item& item, const Item::Late& late) {
      durations_[item.node] += late.time;
    });
    return makespan_of(durations_);
  }

  void find_optimum(Truth& truth) {
    std::vector<std::size_t> choice(items_.size(), 0);
    std::optional<Energy> least;
    for (std::uint64_t n = 0; n < truth.assignments; ++n) {
      const Energy energy = energy_of(choice);
      if ((!least || energy.value < least->value) && makespan_with(choice) <= period_)
        least = energy;
      for (std::size_t i = 0; i < choice.size(); ++i) {
        if (++choice[i] < items_[i].choices.size()) break;
        choice[i] = 0;
      }
    }
    if (least) truth.optimum = whole(*least, truth.rounding);
  }

  /// Adds the late costs of the plan's settings, which are one of the assignments, unless the plan
  /// wrongly runs a whole instruction in parts.
  void add_own_late_costs(Truth& truth) {
    std::vector<const PlannedInstruction*> computations;
    each_entry([&](int, int, const PlannedInstruction& entry) {
      if (!is_fixed_time(entry.kind)) computations.push_back(&entry);
    });
    if (computations.size() != items_.size()) return;
    std::vector<std::size_t> choice;
    for (std::size_t i = 0; i < items_.size(); ++i) {
      std::size_t k = 0;
      while (k < items_[i].choices.size() &&
             items_[i].choices[k].point.setting() != computations[i]->setting())
        ++k;
      if (k == items_[i].choices.size()) return;
      choice.push_back(k);
    }
    truth.late_energy = whole(energy_of(choice), truth.rounding);
    truth.late_makespan = scale_.seconds(makespan_with(choice));
  }

  const Plan& plan_;
  Profile profile_;  ///< with rows for each chunk
  const LatencyByClock* latency_;
  PlannedWork work_;
  std::optional<WorkGraph> graph_;
  TickScale scale_;
  Ticks period_ = 0;
  std::vector<Item> items_;
  std::vector<Stage> stages_;
  std::vector<Ticks> fixed_;  // time of each node that all assignments share
  Energy fixed_energy_;
  std::vector<Ticks> durations_;     // scratch
  mutable std::vector<Ticks> ends_;  // scratch
};

}  // namespace

Truth brute_force(const Plan& plan, const Schedule& schedule, const Profile& profile,
                  const LatencyByClock* latency) {
  return BruteForce(plan, schedule, profile, latency).truth();
}

}  // namespace harpe::plan
