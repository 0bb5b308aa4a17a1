#include "harpe/frontier/verify.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>
#include <utility>

#include "harpe/base/text.h"

namespace harpe {
namespace {

constexpr double kTolerance = 1e-9;            // relative, for sums in another order
constexpr double kOptimalityTolerance = 1e-6;  // relative, for whole nanoseconds
constexpr std::size_t kMostFaults = 20;

bool close(double a, double b) {
  return std::abs(a - b) <= kTolerance * std::max(std::abs(a), std::abs(b));
}

bool is_amount(double value) {
  return value >= 0 && std::isfinite(value);
}

std::string describe(int stage, InstructionKind kind, int micro_batch) {
  std::string text = "stage " + std::to_string(stage) + " " + std::string(name(kind));
  if (micro_batch >= 0) text += " of micro-batch " + std::to_string(micro_batch);
  return text;
}

std::string describe(const PipelineNode& node) {
  const Instruction& i = node.instruction;
  if (node.stage >= 0) return describe(node.stage, i.kind, i.micro_batch);
  return "transfer of micro-batch " + std::to_string(i.micro_batch) + " from part " +
         std::to_string(i.part);
}

std::string seconds(Seconds time) {
  return shortest(time.value) + " s";
}
std::string joules(Joules energy) {
  return shortest(energy.value) + " J";
}

/// Time and effective energy of one choice for a node.
struct Choice {
  Seconds time;
  Joules cost;
};

/// Lower convex hull of the Pareto-optimal choices, fastest first.
std::vector<Choice> hull_of(std::vector<Choice> choices) {
  std::ranges::sort(choices, [](const Choice& a, const Choice& b) {
    return a.time != b.time ? a.time < b.time : a.cost < b.cost;
  });
  std::vector<Choice> hull;
  for (const Choice& c : choices) {
    if (!hull.empty() && c.cost >= hull.back().cost) continue;
    while (hull.size() > 1) {
      const Choice& a = hull[hull.size() - 2];
      const Choice& b = hull.back();
      const bool b_is_below = (b.cost - a.cost).value * (c.time - a.time).value <
                              (c.cost - a.cost).value * (b.time - a.time).value;
      if (b_is_below) break;
      hull.pop_back();
    }
    hull.push_back(c);
  }
  return hull;
}

/// Least cost of a node that may take `time`, mixing its choices.
Joules relaxed_cost(const std::vector<Choice>& hull, Seconds time) {
  if (time <= hull.front().time) return hull.front().cost;
  for (std::size_t k = 1; k < hull.size(); ++k) {
    if (time >= hull[k].time) continue;
    const double part = (time - hull[k - 1].time) / (hull[k].time - hull[k - 1].time);
    return hull[k - 1].cost + part * (hull[k].cost - hull[k - 1].cost);
  }
  return hull.back().cost;
}

class Verifier {
 public:
  Verifier(const Plan& plan, const Profile& profile) : plan_(plan), profile_(profile) {}

  Verification verify(const Certificate* certificate) {
    if (!check_shape()) return take();
    auto schedule = schedule_of(plan_);
    if (!schedule) return add(schedule.error().text()), take();
    const auto pipeline = Pipeline::build(*schedule, plan_.transfers);
    if (!pipeline) return add(pipeline.error().text()), take();
    check_operating_points();
    check_time(*pipeline);
    check_energy();
    if (certificate == nullptr) return take();

    // Waiting for clocks only adds time and cost: the bound is that of the pipeline without it.
    for (auto& list : schedule->lists) {
      std::erase_if(list, [](const Instruction& i) { return i.kind == InstructionKind::kSwitch; });
    }
    const auto without_switches = Pipeline::build(*std::move(schedule), plan_.transfers);
    if (!without_switches) return add(without_switches.error().text()), take();
    check_certificate(*without_switches, *certificate);
    return take();
  }

 private:
  void add(std::string fault) {
    if (++faults_ <= kMostFaults) found_.faults.push_back(std::move(fault));
  }

  Verification take() {
    if (faults_ > kMostFaults) {
      found_.faults.push_back("and " + std::to_string(faults_ - kMostFaults) + " more");
    }
    return std::move(found_);
  }

  template <class Visit>
  void each(Visit visit) const {
    for (int stage = 0; stage < plan_.stages; ++stage) {
      for (const PlannedInstruction& i : plan_.instructions[stage]) visit(stage, i);
    }
  }

  bool check_shape() {
    const auto stages = static_cast<std::size_t>(std::max(plan_.stages, 0));
    if (plan_.instructions.size() != stages) add("the plan needs one list of instructions a stage");
    if (plan_.blocking_power.size() != stages) add("the plan needs one blocking power a stage");
    for (const Watts power : plan_.blocking_power) {
      if (!is_amount(power.value)) add("blocking power must not be negative");
    }
    if (plan_.gpus_per_stage < 1) add("a stage needs at least one GPU");
    if (!is_amount(plan_.iteration_time.value)) add("the iteration time must not be negative");
    if (faults_ > 0) return false;
    each([&](int stage, const PlannedInstruction& i) {
      if (is_amount(i.start.value) && is_amount(i.time.value) && is_amount(i.energy.value)) return;
      add(describe(stage, i.kind, i.micro_batch) + ": start, time and energy must not be negative");
    });
    return faults_ == 0;
  }

  void check_operating_points() {
    each([&](int stage, const PlannedInstruction& i) {
      const std::string fault = operating_point_fault(stage, i);
      if (!fault.empty()) add(describe(stage, i.kind, i.micro_batch) + fault);
    });
  }

  std::string operating_point_fault(int stage, const PlannedInstruction& i) const {
    if (is_fixed_time(i.kind) && i.clock != Megahertz{0}) return " has no clock to choose";
    if (i.kind == InstructionKind::kSwitch) {
      const Joules blocking = plan_.blocking_power[stage] * i.time;
      const bool costs = i.energy >= blocking || close(i.energy.value, blocking.value);
      return costs ? "" : " takes less energy than blocking for that time";
    }
    const auto points = profile_.points(stage, i.chunk, i.kind);
    if (points.empty()) {
      return i.clock == Megahertz{0} ? "" : " has a clock, but no rows in the profile";
    }
    const auto point =
        is_fixed_time(i.kind)
            ? points.begin()
            : std::ranges::find(points, i.clock, [](const OperatingPoint& p) { return p.clock; });
    const std::string at =
        is_fixed_time(i.kind) ? "" : " at " + std::to_string(i.clock.value) + " MHz";
    if (point == points.end()) return at + ": no such row in the profile";
    if (!close(i.time.value, point->time.value)) {
      return at + ": takes " + seconds(point->time) + " in the profile, not " + seconds(i.time);
    }
    if (!close(i.energy.value, point->energy.value)) {
      return at + ": takes " + joules(point->energy) + " in the profile, not " + joules(i.energy);
    }
    return "";
  }

  void check_time(const Pipeline& pipeline) {
    const auto nodes = pipeline.nodes();
    std::vector<Seconds> start, time;
    each([&](int, const PlannedInstruction& i) {
      start.push_back(i.start);
      time.push_back(i.time);
    });
    const std::size_t instructions = start.size();
    for (std::size_t i = instructions; i < nodes.size(); ++i) {
      start.push_back({});
      time.push_back(nodes[i].transfer_time);
    }
    found_.makespan = pipeline.earliest(time).makespan;

    // Dependencies are ordered by `to`; a transfer starts when all that it waits for has ended.
    const auto is_transfer = [&](int node) {
      return static_cast<std::size_t>(node) >= instructions;
    };
    for (const Dependency& d : pipeline.dependencies()) {
      if (is_transfer(d.to)) start[d.to] = std::max(start[d.to], start[d.from] + time[d.from]);
    }
    const Seconds tolerance{kTolerance + kTolerance * plan_.iteration_time.value};
    for (const Dependency& d : pipeline.dependencies()) {
      const Seconds ready = start[d.from] + time[d.from] + d.lag;
      if (is_transfer(d.to) || start[d.to] + tolerance >= ready) continue;
      add(describe(nodes[d.to]) + " starts at " + seconds(start[d.to]) + ", but " +
          describe(nodes[d.from]) + " lets it start at " + seconds(ready));
    }
    Seconds end{0};
    for (std::size_t i = 0; i < nodes.size(); ++i) end = std::max(end, start[i] + time[i]);
    if (end > plan_.iteration_time + tolerance) {
      add("the iteration takes " + seconds(end) + ", not " + seconds(plan_.iteration_time));
    }
  }

  void check_energy() {
    Joules effective{0};
    each([&](int stage, const PlannedInstruction& i) {
      effective += i.energy - plan_.blocking_power[stage] * i.time;
    });
    found_.energy = whole_pipeline(effective, plan_.iteration_time);
    if (!close(found_.energy.value, plan_.iteration_energy.value)) {
      add("the iteration takes " + joules(found_.energy) + ", not " +
          joules(plan_.iteration_energy));
    }
    if (plan_.lower_bound.value > found_.energy.value * (1 + kTolerance)) {
      add("the claimed lower bound, " + joules(plan_.lower_bound) +
          ", is above the energy of the plan itself, " + joules(found_.energy));
    }
  }

  /// From the sum of effective energies of one GPU a stage.
  Joules whole_pipeline(Joules effective, Seconds time) const {
    Watts blocking{0};
    for (const Watts power : plan_.blocking_power) blocking += power;
    return (effective + blocking * time) * plan_.gpus_per_stage;
  }

  void check_certificate(const Pipeline& pipeline, const Certificate& certificate) {
    if (!sizes_fit(pipeline, certificate) || !is_conserved(pipeline, certificate)) return;
    collect_choices(pipeline);
    found_.proven_bound = bound(pipeline, certificate, plan_.iteration_time);
    const Joules proven = *found_.proven_bound;
    const bool claims = plan_.lower_bound != Joules{0};
    if (claims && plan_.lower_bound > proven + Joules{kTolerance * std::abs(proven.value)}) {
      add("the claimed lower bound is " + joules(plan_.lower_bound) +
          ", but the certificate proves only " + joules(proven));
    }
    if (!certificate.start.empty()) check_optimality(pipeline, certificate);
  }

  bool sizes_fit(const Pipeline& pipeline, const Certificate& c) {
    const std::size_t faults_before = faults_;
    const std::size_t nodes = pipeline.nodes().size();
    const std::size_t dependencies = pipeline.dependencies().size();
    const auto expect = [&](const char* what, std::size_t found, std::size_t wanted) {
      if (found == wanted) return;
      add("certificate: " + std::string(what) + " has " + std::to_string(found) +
          " entries, but the pipeline needs " + std::to_string(wanted));
    };
    expect("node flow", c.node_flow.size(), nodes);
    expect("source flow", c.source_flow.size(), nodes);
    expect("sink flow", c.sink_flow.size(), nodes);
    expect("dependency flow", c.dependency_flow.size(), dependencies);
    expect("start", c.start.size(), c.start.empty() && c.end.empty() ? 0 : nodes);
    expect("end", c.end.size(), c.start.empty() && c.end.empty() ? 0 : nodes);
    for (const double unit : {c.flow_unit.value, c.time_unit.value, c.deadline.value}) {
      if (unit > 0 && std::isfinite(unit)) continue;
      add("certificate: units and deadline must be positive");
    }
    for (const auto* flows : {&c.node_flow, &c.source_flow, &c.sink_flow, &c.dependency_flow}) {
      // Sums over everything must fit into 63 bits.
      const std::int64_t most = std::numeric_limits<std::int64_t>::max() /
                                static_cast<std::int64_t>(2 * (nodes + dependencies) + 1);
      const auto fits = [&](std::int64_t flow) { return flow >= 0 && flow <= most; };
      if (!std::ranges::all_of(*flows, fits)) {
        add("certificate: a flow is negative or out of range");
        break;
      }
    }
    return faults_ == faults_before;
  }

  /// What enters a node at its start runs through it, and leaves at its end.
  bool is_conserved(const Pipeline& pipeline, const Certificate& c) {
    std::vector<std::int64_t> in = c.source_flow;
    std::vector<std::int64_t> out = c.sink_flow;
    const auto dependencies = pipeline.dependencies();
    for (std::size_t d = 0; d < dependencies.size(); ++d) {
      in[dependencies[d].to] += c.dependency_flow[d];
      out[dependencies[d].from] += c.dependency_flow[d];
    }
    bool conserved = true;
    for (std::size_t i = 0; i < in.size(); ++i) {
      if (in[i] == c.node_flow[i] && out[i] == c.node_flow[i]) continue;
      conserved = false;
      add("certificate: at " + describe(pipeline.nodes()[i]) +
          " the flow is not conserved: " + std::to_string(in[i]) + " in, " +
          std::to_string(c.node_flow[i]) + " through, " + std::to_string(out[i]) + " out");
    }
    return conserved;
  }

  void collect_choices(const Pipeline& pipeline) {
    each([&](int stage, const PlannedInstruction& i) {
      if (i.kind == InstructionKind::kSwitch) return;
      const Watts power = plan_.blocking_power[stage];
      auto& choices = choices_.emplace_back();
      auto points = profile_.points(stage, i.chunk, i.kind);
      if (is_fixed_time(i.kind)) points = points.first(std::min<std::size_t>(points.size(), 1));
      for (const OperatingPoint& point : points) {
        choices.push_back({point.time, effective_energy(point, power)});
      }
      if (points.empty()) choices.push_back({i.time, i.energy - power * i.time});
    });
    // Both ends of a transfer draw blocking power: it has no effective energy.
    for (const PipelineNode& node : pipeline.nodes().subspan(choices_.size())) {
      choices_.push_back({{node.transfer_time, Joules{0}}});
    }
  }

  /// Weak duality: what `Certificate` says that its flow proves.
  Joules bound(const Pipeline& pipeline, const Certificate& c, Seconds deadline) const {
    Joules sum{0};
    std::int64_t total_flow = 0;
    for (std::size_t i = 0; i < choices_.size(); ++i) {
      const Watts flow = c.flow_unit * static_cast<double>(c.node_flow[i]);
      Joules least{std::numeric_limits<double>::infinity()};
      for (const Choice& k : choices_[i]) least = std::min(least, k.cost + flow * k.time);
      sum += least;
      total_flow += c.source_flow[i];
    }
    const auto dependencies = pipeline.dependencies();
    for (std::size_t d = 0; d < dependencies.size(); ++d) {
      sum += c.flow_unit * static_cast<double>(c.dependency_flow[d]) * dependencies[d].lag;
    }
    sum -= c.flow_unit * static_cast<double>(total_flow) * deadline;
    return whole_pipeline(sum, deadline);
  }

  /// Starts and ends are a solution of the relaxation at the certificate's deadline, and cost what
  /// the flow proves.
  void check_optimality(const Pipeline& pipeline, const Certificate& c) {
    const auto nodes = pipeline.nodes();
    const auto at = [&](std::int64_t time) { return c.time_unit * static_cast<double>(time); };
    const Seconds tolerance = c.time_unit * 1.001;  // the solver rounds down to whole units
    const std::size_t faults_before = faults_;
    Joules cost{0};
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      const std::vector<Choice> hull = hull_of(choices_[i]);
      const Seconds time = at(c.end[i]) - at(c.start[i]);
      if (c.start[i] < 0 || time + tolerance < hull.front().time ||
          at(c.end[i]) > c.deadline + tolerance) {
        add("certificate: start and end of " + describe(nodes[i]) +
            " leave it too little time, or lie outside the iteration");
      }
      cost += relaxed_cost(hull, time);
    }
    const auto dependencies = pipeline.dependencies();
    for (const Dependency& d : dependencies) {
      if (at(c.start[d.to]) + tolerance >= at(c.end[d.from]) + d.lag) continue;
      add("certificate: " + describe(nodes[d.to]) + " starts before " + describe(nodes[d.from]) +
          " lets it");
    }
    found_.relaxed_optimum = whole_pipeline(cost, c.deadline);
    const Joules proven = bound(pipeline, c, c.deadline);
    const Joules gap = *found_.relaxed_optimum - proven;
    if (faults_ == faults_before && gap.value > kOptimalityTolerance * std::abs(proven.value)) {
      add("certificate: its starts and ends cost " + joules(*found_.relaxed_optimum) +
          ", but its flow proves " + joules(proven) + ": they are not optimal");
    }
  }

  const Plan& plan_;
  const Profile& profile_;
  Verification found_;
  std::size_t faults_ = 0;
  std::vector<std::vector<Choice>> choices_;  // of each node without switches
};

}  // namespace

Verification verify_plan(const Plan& plan, const Profile& profile, const Certificate* certificate) {
  return Verifier(plan, profile).verify(certificate);
}

}  // namespace harpe
