#include "harpe/plan/frontier/frontier.h"

#include <algorithm>
#include <cmath>
#include <optional>

#include "harpe/base/text.h"
#include "harpe/plan/flow/sweep.h"
#include "harpe/plan/frontier/frontier_data.h"
#include "harpe/plan/frontier/point_costs.h"
#include "harpe/plan/frontier/problem.h"

namespace harpe {

namespace {

/// Returns the plan with these operating points, one per pipeline node. Every instruction starts as
/// early as it can, after its late change (`late` is empty or has one per node). Its iteration time
/// is its makespan; energy and bound are 0.
Plan earliest_plan(const plan::Problem& problem, const std::vector<OperatingPoint>& points,
                   const std::vector<plan::LateChange>& late) {
  const Pipeline& pipeline = problem.pipeline;
  const Schedule& schedule = pipeline.schedule();
  std::vector<Seconds> durations;
  durations.reserve(points.size());
  for (const OperatingPoint& point : points) durations.push_back(point.time);
  for (std::size_t i = 0; i < late.size(); ++i) durations[i] += plan::seconds_of(late[i].time);
  const Timeline timeline = pipeline.earliest(durations);
  Plan plan{.job = problem.job,
            .schedule = schedule.name,
            .synthetic = problem.profile.is_synthetic(),
            .stages = schedule.stages,
            .micro_batches = schedule.micro_batches,
            .chunks = schedule.chunks(),
            .gpus_per_stage = problem.gpus_per_stage,
            .blocking_power = problem.blocking_power,
            .transfers = pipeline.transfers(),
            .placement = schedule.placement,
            .copies = schedule.copies,
            .iteration_time = timeline.makespan,
            .iteration_energy = {},
            .lower_bound = {},
            .instructions = {}};
  plan.instructions.resize(schedule.stages);
  for (int i = 0; i < pipeline.instructions(); ++i) {
    const PipelineNode& node = pipeline.nodes()[i];
    const Instruction& instruction = node.instruction;
    const Seconds wait = late.empty() ? 0_s : plan::seconds_of(late[i].time);
    if (!late.empty() && (late[i].time > 0 || late[i].cost > 0)) {
      const Joules effective = static_cast<double>(late[i].cost) * problem.cost_unit;
      const bool inside = i > 0 && pipeline.nodes()[i - 1].fused_with_next;
      plan.instructions[node.stage].push_back(
          {.kind = InstructionKind::kSwitch,
           .chunk = node.chunk,
           .micro_batch = instruction.micro_batch,
           .fused_with_next = inside,
           .clock = {},
           .start = timeline.start[i],
           .time = wait,
           .energy = effective + problem.blocking_power[node.stage] * wait});
    }
    plan.instructions[node.stage].push_back(
        {.kind = instruction.kind,
         .chunk = node.chunk,
         .micro_batch = instruction.micro_batch,
         .backward_chunk =
             instruction.backward_part < 0 ? -1 : schedule.chunk(instruction.backward_part),
         .backward_micro_batch = instruction.backward_micro_batch,
         .gradient = instruction.gradient,
         .fused_with_next = node.fused_with_next,
         .clock = is_fixed_time(instruction.kind) ? Megahertz{} : points[i].clock,
         .start = timeline.start[i] + wait,
         .time = points[i].time,
         .energy = points[i].energy,
         .knobs = is_fixed_time(instruction.kind) ? Knobs{} : points[i].knobs});
  }
  return plan;
}

constexpr std::size_t kCheckpointBytes = std::size_t{64} << 20;
constexpr int kVisits = 64;  // relaxed optima of a large pipeline that the sweep decodes
constexpr std::int32_t kLargeNodes = 25'000;
constexpr double kLateness = 2;  // longest time with late clocks, relative to `max_time`

__extension__ using WideInteger = __int128;

Seconds fastest_makespan(const plan::Problem& problem) {
  std::vector<Seconds> fastest;
  fastest.reserve(problem.table.size());
  for (const int t : problem.table) fastest.push_back(problem.tables[t].options.front().point.time);
  return problem.pipeline.earliest(fastest).makespan;
}

std::int64_t longest_chain(const Pipeline& pipeline) {
  const std::vector<Seconds> ones(pipeline.nodes().size(), Seconds{1});
  double links = 0;
  for (const Dependency& d : pipeline.dependencies()) links = std::max(links, d.lag.value);
  return std::llround(pipeline.earliest(ones).makespan.value / (1 + links)) +
         static_cast<std::int64_t>(pipeline.schedule().stages);
}

// Returns the time at which the slope of iteration energy changes its sign: one more second saves
// less than all GPUs draw while they wait.
Seconds least_energy_time(const plan::Problem& problem, const plan::flow::CostCurve& curve) {
  const double waiting = problem.total_blocking_power().value;
  for (const plan::flow::Breakpoint& b : curve.breakpoints) {
    if (static_cast<double>(b.value) * problem.flow_unit.value > waiting) {
      return Seconds{static_cast<double>(b.horizon) * 1e-9};
    }
  }
  return Seconds{static_cast<double>(curve.shortest) * 1e-9};
}

}  // namespace

std::string rounded_up(Seconds time) {
  const double rounded = std::ceil(time.value * 1e6) / 1e6;
  return shortest(time.value < 1e-3 || time.value > 1e6 ? time.value : rounded);
}

Joules Frontier::Data::effective(Seconds time) const {
  const double nanoseconds = time.value * 1e9;
  const auto& breakpoints = curve.breakpoints;
  const auto after = std::partition_point(
      breakpoints.begin(), breakpoints.end(),
      [&](const auto& b) { return static_cast<double>(b.horizon) > nanoseconds; });
  if (after == breakpoints.begin()) return least_effective;
  const std::size_t i = static_cast<std::size_t>(after - breakpoints.begin()) - 1;
  const double below = static_cast<double>(breakpoints[i].horizon) -
                       std::max(nanoseconds, static_cast<double>(curve.shortest));
  const Watts slope = static_cast<double>(breakpoints[i].value) * problem.flow_unit;
  return least_effective + cost_at[i] + slope * Seconds{below * 1e-9};
}

std::int64_t Frontier::Data::horizon(Seconds time) const {
  const Seconds within = std::min(time, seconds(curve.longest + longest_chain));
  return std::clamp(plan::to_nanoseconds(within) - longest_chain, curve.shortest, curve.longest);
}

plan::flow::State Frontier::Data::relaxed(Seconds time) const {
  return curve.at(problem.network, horizon(time));
}

double Frontier::Data::curvature(Seconds time) const {
  constexpr double kReach = 0.005;
  const auto slope = [&](std::int64_t at) {
    const auto longer = std::partition_point(curve.breakpoints.begin(), curve.breakpoints.end(),
                                             [&](const auto& b) { return b.horizon > at; });
    return longer == curve.breakpoints.begin() ? 0.0 : static_cast<double>((longer - 1)->value);
  };
  const std::int64_t fast = horizon(time * (1 - kReach));
  const std::int64_t slow = horizon(time * (1 + kReach));
  const double steep = slope(fast);
  if (fast >= slow || !(steep > 0)) return 0;
  return (steep - slope(slow)) / steep / (2e3 * static_cast<double>(slow - fast));
}

Plan Frontier::Data::plan_of(const std::vector<OperatingPoint>& points,
                             const std::vector<plan::LateChange>& late) const {
  Plan plan = earliest_plan(problem, points, late);
  set_iteration_time(plan, plan.iteration_time);
  return plan;
}

Joules effective_energy(const Plan& plan) {
  Joules sum{0};
  for (int stage = 0; stage < plan.stages; ++stage) {
    for (const PlannedInstruction& i : plan.instructions[stage])
      sum += i.energy - plan.blocking_power[stage] * i.time;
  }
  return sum;
}

// Sets time, energy and bound of a plan from its instructions.
void Frontier::Data::set_iteration_time(Plan& plan, Seconds time) const {
  const Joules effective_sum = effective_energy(plan);
  const Joules waiting = problem.total_blocking_power() * time;
  const double gpus = plan.gpus_per_stage;
  plan.iteration_time = time;
  plan.iteration_energy = (effective_sum + waiting) * gpus;
  // The sums of doubles have rounding errors, but the bound must not be too high.
  plan.lower_bound =
      std::min((effective(time) + waiting) * (gpus * (1 - 1e-12)), plan.iteration_energy);
}

Plan Frontier::Data::plan_of(const plan::Assignment& assignment) const {
  std::vector<OperatingPoint> points;
  points.reserve(assignment.size());
  for (std::size_t i = 0; i < assignment.size(); ++i) {
    points.push_back(problem.tables[problem.table[i]].options[assignment[i]].point);
  }
  return plan_of(points);
}

// In a large pipeline, stepping from one relaxed optimum to the next takes seconds, so searches use
// the optima that the sweep visits instead.
bool Frontier::Data::is_large() const {
  return problem.network.nodes > kLargeNodes;
}

// Rounding errors add up along a chain. The deadline may exceed the range of the integers, for
// example under a power cap; no plan is better for waiting that long.
std::int64_t Frontier::Data::picoseconds(Seconds deadline) const {
  return std::llround(std::min(deadline.value * 1e12, plan::kMostPicoseconds)) + 2 * longest_chain;
}

std::vector<plan::Assignment> Frontier::Data::search_freely(Seconds deadline,
                                                            const PlanOptions& options) const {
  plan::SearchStart start{.deadline = picoseconds(deadline),
                          .relaxed = {relaxed(deadline)},
                          .around = {},
                          .close = {},
                          .milestones = milestones,
                          .curvature = curvature(deadline)};
  const bool is_quick = options.effort == Effort::kQuick;
  if (!is_quick && !is_large()) {
    constexpr double kReach = 0.025, kClose = 0.002;
    const int samples = plan::passes(layout, 110'000, 4, 60);
    std::vector<std::int64_t> horizons;
    for (int i = 0; i <= samples; ++i)
      horizons.push_back(horizon(deadline * (1 + kReach * (1 - 2.0 * i / samples))));
    start.around = curve.at(problem.network, horizons);
    const std::int64_t limit = start.relaxed.front().horizon(problem.network);
    for (const plan::flow::State& state : start.around) {
      if (state.horizon(problem.network) < limit) start.relaxed.push_back(state);
    }
    horizons.clear();
    for (const double share : {1.0, 0.5, 0.0, -0.5, -1.0})
      horizons.push_back(horizon(deadline * (1 + kClose * share)));
    start.close = curve.at(problem.network, horizons);
  } else if (!is_quick) {
    start.close = start.relaxed;
  }
  std::vector<plan::Assignment> found = {plan::find_plan(layout, start, options.effort)};
  if (is_quick || options.search_windows <= 0) return found;
  const Joules waiting = problem.total_blocking_power() * deadline;
  const double gpus = problem.gpus_per_stage;
  plan::LongSearch search{options.search_windows};
  if (options.go_on) {
    search.go_on = [&](std::int64_t windows, std::int64_t cost) {
      const Joules effective_sum = static_cast<double>(cost) * problem.cost_unit;
      return options.go_on(
          {windows, (effective_sum + waiting) * gpus, (effective(deadline) + waiting) * gpus});
    };
  }
  found.push_back(plan::search_on(layout, start, found.front(), search));
  return found;
}

Result<Plan> Frontier::Data::search(Seconds deadline, const PlanOptions& options) const {
  if (options.switching()) return search_switching(deadline, options);
  return plan_of(search_freely(deadline, options).back());
}

plan::LateBound Frontier::Data::climbed_bound(const plan::LateCosts& costs, Seconds deadline,
                                              int most_steps) const {
  // Late clocks raise the price of time, as an earlier deadline does.
  constexpr double kSooner[] = {0, 0.005, 0.01, 0.02, 0.04};
  plan::LateBound bound(layout, costs, deadline,
                        8 * longest_chain + picoseconds(deadline) / 1'000'000'000'000);
  if (is_large()) {
    bound.offer(relaxed(deadline));
  } else {
    std::vector<std::int64_t> horizons;
    for (const double sooner : kSooner) {
      const std::int64_t at = horizon(deadline * (1 - sooner));
      if (horizons.empty() || at < horizons.back()) horizons.push_back(at);
    }
    curve.visit(problem.network, horizons,
                [&](const plan::flow::State& state) { bound.offer(state); });
  }
  double pairs = 1;
  for (const plan::LateCosts::Stage& stage : costs.stages())
    pairs += static_cast<double>(stage.nodes.size()) *
             static_cast<double>(stage.settings.size() * stage.settings.size());
  constexpr double kPairs = 1e9;
  bound.climb(std::clamp(static_cast<int>(kPairs / pairs), 20, most_steps));
  return bound;
}

Result<Frontier> characterize(const Pipeline& pipeline, const Profile& profile,
                              const CharacterizeOptions& options) {
  plan::Problem problem = HARPE_TRY(plan::make_problem(pipeline, profile, options));
  auto data = std::make_shared<Frontier::Data>(std::move(problem));
  const plan::Problem& p = data->problem;
  plan::flow::SweepOptions sweep{.checkpoint_bytes = kCheckpointBytes,
                                 .progress = options.progress};
  if (data->is_large()) {
    sweep.visits = kVisits;
    sweep.visit = [&](const plan::flow::State& state) {
      data->milestones =
          plan::find_milestones(data->layout, {&state, 1}, std::move(data->milestones));
    };
  }
  data->curve = plan::flow::sweep(p.network, sweep);
  data->milestones =
      plan::find_milestones(data->layout, data->curve.checkpoints, std::move(data->milestones));
  data->longest_chain = longest_chain(p.pipeline);
  data->min_time = fastest_makespan(p);
  data->least_energy_time = std::max(data->min_time, least_energy_time(p, data->curve));
  for (const plan::OptionTable& table : p.tables) {
    data->least_effective += table.least_effective * static_cast<double>(table.instructions);
  }
  WideInteger cost = 0;
  for (std::size_t i = 0; i < data->curve.breakpoints.size(); ++i) {
    const auto& b = data->curve.breakpoints;
    if (i > 0) cost += static_cast<WideInteger>(b[i - 1].value) * (b[i - 1].horizon - b[i].horizon);
    data->cost_at.push_back(static_cast<double>(cost) * (p.flow_unit * Seconds{1e-9}));
  }
  return Frontier(std::move(data));
}

Result<Frontier> characterize(const Result<Schedule>& schedule, const Profile& profile,
                              const CharacterizeOptions& options) {
  if (!schedule.ok()) return schedule.error();
  Pipeline pipeline = HARPE_TRY(Pipeline::build(*schedule));
  return characterize(pipeline, profile, options);
}

Seconds Frontier::min_time() const {
  return data_->min_time;
}
Seconds Frontier::max_time() const {
  return std::max(data_->min_time, data_->seconds(data_->curve.longest + data_->longest_chain));
}
Seconds Frontier::least_energy_time() const {
  return data_->least_energy_time;
}

Joules Frontier::lower_bound(Seconds deadline) const {
  return (data_->effective(deadline) + data_->problem.total_blocking_power() * deadline) *
         static_cast<double>(data_->problem.gpus_per_stage);
}

std::vector<FrontierPoint> Frontier::points() const {
  std::vector<FrontierPoint> points;
  const auto add = [&](Seconds time) { points.push_back({time, lower_bound(time)}); };
  add(min_time());
  const auto& breakpoints = data_->curve.breakpoints;
  for (std::size_t i = breakpoints.size(); i-- > 0;) {
    const Seconds time = data_->seconds(breakpoints[i].horizon);
    if (time > points.back().time) add(time);
  }
  return points;
}

std::size_t Frontier::breakpoints() const {
  return static_cast<std::size_t>(data_->curve.steps);
}

std::size_t Frontier::memory_bytes() const {
  const plan::flow::Network& network = data_->problem.network;
  std::size_t milestones = 0;
  for (const plan::Milestone& m : data_->milestones) milestones += m.choice.size() * sizeof(int);
  return sizeof(Data) + data_->curve.memory_bytes() + milestones +
         data_->cost_at.size() * sizeof(Joules) +
         network.arcs.size() * (sizeof(plan::flow::Arc) + 2 * sizeof(plan::SearchOrder::Arc)) +
         static_cast<std::size_t>(network.nodes) * 3 * sizeof(std::int32_t) +
         data_->problem.pipeline.nodes().size() * sizeof(PipelineNode) +
         data_->problem.pipeline.dependencies().size() * sizeof(Dependency);
}

Result<Plan> Frontier::plan(Seconds deadline, const PlanOptions& options) const {
  if (!(deadline >= min_time())) {
    return Error::infeasible("no clocks end an iteration within " + shortest(deadline.value) +
                             " s: the fastest takes " + rounded_up(min_time()) + " s");
  }
  const auto search = [&](const PlanOptions& how) -> Result<Plan> {
    if (how.switching()) return data_->least_switching_by(deadline, how);
    return data_->least_energy_by(deadline, how);
  };
  return data_->is_small() ? data_->least_of_small(search, deadline, false, options)
                           : search(options);
}

Result<Plan> Frontier::fastest_plan(const PlanOptions& options) const {
  if (!options.switching()) return plan(min_time(), options);
  const auto search = [&](const PlanOptions& how) { return data_->search_switching({}, how); };
  return data_->is_small() ? data_->fastest_of_small(search, {}, min_time(), options)
                           : search(options);
}

Result<Plan> Frontier::plan_for_straggler(Seconds wait_until, const PlanOptions& options) const {
  if (!(wait_until >= min_time())) {
    return Error::infeasible("the straggler's " + shortest(wait_until.value, 6) +
                             " s are below the fastest iteration, " + rounded_up(min_time()) +
                             " s");
  }
  // Late clocks may make plans slower than any plan with free ones.
  const Seconds slowest = max_time() * (options.switching() ? kLateness : 1.0);
  const auto search = [&](const PlanOptions& how) {
    return data_->search(std::min(wait_until, slowest), how);
  };
  Result<Plan> plan = data_->is_small() ? data_->least_of_small(search, wait_until, true, options)
                                        : search(options);
  if (plan.ok()) data_->set_iteration_time(*plan, std::max(plan->iteration_time, wait_until));
  return plan;
}

Plan Frontier::all_max(const PlanOptions& options) const {
  if (options.switching()) {
    const plan::PointCosts costs(data_->layout, options.switch_latency,
                                 plan::PointCosts::Use::kPriceOnce);
    const plan::PointChoices highest = costs.all_max();
    return data_->plan_of(costs.points(highest), costs.changes(highest));
  }
  std::vector<OperatingPoint> points;
  for (const int t : data_->problem.table) points.push_back(data_->problem.tables[t].all_max);
  return data_->plan_of(points);
}

Result<Plan> Frontier::plan_of_clocks(const std::vector<std::vector<Megahertz>>& clocks,
                                      Seconds wait_until, const PlanOptions& options,
                                      const std::vector<std::vector<Knobs>>& knobs) const {
  const plan::PointCosts costs(data_->layout, options.switch_latency,
                               plan::PointCosts::Use::kPriceOnce);
  const plan::PointChoices choices = HARPE_TRY(costs.at_clocks(clocks, knobs));
  Plan plan = options.switching() ? data_->plan_of(costs.points(choices), costs.changes(choices))
                                  : data_->plan_of(costs.points(choices));
  data_->set_iteration_time(plan, std::max(plan.iteration_time, wait_until));
  return plan;
}

Result<Plan> Frontier::least_energy_plan(const PlanOptions& options) const {
  if (!options.switching()) return plan(max_time(), options);
  Result<Plan> found = plan(max_time() * kLateness, options);
  return found.ok() ? found : fastest_plan(options);
}

const Pipeline& Frontier::pipeline() const {
  return data_->problem.pipeline;
}
const Profile& Frontier::profile() const {
  return data_->problem.profile;
}

}  // namespace harpe
