#include "harpe/plan/frontier/verify.h"

#include <limits>
#include <utility>

#include "harpe/plan/frontier/profile_misfit.h"
#include "harpe/plan/frontier/verify_parts.h"
#include "harpe/plan/profile/chunks.h"
#include "harpe/plan/schedule/replay.h"

namespace harpe {
namespace {

using plan::verifying::close;
using plan::verifying::kTolerance;
using plan::verifying::text;

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
    profile_ = plan::with_chunks(profile_, schedule->chunks(), schedule->copies);
    Diagnostics differences;
    const auto planned = plan::line_up(plan_, *schedule, profile_, differences);
    if (!planned) return add_differences(differences);
    if (!has_no_circle(*planned)) return;
    if (!check_parts(*planned) || !check_operating_points()) return;
    const plan::RulesGraph graph = plan::make_rules_graph(plan_, *planned);
    const std::vector<int> order = *plan::topological_order(graph);  // replay found no circle
    const plan::Exact makespan = makespan_of(graph, order);
    found_.makespan = Seconds{makespan.rounded_up()};
    const plan::Exact period = std::max(makespan, plan::Exact(plan_.iteration_time.value));
    check_starts(graph, order);
    const plan::Exact energy = energy_in(period);
    check_energy(energy);
    if (certificate == nullptr) return;
    plan::verifying::verify_certificate(
        {.plan = plan_, .profile = profile_, .graph = graph, .period = period, .energy = energy},
        *certificate, found_, diagnostics_);
  }

  void add_all(const Error& error) {
    for (const Diagnostic& diagnostic : error.diagnostics) diagnostics_.add(diagnostic.text());
  }
  /// Adds all differences, or one sentence instead if the profile is of another kind.
  void add_differences(Diagnostics& differences) {
    if (const std::string misfit = plan::profile_misfit(plan_, profile_); !misfit.empty())
      return add_other_profile(misfit);
    for (Diagnostic& difference : differences.take())
      diagnostics_.add(std::move(difference.message));
  }
  void add_other_profile(const std::string& why) {
    diagnostics_.add("the plan is not one of this profile: " + why);
  }
  std::string describe(int stage, const PlannedInstruction& i) const {
    return harpe::plan::describe(stage, i, plan_.chunks > 1);
  }
  std::string describe(const plan::RulesGraph::Node& node) const {
    return harpe::plan::describe(node, plan_.chunks > 1);
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
    if (plan_.gpus_per_stage < 1) diagnostics_.add("a stage needs at least one GPU");
    const auto require = [&](const std::string& what, double value) {
      if (plan::fits(value)) return;
      diagnostics_.add(what + " must not be negative, and 0 or from 1e-18 to 1e12: it is " +
                       shortest(value));
    };
    for (const Watts power : plan_.blocking_power) require("blocking power", power.value);
    require("the iteration time", plan_.iteration_time.value);
    require("the iteration energy", plan_.iteration_energy.value);
    require("the lower bound", plan_.lower_bound.value);
    for (const auto* times : {&plan_.transfers.forward, &plan_.transfers.backward}) {
      for (const Seconds time : *times) require("the time of a transfer", time.value);
    }
    if (!diagnostics_.empty()) return false;
    each([&](int stage, const PlannedInstruction& i) {
      for (const double value : {i.start.value, i.time.value, i.energy.value})
        require(describe(stage, i) + ": start, time and energy", value);
    });
    return diagnostics_.empty();
  }

  /// Returns false and adds diagnostics if the plan runs in parts an instruction that the profile
  /// has rows for as a whole. Other plans may run it as a whole, and a bound over the settings of
  /// the parts would not cover them.
  bool check_parts(const plan::PlannedSchedule& planned) {
    for (int stage = 0; stage < plan_.stages; ++stage) {
      const auto& list = planned.schedule.lists[stage];
      for (std::size_t n = 0; n < list.size(); ++n) {
        const InstructionKind whole = list[n].kind;
        if (whole != InstructionKind::kRecomputeBackward &&
            whole != InstructionKind::kForwardBackward)
          continue;
        int first = planned.first[stage][n];
        while (plan_.instructions[stage][first].kind == InstructionKind::kSwitch) ++first;
        const PlannedInstruction& entry = plan_.instructions[stage][first];
        if (entry.kind == whole || profile_.points(stage, entry.chunk, whole).empty()) continue;
        diagnostics_.add(describe(stage, entry) + " is part of a " + std::string(name(whole)) +
                         ", which the profile has rows for: it has to run as a whole");
      }
    }
    return diagnostics_.empty();
  }

  /// Returns false and adds diagnostics if an instruction differs from the profile.
  bool check_operating_points() {
    std::vector<std::string> faults;
    std::size_t instructions = 0;
    each([&](int stage, const PlannedInstruction& i) {
      ++instructions;
      const std::string fault = operating_point_fault(stage, i);
      if (!fault.empty()) faults.push_back(describe(stage, i) + fault);
    });
    if (2 * faults.size() > instructions) {
      const std::string misfit = plan::profile_misfit(plan_, profile_);
      const std::string counted = std::to_string(faults.size()) + " of " +
                                  std::to_string(instructions) +
                                  " instructions are not as it has them, the first of them " +
                                  faults.front() + stages_left_over();
      add_other_profile(misfit.empty() ? counted : misfit);
      return false;
    }
    for (std::string& fault : faults) diagnostics_.add(std::move(fault));
    return diagnostics_.empty();
  }

  /// Returns text that names the stages that only the profile has, a likely cause of the
  /// differences, unless the plan is meant for fewer stages. Empty if there are none.
  std::string stages_left_over() const {
    if (profile_.stages() <= plan_.stages) return {};
    return "; the profile has " + std::to_string(profile_.stages()) + " stages, the plan " +
           std::to_string(plan_.stages);
  }

  std::string operating_point_fault(int stage, const PlannedInstruction& i) {
    if (is_fixed_time(i.kind) && i.setting() != InstructionSetting{})
      return " has no clock to choose";
    if (i.kind == InstructionKind::kSwitch) {
      const Joules blocking = plan_.blocking_power[stage] * i.time;
      const bool costs = i.energy >= blocking || close(i.energy.value, blocking.value);
      return costs ? "" : " takes less energy than blocking for that time";
    }
    const auto points = profile_.points(stage, i.chunk, i.kind);
    if (points.empty()) {
      if (!is_fixed_time(i.kind)) return " has no rows in the profile";
      ++found_.taken_from_plan;
      return "";
    }
    for (const OperatingPoint& point : points) {
      if (!plan::fits(point.time.value) || !plan::fits(point.energy.value))
        return ": time and energy in the profile must be 0 or from 1e-18 to 1e12";
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

  /// Returns false and adds a diagnostic if the stages wait for each other in a circle.
  bool has_no_circle(const plan::PlannedSchedule& planned) {
    std::vector<std::vector<Seconds>> durations;
    for (int stage = 0; stage < plan_.stages; ++stage) {
      auto& of_stage = durations.emplace_back(planned.schedule.lists[stage].size());
      for (std::size_t n = 0; n < of_stage.size(); ++n) {
        for (int entry = planned.first[stage][n]; entry < planned.first[stage][n + 1]; ++entry) {
          of_stage[n] += plan_.instructions[stage][entry].time;
        }
      }
    }
    const auto replayed = plan::replay(planned.schedule, plan_.transfers, durations);
    if (!replayed.ok()) add_all(replayed.error());
    return replayed.ok();
  }

  /// Returns time and energy from the profile, which the bound is computed from. The plan's numbers
  /// differ only in the last digits.
  std::pair<Seconds, Joules> cost_of(int stage, const PlannedInstruction& i) const {
    const auto points = profile_.points(stage, i.chunk, i.kind);
    if (points.empty() || i.kind == InstructionKind::kSwitch) return {i.time, i.energy};
    const OperatingPoint& point =
        is_fixed_time(i.kind) ? points.front() : *find_point(points, i.setting());
    return {point.time, point.energy};
  }

  /// Returns the length of the longest path. The time of an instruction includes the `switch`
  /// before it.
  plan::Exact makespan_of(const plan::RulesGraph& graph, const std::vector<int>& order) const {
    std::vector<plan::Exact> took;
    for (const plan::RulesGraph::Node& node : graph.nodes) {
      plan::Exact time(node.transfer_time.value);
      for (const PlannedInstruction* i = node.opening; i != nullptr && i <= node.entry; ++i)
        time += plan::Exact(cost_of(node.stage, *i).first.value);
      took.push_back(time);
    }
    std::vector<plan::Exact> start(graph.nodes.size());
    std::vector<std::vector<const plan::RulesGraph::Edge*>> into(graph.nodes.size());
    for (const plan::RulesGraph::Edge& edge : graph.edges) into[edge.to].push_back(&edge);
    plan::Exact last;
    for (const int node : order) {
      for (const plan::RulesGraph::Edge* edge : into[node]) {
        start[node] = std::max(start[node],
                               start[edge->from] + took[edge->from] + plan::Exact(edge->lag.value));
      }
      last = std::max(last, start[node] + took[node]);
    }
    return last;
  }

  void check_starts(const plan::RulesGraph& graph, const std::vector<int>& order) {
    const Seconds tolerance{kTolerance + kTolerance * plan_.iteration_time.value};
    Seconds end{0};
    for (int stage = 0; stage < plan_.stages; ++stage) {
      const PlannedInstruction* before = nullptr;
      for (const PlannedInstruction& i : plan_.instructions[stage]) {
        if (before != nullptr && i.start + tolerance < before->start + before->time) {
          add_early(describe(stage, i), i.start, describe(stage, *before),
                    before->start + before->time, plan::Rule::kOrder);
        }
        end = std::max(end, i.start + i.time);
        before = &i;
      }
    }
    // A transfer starts when everything that it waits for has ended, including other transfers.
    std::vector<Seconds> transfer(graph.nodes.size());
    const auto ended = [&](int node) {
      const plan::RulesGraph::Node& n = graph.nodes[node];
      return n.entry != nullptr ? n.entry->start + n.entry->time : transfer[node] + n.transfer_time;
    };
    for (const int node : order) {
      if (graph.nodes[node].entry != nullptr) continue;
      // Edges are ordered by `to`.
      for (const auto& e :
           std::ranges::equal_range(graph.edges, node, {}, &plan::RulesGraph::Edge::to)) {
        transfer[node] = std::max(transfer[node], ended(e.from));
      }
    }
    for (const plan::RulesGraph::Edge& e : graph.edges) {
      const plan::RulesGraph::Node& to = graph.nodes[e.to];
      if (to.entry == nullptr || e.rule == plan::Rule::kOrder) continue;
      const Seconds ready = ended(e.from) + e.lag;
      if (to.opening->start + tolerance >= ready) continue;
      add_early(describe(to), to.opening->start, describe(graph.nodes[e.from]), ready, e.rule);
    }
    if (end > plan_.iteration_time + tolerance) {
      diagnostics_.add("the iteration takes " + text(end) + ", not " + text(plan_.iteration_time));
    }
  }

  void add_early(const std::string& what, Seconds start, const std::string& from, Seconds ready,
                 plan::Rule rule) {
    diagnostics_.add(what + " starts at " + text(start) + ", but " + from + " lets it start at " +
                     text(ready) + ": " + std::string(plan::sentence(rule)));
  }

  plan::Exact energy_in(const plan::Exact& period) const {
    plan::Exact effective, blocking;
    each([&](int stage, const PlannedInstruction& i) {
      const auto [time, energy] = cost_of(stage, i);
      effective += plan::verifying::effective(energy, plan_.blocking_power[stage], time);
    });
    for (const Watts power : plan_.blocking_power)
      blocking += plan::Exact::product(period, power.value);
    return plan::verifying::whole_pipeline(plan_, effective, blocking);
  }

  void check_energy(const plan::Exact& energy) {
    found_.energy = Joules{energy.rounded_up()};
    if (!close(found_.energy.value, plan_.iteration_energy.value)) {
      diagnostics_.add("the iteration takes " + text(found_.energy) + ", not " +
                       text(plan_.iteration_energy));
    }
    if (plan::Exact(plan_.lower_bound.value) > energy) {
      diagnostics_.add("the claimed lower bound, " + text(plan_.lower_bound) +
                       ", is above the energy of the plan itself, " + text(found_.energy));
    }
  }

  const Plan& plan_;
  Profile profile_;  ///< with rows for each chunk of the schedule
  Verification found_;
  Diagnostics diagnostics_;
};

}  // namespace

std::optional<double> Verification::proven_gap() const {
  if (!proven_bound) return std::nullopt;
  if (*proven_bound <= Joules{0}) return std::numeric_limits<double>::infinity();
  // Three roundings of less than 2^-53 each.
  return (energy - *proven_bound) / *proven_bound * (1 + 0x1p-50);
}

Verification verify_plan(const Plan& plan, const Schedule& schedule, const Profile& profile,
                         const Certificate* certificate) {
  return Verifier(plan, profile).verify(schedule, certificate);
}

Verification verify_plan(const Plan& plan, const Profile& profile, const Certificate* certificate) {
  return Verifier(plan, profile).verify(plan::named_schedule(plan), certificate);
}

}  // namespace harpe
