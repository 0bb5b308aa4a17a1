#include "harpe/lab/emulation/cluster_emulation.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "harpe/base/csv_table.h"
#include "harpe/base/hashed_random.h"
#include "harpe/base/text.h"
#include "harpe/lab/emulation/throttled_pipelines.h"
#include "harpe/plan/policy/plan_choice.h"

namespace harpe::lab {
namespace {

/// The product's policy in an emulated cluster: it chooses the plan of each pipeline by the
/// objective, the known stragglers and the power cap.
///
/// As in a job, a straggler counts after a number of slow iterations in a row, and stops counting
/// in the iteration after it has recovered. Plans are chosen by `choose_plans`. Under a power cap
/// the plans for the objective stay if they draw no more than the cap; otherwise the job runs as
/// fast as the cap allows.
class EmulatedPolicy {
 public:
  struct Plans {
    const plan::PlanTable& table;
    std::vector<std::size_t> numbers;  ///< number in the cluster of each plan of the table
    std::size_t all_max = 0;           ///< in the cluster
  };

  /// \param reaction  number of slow iterations in a row after which a straggler counts; 0: it
  ///                  counts at once
  EmulatedPolicy(Plans plans, const Objective& objective, int reaction, EmulatedCluster& cluster)
      : plans_(std::move(plans)),
        objective_(objective),
        cluster_(cluster),
        reaction_(static_cast<std::size_t>(reaction)) {
    const auto pipelines = static_cast<std::size_t>(cluster.shape().pipelines);
    past_.assign(reaction_, std::vector<double>(pipelines, 1.0));
    known_.assign(pipelines, 1.0);
  }

  /// Chooses the plans of an iteration. Returns true if one of them has changed.
  /// \param slowdowns  slowdown of each pipeline in that iteration
  bool choose(std::span<const double> slowdowns, std::optional<Watts> cap) {
    const bool has_learnt = learn(slowdowns);
    if (!plan_of_.empty() && !has_learnt && cap == cap_) return false;
    cap_ = cap;
    const std::vector<std::size_t> before = plan_of_;
    is_above_cap_ = false;
    assign(objective_);
    if (cap && expected_power() > *cap) {
      assign({Objective::Kind::kPowerCap, cap->value});
      is_above_cap_ = expected_power() > *cap;
    }
    return plan_of_ != before;
  }

  std::span<const std::size_t> plans() const { return plan_of_; }  ///< of each pipeline
  /// True if even the slowest plans were expected to draw more than the cap.
  bool is_above_cap() const { return is_above_cap_; }

 private:
  /// Updates the known slowdowns. Returns true if one has changed.
  bool learn(std::span<const double> slowdowns) {
    learnt_.assign(slowdowns.begin(), slowdowns.end());
    if (reaction_ > 0) {
      std::ranges::copy(past_.front(), learnt_.begin());
      for (const std::vector<double>& past : past_)
        std::ranges::transform(learnt_, past, learnt_.begin(),
                               [](double a, double b) { return std::min(a, b); });
      std::ranges::copy(slowdowns, past_[next_past_].begin());
      next_past_ = (next_past_ + 1) % reaction_;
    }
    if (learnt_ == known_) return false;
    known_.swap(learnt_);
    slow_.clear();
    for (std::size_t p = 0; p < known_.size(); ++p) {
      if (known_[p] == 1) continue;
      slow_.push_back({.pipeline = static_cast<int>(p),
                       .factors = {known_[p]},
                       .fastest = cluster_.makespan(plans_.all_max, known_[p]),
                       .settled = true});
    }
    return true;
  }

  void assign(const Objective& objective) {
    const ClusterShape& shape = cluster_.shape();
    const plan::PlanChoice choice =
        plan::choose_plans(plans_.table, objective, shape.overhead, shape.pipelines, slow_);
    plan_of_.clear();
    for (const plan::PlanRef& plan : choice.plan_of) {
      plan_of_.push_back(plan.from == plan::PlanRef::From::kAllMax ? plans_.all_max
                                                                   : plans_.numbers[plan.plan]);
    }
  }

  Watts expected_power() {
    const ClusterIteration expected = cluster_.nominal({plan_of_, known_});
    return expected.energy / expected.time;
  }

  Plans plans_;
  Objective objective_;
  EmulatedCluster& cluster_;
  std::size_t reaction_;
  std::vector<std::vector<double>> past_;  ///< slowdowns of the last iterations, in a ring
  std::size_t next_past_ = 0;
  std::vector<double> known_, learnt_;
  std::vector<plan::SlowPipeline> slow_;
  std::optional<Watts> cap_;
  std::vector<std::size_t> plan_of_;
  bool is_above_cap_ = false;
};

constexpr std::uint64_t kFailureDraws = 0x6661696c;
constexpr std::int64_t kMostIterations = 100'000'000;
/// A training is abandoned after this multiple of its iterations.
constexpr std::int64_t kMostRepeats = 100;

Status check(const EmulationTerms& terms) {
  Diagnostics diagnostics;
  const auto expect = [&](bool holds, const std::string& what) {
    if (!holds) diagnostics.add(what);
  };
  const auto is_time = [](Seconds time) { return time >= Seconds{0} && time < Seconds{1e12}; };
  expect(terms.iterations >= 1 && terms.iterations <= kMostIterations,
         "a training must have from 1 to " + grouped(kMostIterations, 0) + " iterations");
  expect(is_time(terms.time), "the time of a training must be from 0 to 10^12 s");
  expect(terms.checkpoints.every >= 0 && is_time(terms.checkpoints.time),
         "checkpoints need a number of iterations from 0 and a time from 0 to 10^12 s");
  expect(is_time(terms.failures.mean_between) && is_time(terms.failures.restart),
         "the time between failures and the time of a restart must be from 0 to 10^12 s");
  expect(terms.failures.mean_between == Seconds{0} || terms.checkpoints.every > 0,
         "failures need checkpoints, otherwise the training never ends");
  expect(terms.reaction >= 0 && terms.reaction <= 1000,
         "a straggler must count after 0 to 1000 iterations");
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return ok_status();
}

/// A policy in the emulation: the plans of its pipelines, and its time and energy so far.
struct Contestant {
  std::vector<std::size_t> plans = {};      ///< of each pipeline; empty for Harpe's policy
  std::vector<std::size_t> throttled = {};  ///< replacements while a pipeline is throttled
  PolicyTotals totals = {};

  void add(const ClusterIteration& iteration) {
    totals.time += iteration.time;
    totals.energy += iteration.energy;
  }
};

class Emulation {
 public:
  Emulation(EmulatedCluster& cluster, EmulatedPolicy policy, std::vector<Contestant> contestants,
            const EmulationTerms& terms, const EmulationHooks& hooks)
      : cluster_(cluster),
        heat_(cluster, contestants[1].plans.front()),
        policy_(std::move(policy)),
        contestants_(std::move(contestants)),
        courses_(contestants_.size()),
        assignments_(contestants_.size()),
        taken_(contestants_.size()),
        stragglers_(cluster.shape().pipelines, terms.stragglers, cluster.shape().seed),
        terms_(terms),
        hooks_(hooks) {}

  Result<EmulationOutcome> run() {
    while (!is_done()) {
      if (outcome_.executed >= kMostIterations) return too_many();
      if (terms_.time == Seconds{0} && outcome_.executed >= kMostRepeats * terms_.iterations)
        return never_ends();
      run_iteration();
      if (fails()) {
        restart();
      } else if (terms_.checkpoints.every > 0 && completed_ % terms_.checkpoints.every == 0) {
        save();
      }
      if (hooks_.progress && outcome_.executed % 64 == 0) hooks_.progress(share_done());
    }
    if (completed_ == 0) return never_ends();
    outcome_.iterations = completed_;
    outcome_.harpe = contestants_[0].totals;
    outcome_.all_max = contestants_[1].totals;
    if (contestants_.size() > 2) outcome_.rival = contestants_[2].totals;
    return outcome_;
  }

 private:
  double share_done() const {
    if (terms_.time > Seconds{0}) return contestants_[0].totals.time / terms_.time;
    return static_cast<double>(completed_) / static_cast<double>(terms_.iterations);
  }
  bool is_done() const { return share_done() >= 1; }

  void run_iteration() {
    const Seconds now = contestants_[0].totals.time;
    if (stragglers_.advance(outcome_.executed, now) || outcome_.executed == 0)
      heat_.set(stragglers_.slowdowns(), stragglers_.held_to());
    const std::span<const double> slowdowns = heat_.slowdowns();
    const bool changes = policy_.choose(slowdowns, terms_.power_cap.at(now));
    if (changes && outcome_.executed > 0) ++outcome_.plan_changes;
    for (std::size_t c = 0; c < contestants_.size(); ++c) {
      Contestant& one = contestants_[c];
      std::span<const std::size_t> plans = one.plans;
      if (plans.empty()) plans = policy_.plans();
      assignments_[c] = {heat_.throttled(plans, one.throttled), stragglers_.slowdowns()};
    }
    record_computing();
    cluster_.run(outcome_.executed, assignments_, courses_, hooks_.workers, taken_);
    for (std::size_t c = 0; c < contestants_.size(); ++c) {
      record_waiting(c, taken_[c].time);
      contestants_[c].add(taken_[c]);
    }
    if (hooks_.observe) hooks_.observe(outcome_.executed, now, taken_[0]);
    const auto is_slow = [](double slowdown) { return slowdown > 1; };
    outcome_.straggling += std::ranges::any_of(slowdowns, is_slow) ? 1 : 0;
    outcome_.above_cap += policy_.is_above_cap() ? 1 : 0;
    ++outcome_.executed;
    ++completed_;
  }

  PowerRecorder* recorder(std::size_t contestant) const {
    PowerRecorder* const found =
        contestant < hooks_.power.size() ? hooks_.power[contestant] : nullptr;
    return found != nullptr && found->wants(contestants_[contestant].totals.time) ? found : nullptr;
  }
  void record_computing() {
    for (std::size_t c = 0; c < contestants_.size(); ++c) {
      PowerRecorder* const power = recorder(c);
      if (power == nullptr) continue;
      cluster_.trace(outcome_.executed, assignments_[c], courses_[c],
                     [&](const EmulatedCluster::TracedRun& traced) {
                       power->add(contestants_[c].totals.time, traced);
                     });
    }
  }
  void record_waiting(std::size_t contestant, Seconds time) {
    if (PowerRecorder* const power = recorder(contestant))
      power->add_waiting(contestants_[contestant].totals.time, time);
  }

  /// Returns true if the iteration that has just ended is lost by a failure.
  bool fails() const {
    if (terms_.failures.mean_between <= Seconds{0}) return false;
    const auto number = static_cast<std::uint64_t>(outcome_.executed);
    const double draw = uniform(mixed(cluster_.shape().seed, kFailureDraws, number));
    return draw < -std::expm1(-(taken_[0].time / terms_.failures.mean_between));
  }

  void wait(Seconds time) {
    for (std::size_t c = 0; c < contestants_.size(); ++c) {
      record_waiting(c, time);
      contestants_[c].add({time, cluster_.waiting_power() * time});
    }
  }

  void restart() {
    ++outcome_.failures;
    completed_ = saved_;
    wait(terms_.failures.restart);
  }

  void save() {
    ++outcome_.checkpoints;
    saved_ = completed_;
    wait(terms_.checkpoints.time);
  }

  Error never_ends() const {
    return Error::infeasible("the training does not end: with a failure every " +
                             shortest(terms_.failures.mean_between.value) + " s on average, " +
                             grouped(static_cast<double>(outcome_.executed), 0) +
                             " iterations completed " + grouped(static_cast<double>(saved_), 0) +
                             "; save checkpoints more often");
  }
  static Error too_many() {
    return Error::invalid("the training has more than " + grouped(kMostIterations, 0) +
                          " iterations: emulate a shorter one");
  }

  EmulatedCluster& cluster_;
  ThrottledPipelines heat_;
  EmulatedPolicy policy_;
  std::vector<Contestant> contestants_;
  std::vector<EmulatedCluster::Course> courses_;
  std::vector<EmulatedCluster::Assignment> assignments_;
  std::vector<ClusterIteration> taken_;
  Stragglers stragglers_;
  const EmulationTerms& terms_;
  const EmulationHooks& hooks_;
  std::int64_t completed_ = 0, saved_ = 0;
  EmulationOutcome outcome_;
};

}  // namespace

Result<EmulationOutcome> emulate(EmulatedCluster& cluster, const EmulatedPlans& plans,
                                 const EmulationTerms& terms, const EmulationHooks& hooks) {
  HARPE_TRY(check(terms));
  HARPE_TRY(check_stragglers(terms.stragglers, cluster.shape().pipelines, terms.straggler_file));
  HARPE_TRY(check_throttles(terms, cluster.pipeline()));
  HARPE_TRY(plan::check_objective(plans.table, plans.objective, cluster.shape().overhead,
                                  cluster.shape().pipelines));
  const auto pipelines = static_cast<std::size_t>(cluster.shape().pipelines);
  EmulatedPolicy::Plans numbered{.table = plans.table, .numbers = {}};
  for (const plan::TablePlan& plan : plans.table.plans())
    numbered.numbers.push_back(HARPE_TRY(cluster.add(plan)));
  numbered.all_max = HARPE_TRY(cluster.add(plans.table.all_max()));
  std::vector<Contestant> contestants(2);
  contestants[1].plans.assign(pipelines, numbered.all_max);
  if (plans.rival)
    contestants.emplace_back().plans.assign(pipelines, HARPE_TRY(cluster.add(*plans.rival)));
  EmulatedPolicy policy(std::move(numbered), plans.objective, terms.reaction, cluster);
  return Emulation(cluster, std::move(policy), std::move(contestants), terms, hooks).run();
}

plan::TablePlan at_one_clock(plan::TablePlan all_max, Megahertz clock) {
  all_max.knobs.clear();
  for (std::vector<Megahertz>& stage : all_max.clocks) {
    for (Megahertz& one : stage)
      if (one != Megahertz{0}) one = clock;
  }
  return all_max;
}

Status check_throttles(const EmulationTerms& terms, const EmulatedPipeline& pipeline) {
  for (const Megahertz clock : possible_throttles(terms.stragglers)) {
    if (clock >= pipeline.lowest_clock()) continue;
    return Error::invalid("GPUs cannot be throttled to " + std::to_string(clock.value) +
                          " MHz: the lowest clock of the profile is " +
                          std::to_string(pipeline.lowest_clock().value) + " MHz");
  }
  return ok_status();
}

Result<std::vector<double>> throttled_slowdowns(const EmulationTerms& terms,
                                                EmulatedPipeline pipeline,
                                                const plan::TablePlan& all_max) {
  EmulatedCluster one = HARPE_TRY(EmulatedCluster::make({}, std::move(pipeline)));
  HARPE_TRY(check_throttles(terms, one.pipeline()));
  const std::size_t plan = HARPE_TRY(one.add(all_max));
  std::vector<double> slowdowns;
  for (const Megahertz clock : possible_throttles(terms.stragglers))
    slowdowns.push_back(throttled_slowdown(one, plan, clock));
  return slowdowns;
}

std::vector<Seconds> waits_for(const StragglerTerms& stragglers, Seconds fastest, Seconds all_max,
                               std::span<const double> throttled) {
  // A pipeline can be slow and throttled at once.
  std::vector<double> slowdowns = possible_slowdowns(stragglers);
  for (std::size_t i = 0, slow = slowdowns.size(); i < throttled.size(); ++i) {
    slowdowns.push_back(throttled[i]);
    for (std::size_t k = 0; k < slow; ++k) slowdowns.push_back(slowdowns[k] * throttled[i]);
  }
  std::vector<Seconds> waits;
  for (const double slowdown : slowdowns) {
    if (slowdown == 1) continue;
    waits.push_back(std::min(fastest, all_max) * slowdown);
    if (fastest < all_max) waits.push_back(all_max * slowdown);
  }
  std::ranges::sort(waits);
  return waits;
}

std::optional<Watts> PowerCapTrace::at(Seconds time) const {
  const auto after = std::ranges::upper_bound(caps, time, {}, &Cap::from);
  if (after == caps.begin()) return std::nullopt;
  return (after - 1)->power;
}

Result<PowerCapTrace> parse_power_cap_trace(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  PowerCapTrace trace;
  constexpr std::array<const char*, 2> kColumns = {"time_s", "watts"};
  CsvTable table(text, kColumns, diagnostics);
  table.each([&] {
    const PowerCapTrace::Cap cap{Seconds{table.number(0, 0)}, Watts{table.number(1, 0)}};
    if (!(cap.power > Watts{0})) table.refuse(1, "expected more than 0 W");
    if (!trace.caps.empty() && cap.from <= trace.caps.back().from) {
      table.refuse(0, "expected a time after that of the row before, " +
                          shortest(trace.caps.back().from.value) + " s");
    }
    trace.caps.push_back(cap);
  });
  if (diagnostics.empty() && trace.caps.empty()) diagnostics.add("it has no row with a cap");
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  return trace;
}

}  // namespace harpe::lab
