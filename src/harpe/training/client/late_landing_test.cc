// Plans for Harpe's client, replayed with the client's rule for asking: for all delays between the
// least latency and the latency, time and energy of the plan hold.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "harpe/plan/frontier/frontier.h"
#include "harpe/plan/profile/counted_latency.h"
#include "harpe/plan/profile/synth.h"
#include "harpe/training/client/pacer.h"

namespace harpe::training {
namespace {

constexpr Watts kBlocking{80};
constexpr int kStages = 4, kMicroBatches = 8;
constexpr int kWarmUp = 8;  // iterations until all durations are known
constexpr int kIterations = 40;

/// Share of the way from the least latency to the latency, 0 to 1, of each change.
using Draw = std::function<double(std::mt19937_64&)>;

/// Differences between a replay and its plan.
struct Outcome {
  Seconds latest;        ///< longest time from an instruction's planned end to its end
  Seconds latest_clock;  ///< longest time from the latest landing that the plan counts to a landing
  Seconds earliest;      ///< longest time from a landing to the end of the previous instruction
  double energy = 0;     ///< ratio to the plan's energy
};

/// A plan's computation with its late change.
struct Planned {
  int position = 0;
  InstructionKind kind;
  Megahertz clock;
  Seconds begin, end;  ///< of the change and the computation
};

std::vector<Planned> planned_of(const std::vector<PlannedInstruction>& list) {
  std::vector<Planned> planned;
  Seconds late{0};  // allowed for a change by the previous entry
  for (const PlannedInstruction& one : list) {
    if (one.kind == InstructionKind::kSwitch) {
      late = one.time;
      continue;
    }
    planned.push_back({.position = static_cast<int>(planned.size()),
                       .kind = one.kind,
                       .clock = one.clock,
                       .begin = one.start - late,
                       .end = one.start + one.time});
    late = Seconds{0};
  }
  return planned;
}

/// One GPU with the client that asks for its clocks.
class Stage {
 public:
  Stage(const Profile& profile, int stage, std::vector<Planned> plan, const LatencyByClock& latency,
        const plan::AskingAhead& asking, Draw draw, std::uint64_t seed)
      : profile_(profile),
        stage_(stage),
        plan_(std::move(plan)),
        latency_(latency),
        look_ahead_(plan_.size(), asking),
        draw_(std::move(draw)),
        random_(seed),
        wanted_(plan_.back().clock),
        in_force_(plan_.back().clock) {}

  struct Run {
    Instant end;
    Joules effective;
  };
  Run run(int position, Instant begin, Outcome& outcome) {
    const Planned& now = plan_[static_cast<std::size_t>(position)];
    const Planned& next = plan_[static_cast<std::size_t>(position + 1) % plan_.size()];
    ask(now.clock, begin);
    look_ahead_.begin({now.position, now.kind, 0, now.clock, next.clock, 0}, begin);
    Progress done = progress(now.kind, begin);
    if (const auto& asked = look_ahead_.ask()) {
      std::uniform_real_distribution<double> share(0, 1);
      const Instant seen = begin + share(random_) * plan::AskingAhead::kSeenWithin;
      const Instant at = std::max(asked->at, seen);
      if (at < done.end) {
        ask(asked->clock, at);
        outcome.earliest = std::max(outcome.earliest, done.end - last_landing_);
        done = progress(now.kind, begin);
      }
    }
    while (!landings_.empty() && landings_.front().at <= done.end) {
      in_force_ = landings_.front().clock;
      landings_.pop_front();
    }
    look_ahead_.end(done.end);
    ask(next.clock, done.end);
    return {done.end, done.effective};
  }
  const Planned& planned(int position) const { return plan_[static_cast<std::size_t>(position)]; }
  /// Returns when the most recently requested clock comes into force.
  Instant landing() const { return last_landing_; }

 private:
  struct Landing {
    Instant at;
    Megahertz clock;
  };
  struct Progress {
    Instant end;
    Joules effective;
  };

  void ask(Megahertz clock, Instant at) {
    if (clock == wanted_) return;
    wanted_ = clock;
    const Seconds least = latency_.least_to(clock);
    const Seconds delay = least + draw_(random_) * (latency_.to(clock) - least);
    last_landing_ = std::max(last_landing_, at + delay);
    landings_.push_back({last_landing_, clock});
  }

  /// Returns when an instruction ends if no clock is requested from now on, and its energy.
  Progress progress(InstructionKind kind, Instant begin) const {
    const auto points = profile_.points(stage_, 0, kind);
    Progress done{.end = begin, .effective = {}};
    double left = 1;
    Megahertz clock = in_force_;
    const auto run_until = [&](std::optional<Instant> until) {
      const OperatingPoint& point = *find_point(points, {clock, {}});
      const Seconds rest = left * point.time;
      const bool ends = !until || done.end + rest <= *until;
      const double share = ends ? left : std::max(0.0, (*until - done.end) / point.time);
      done.effective += share * effective_energy(point, kBlocking);
      left = ends ? 0 : left - share;
      done.end = ends ? done.end + rest : std::max(done.end, *until);
    };
    for (const Landing& landing : landings_) {
      if (left <= 0) break;
      run_until(landing.at);
      clock = landing.clock;
    }
    if (left > 0) run_until(std::nullopt);
    return done;
  }

  const Profile& profile_;
  int stage_;
  std::vector<Planned> plan_;
  LatencyByClock latency_;
  LookAhead look_ahead_;
  Draw draw_;
  std::mt19937_64 random_;
  Megahertz wanted_, in_force_;
  Instant last_landing_{std::numeric_limits<std::int64_t>::min() / 2};
  std::deque<Landing> landings_;
};

/// Replays a plan for some iterations without pauses between them.
Outcome replay(const Plan& plan, const Profile& profile, const Pipeline& pipeline,
               const LatencyByClock& latency, const LatencyByClock& counted,
               const plan::AskingAhead& asking, const Draw& draw, std::uint64_t seed) {
  std::vector<Stage> stages;
  for (int stage = 0; stage < plan.stages; ++stage) {
    stages.emplace_back(profile, stage, planned_of(plan.instructions[stage]), latency, asking, draw,
                        seed + static_cast<std::uint64_t>(stage));
  }
  Outcome outcome{.latest = -1_s, .latest_clock = -1_s, .earliest = -1_s};
  Instant now{};
  Instant planned_from{};  // of the planned iteration, without pauses between iterations
  Instant counted_from{};
  Joules used{0};
  for (int iteration = 0; iteration < kWarmUp + kIterations; ++iteration) {
    if (iteration == kWarmUp) planned_from = counted_from = now;
    const bool counts = iteration >= kWarmUp;
    Outcome ignored;
    std::vector<Instant> ends(pipeline.nodes().size(), now);
    Instant last = now;
    for (const int node : pipeline.order()) {
      Instant begin = now;
      for (const Dependency& one : pipeline.dependencies())
        if (one.to == node) begin = std::max(begin, ends[static_cast<std::size_t>(one.from)]);
      const PipelineNode& place = pipeline.nodes()[static_cast<std::size_t>(node)];
      Stage& stage = stages[static_cast<std::size_t>(place.stage)];
      const Planned& planned = stage.planned(place.position);
      const Seconds late = stage.landing() - (planned_from + planned.begin);
      const Stage::Run run = stage.run(place.position, begin, counts ? outcome : ignored);
      ends[static_cast<std::size_t>(node)] = run.end;
      last = std::max(last, run.end);
      if (!counts) continue;
      used += run.effective;
      outcome.latest = std::max(outcome.latest, run.end - (planned_from + planned.end));
      outcome.latest_clock = std::max(outcome.latest_clock, late - counted.to(planned.clock));
    }
    now = last;
    planned_from = planned_from + plan.iteration_time;
  }
  used += (now - counted_from) * kBlocking * plan.stages;
  outcome.energy = used / (kIterations * plan.iteration_energy);
  return outcome;
}

struct Problem {
  Profile profile;
  Pipeline pipeline;
  Frontier frontier;
};

Problem problem(std::uint64_t seed, double forward_seconds) {
  const Schedule schedule =
      one_f_one_b({.stages = kStages, .micro_batches = kMicroBatches}).value();
  const Profile profile =
      synthesize(
          {.stages = kStages, .forward_seconds = forward_seconds, .imbalance = 1.3, .seed = seed})
          .value();
  Pipeline pipeline = Pipeline::build(schedule).value();
  Frontier frontier = characterize(pipeline, profile, {.blocking_power = kBlocking}).value();
  return {profile, std::move(pipeline), std::move(frontier)};
}

/// Returns a table as measured on GPUs: latencies depend on the clock, and vary by up to a tenth.
LatencyByClock random_table(std::mt19937_64& random) {
  std::uniform_real_distribution<double> most(0.006, 0.02), share(0.9, 1);
  std::vector<LatencyByClock::Entry> entries;
  for (const int clock : {800, 950, 1100, 1250, 1410}) {
    const Seconds latency{most(random)};
    entries.push_back({Megahertz{clock}, latency, share(random) * latency});
  }
  return LatencyByClock(std::move(entries));
}

const std::pair<const char*, Draw> kDraws[] = {
    {"anything",
     [](std::mt19937_64& random) { return std::uniform_real_distribution<double>(0, 1)(random); }},
    {"the extremes", [](std::mt19937_64& random) { return random() % 2 == 0 ? 0.0 : 1.0; }},
    {"rarely the longest", [](std::mt19937_64& random) { return random() % 8 == 0 ? 1.0 : 0.0; }},
    {"always the longest", [](std::mt19937_64&) { return 1.0; }},
    {"always the shortest", [](std::mt19937_64&) { return 0.0; }}};

constexpr Seconds kRounding{1e-6};

TEST(LateLanding, PlansForHarpesClientHoldForAllDelays) {
  for (const std::uint64_t seed : {1, 2, 3, 4}) {
    std::mt19937_64 random(seed);
    const Problem given = problem(seed, 0.03);
    const LatencyByClock latency = seed == 1 ? LatencyByClock(0.01_s) : random_table(random);
    const LatencyByClock counted =
        plan::counted_latency(latency, plan::ClockClient::kHarpe, given.profile);
    const PlanOptions options{.effort = Effort::kQuick, .switch_latency = counted};
    for (const double slower : {1.0, 1.03}) {
      const Seconds fastest = given.frontier.fastest_plan(options)->iteration_time;
      const Plan plan = given.frontier.plan(slower * fastest, options).value();
      ASSERT_GT(plan.clock_changes(), 0);
      for (const auto& [name, draw] : kDraws) {
        const std::string where = std::string(name) + ", seed " + std::to_string(seed) +
                                  ", slower by " + std::to_string(slower);
        const Outcome found = replay(plan, given.profile, given.pipeline, latency, counted,
                                     plan::AskingAhead(latency), draw, seed);
        EXPECT_LE(found.latest, kRounding) << where;
        EXPECT_LE(found.latest_clock, kRounding) << where;
        EXPECT_LE(found.earliest, kRounding) << where;
        EXPECT_LE(found.energy, 1 + 1e-9) << where;
      }
    }
  }
}

TEST(LateLanding, PlansHoldWhereComputationsAreShorterThanAChange) {
  const Problem given = problem(5, 0.004);
  const LatencyByClock latency({{Megahertz{1410}, 0.006_s, 0.0055_s}});
  const LatencyByClock counted =
      plan::counted_latency(latency, plan::ClockClient::kHarpe, given.profile);
  EXPECT_GT(counted.longest(), 0.0025_s) << "there is less time to ask in";
  const PlanOptions options{.effort = Effort::kQuick, .switch_latency = counted};
  const Plan plan = given.frontier.fastest_plan(options).value();
  ASSERT_GT(plan.clock_changes(), 0);
  for (const auto& [name, draw] : kDraws) {
    const Outcome found = replay(plan, given.profile, given.pipeline, latency, counted,
                                 plan::AskingAhead(latency), draw, 5);
    EXPECT_LE(found.latest, kRounding) << name;
    EXPECT_LE(found.latest_clock, kRounding) << name;
    EXPECT_LE(found.energy, 1 + 1e-9) << name;
  }
}

TEST(LateLanding, PlansForHarpesClientDoNotHoldForOneThatAsksAtTheEnd) {
  const Problem given = problem(1, 0.03);
  const LatencyByClock latency = 0.01_s;
  const LatencyByClock counted =
      plan::counted_latency(latency, plan::ClockClient::kHarpe, given.profile);
  const Plan plan =
      given.frontier.fastest_plan({.effort = Effort::kQuick, .switch_latency = counted}).value();
  const Outcome found = replay(plan, given.profile, given.pipeline, latency, counted,
                               plan::AskingAhead::by(0_s), kDraws[3].second, 1);
  EXPECT_GT(found.latest, 0.001_s);
  EXPECT_GT(found.latest_clock, 0.005_s);
}

}  // namespace
}  // namespace harpe::training
