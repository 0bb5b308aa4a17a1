#include "harpe/frontier/verify.h"

#include <utility>

#include "harpe/frontier/verify_parts.h"
#include "harpe/schedule/replay.h"

namespace harpe {
namespace {

using verifying::close;
using verifying::kTolerance;
using verifying::text;

bool is_amount(double value) {
  return value >= 0 && std::isfinite(value);
}

class Verifier {
 public:
  Verifier(const Plan& plan, const Profile& profile) : plan_(plan), profile_(profile) {}

  Verification verify(const Result<Schedule>& schedule, const Certificate* certificate) {
    check(schedule, certificate);
    for (Diagnostic& diagnostic : diagnostics_.take())
      found_.diagnostics.push_back(std::move(diagnostic.message));
    return std::move(found_);
  }

 private:
  void check(const Result<Schedule>& schedule, const Certificate* certificate) {
    if (!check_shape()) return;
    if (!schedule.ok()) return add_all(schedule.error());
    if (Status valid = validate(*schedule); !valid.ok()) return add_all(valid.error());
    if (Status valid = validate(plan_.transfers, schedule->parts()); !valid.ok()) {
      return add_all(valid.error());
    }
    const auto planned = line_up(plan_, *schedule, diagnostics_);
    if (!planned || !recompute_makespan(*planned)) return;
    const RulesGraph graph = make_rules_graph(plan_, *planned);
    check_operating_points();
    check_starts(graph);
    check_energy();
    if (certificate == nullptr) return;
    verifying::verify_certificate(plan_, profile_, graph, *certificate, found_, diagnostics_);
  }

  void add_all(const Error& error) {
    for (const Diagnostic& diagnostic : error.diagnostics) diagnostics_.add(diagnostic.text());
  }
  std::string describe(int stage, const PlannedInstruction& i) const {
    return harpe::describe(stage, i, plan_.chunks > 1);
  }
  std::string describe(const RulesGraph::Node& node) const {
    return harpe::describe(node, plan_.chunks > 1);
  }

  template <class Visit>
  void each(Visit visit) const {
    for (int stage = 0; stage < plan_.stages; ++stage) {
      for (const PlannedInstruction& i : plan_.instructions[stage]) visit(stage, i);
    }
  }

  bool check_shape() {
    const auto stages = static_cast<std::size_t>(std::max(plan_.stages, 0));
    if (plan_.instructions.size() != stages)
      diagnostics_.add("the plan needs one list of instructions a stage");
    if (plan_.blocking_power.size() != stages)
      diagnostics_.add("the plan needs one blocking power a stage");
    for (const Watts power : plan_.blocking_power) {
      if (!is_amount(power.value)) diagnostics_.add("blocking power must not be negative");
    }
    if (plan_.gpus_per_stage < 1) diagnostics_.add("a stage needs at least one GPU");
    if (!is_amount(plan_.iteration_time.value))
      diagnostics_.add("the iteration time must not be negative");
    if (!diagnostics_.empty()) return false;
    each([&](int stage, const PlannedInstruction& i) {
      if (is_amount(i.start.value) && is_amount(i.time.value) && is_amount(i.energy.value)) return;
      diagnostics_.add(describe(stage, i) + ": start, time and energy must not be negative");
    });
    return diagnostics_.empty();
  }

  void check_operating_points() {
    std::vector<std::string> faults;
    std::size_t instructions = 0;
    each([&](int stage, const PlannedInstruction& i) {
      ++instructions;
      const std::string fault = operating_point_fault(stage, i);
      if (!fault.empty()) faults.push_back(describe(stage, i) + fault);
    });
    if (2 * faults.size() > instructions) {
      return diagnostics_.add(
          "the plan is not one of this profile: " + std::to_string(faults.size()) + " of " +
          std::to_string(instructions) +
          " instructions are not as it has them, the first of them " + faults.front());
    }
    for (std::string& fault : faults) diagnostics_.add(std::move(fault));
  }

  std::string operating_point_fault(int stage, const PlannedInstruction& i) const {
    if (is_fixed_time(i.kind) && i.setting() != InstructionSetting{})
      return " has no clock to choose";
    if (i.kind == InstructionKind::kSwitch) {
      const Joules blocking = plan_.blocking_power[stage] * i.time;
      const bool costs = i.energy >= blocking || close(i.energy.value, blocking.value);
      return costs ? "" : " takes less energy than blocking for that time";
    }
    const auto points = profile_.points(stage, i.chunk, i.kind);
    if (points.empty()) {
      return i.setting() == InstructionSetting{} ? "" : " has a clock, but no rows in the profile";
    }
    const auto point = is_fixed_time(i.kind)
                           ? points.begin()
                           : std::ranges::find(points, i.setting(), &OperatingPoint::setting);
    const std::string at = is_fixed_time(i.kind) ? "" : " at " + text_of(i.setting());
    if (point == points.end()) return at + ": no such row in the profile";
    if (!close(i.time.value, point->time.value)) {
      return at + ": takes " + text(point->time) + " in the profile, not " + text(i.time);
    }
    if (!close(i.energy.value, point->energy.value)) {
      return at + ": takes " + text(point->energy) + " in the profile, not " + text(i.energy);
    }
    return "";
  }

  /// False, with a diagnostic, when the stages wait for each other in a circle.
  bool recompute_makespan(const PlannedSchedule& planned) {
    std::vector<std::vector<Seconds>> durations;
    for (int stage = 0; stage < plan_.stages; ++stage) {
      auto& of_stage = durations.emplace_back(planned.schedule.lists[stage].size());
      for (std::size_t n = 0; n < of_stage.size(); ++n) {
        for (int entry = planned.first[stage][n]; entry < planned.first[stage][n + 1]; ++entry) {
          of_stage[n] += plan_.instructions[stage][entry].time;
        }
      }
    }
    const auto replayed = replay(planned.schedule, plan_.transfers, durations);
    if (!replayed.ok()) return add_all(replayed.error()), false;
    found_.makespan = replayed->makespan;
    return true;
  }

  void check_starts(const RulesGraph& graph) {
    const Seconds tolerance{kTolerance + kTolerance * plan_.iteration_time.value};
    Seconds end{0};
    for (int stage = 0; stage < plan_.stages; ++stage) {
      const PlannedInstruction* before = nullptr;
      for (const PlannedInstruction& i : plan_.instructions[stage]) {
        if (before != nullptr && i.start + tolerance < before->start + before->time) {
          add_early(describe(stage, i), i.start, describe(stage, *before),
                    before->start + before->time, Rule::kOrder);
        }
        end = std::max(end, i.start + i.time);
        before = &i;
      }
    }
    // Edges are ordered by `to`; a transfer starts when all that it waits for has ended.
    std::vector<Seconds> transfer(graph.nodes.size());
    const auto ended = [&](int node) {
      const RulesGraph::Node& n = graph.nodes[node];
      return n.entry != nullptr ? n.entry->start + n.entry->time : transfer[node] + n.transfer_time;
    };
    for (const RulesGraph::Edge& e : graph.edges) {
      if (graph.nodes[e.to].entry == nullptr) {
        transfer[e.to] = std::max(transfer[e.to], ended(e.from));
      }
    }
    for (const RulesGraph::Edge& e : graph.edges) {
      const RulesGraph::Node& to = graph.nodes[e.to];
      if (to.entry == nullptr || e.rule == Rule::kOrder) continue;
      const Seconds ready = ended(e.from) + e.lag;
      if (to.opening->start + tolerance >= ready) continue;
      add_early(describe(to), to.opening->start, describe(graph.nodes[e.from]), ready, e.rule);
    }
    if (end > plan_.iteration_time + tolerance) {
      diagnostics_.add("the iteration takes " + text(end) + ", not " + text(plan_.iteration_time));
    }
  }

  void add_early(const std::string& what, Seconds start, const std::string& from, Seconds ready,
                 Rule rule) {
    diagnostics_.add(what + " starts at " + text(start) + ", but " + from + " lets it start at " +
                     text(ready) + ": " + std::string(sentence(rule)));
  }

  void check_energy() {
    Joules effective{0};
    each([&](int stage, const PlannedInstruction& i) {
      effective += i.energy - plan_.blocking_power[stage] * i.time;
    });
    found_.energy = verifying::whole_pipeline(plan_, effective, plan_.iteration_time);
    if (!close(found_.energy.value, plan_.iteration_energy.value)) {
      diagnostics_.add("the iteration takes " + text(found_.energy) + ", not " +
                       text(plan_.iteration_energy));
    }
    if (plan_.lower_bound.value > found_.energy.value * (1 + kTolerance)) {
      diagnostics_.add("the claimed lower bound, " + text(plan_.lower_bound) +
                       ", is above the energy of the plan itself, " + text(found_.energy));
    }
  }

  const Plan& plan_;
  const Profile& profile_;
  Verification found_;
  Diagnostics diagnostics_;
};

}  // namespace

Verification verify_plan(const Plan& plan, const Schedule& schedule, const Profile& profile,
                         const Certificate* certificate) {
  return Verifier(plan, profile).verify(schedule, certificate);
}

Verification verify_plan(const Plan& plan, const Profile& profile, const Certificate* certificate) {
  return Verifier(plan, profile).verify(named_schedule(plan), certificate);
}

}  // namespace harpe
