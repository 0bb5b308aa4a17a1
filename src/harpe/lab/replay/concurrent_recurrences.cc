#include "harpe/lab/replay/concurrent_recurrences.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "harpe/base/csv_table.h"
#include "harpe/base/hashed_random.h"
#include "harpe/base/text.h"
#include "harpe/lab/replay/measured_limits.h"
#include "harpe/lab/replay/traced_runs.h"
#include "harpe/zeus/batch_size/batch_size_optimizer.h"

namespace harpe::lab {
namespace {

constexpr Seconds kForever{std::numeric_limits<double>::infinity()};

/// A run since its start. It reports `reports` times, evenly over its length.
struct Run {
  int batch_size = 0;
  Recurrence spent = {};  ///< of this run, without the ratio
  int reports = 1;        ///< at most; 0 if it never begins
  int reported = 0;
  bool reached = false;
  double before = 0;  ///< J, of earlier tries of its job
  // Used by Harpe's chooser:
  int trial = 0;
  TracedLimit first = {}, best = {};  ///< of its first epoch, and of the others
  std::optional<int> target_epoch = {};
};

class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Starts a run.
  /// \param are_others  true if other runs are in flight
  /// \param before      J, of earlier tries of its job
  virtual Result<Run> begin(bool are_others, double before, Seconds now) = 0;
  /// \returns  true if this was the end of the run
  virtual Result<bool> report(Run& run, Seconds now) = 0;
};

class DefaultChooser : public Chooser {
 public:
  DefaultChooser(const TracedJob& job, std::uint64_t seed) : job_(job), runs_(seed) {}

  Result<Run> begin(bool /*are_others*/, double /*before*/, Seconds /*now*/) override {
    const TracedSize& size = job_.sizes[job_.first];
    Run run{.batch_size = size.batch_size};
    run.spent.power_limit = size.limits.back().watts;
    run.spent.epochs = runs_.draw(size).value_or(job_.job.max_epochs);
    add_epochs(run.spent, job_, size.limits.back(), run.spent.epochs);
    return run;
  }
  /// Ends the run as reached, whatever its result, so that it is not tried again.
  Result<bool> report(Run& run, Seconds /*now*/) override {
    run.reached = true;
    return true;
  }

 private:
  const TracedJob& job_;
  TracedRuns runs_;
};

class ZeusGroupChooser : public Chooser {
 public:
  ZeusGroupChooser(const TracedJob& job, std::uint64_t seed)
      : job_(job), runs_(seed), chooser_(job.job, seed), best_(job.job.default_batch_size) {}

  Result<Run> begin(bool are_others, double before, Seconds /*now*/) override {
    Run run{.batch_size = are_others ? best_ : HARPE_TRY(chooser_.next()), .before = before};
    const TracedSize& size = job_.size_of(run.batch_size);
    const TracedLimit& limit = size.limits[size.best];
    run.spent.power_limit = limit.watts;
    const double bound = job_.job.beta.value_or(2) * least_;
    const int epochs = epochs_within(bound, job_, size);
    if (epochs == 0) {
      // As in a sequence: a run that costs nothing must not look like the cheapest.
      chooser_.observe(run.batch_size, 100 * bound, false);
      run.reports = 0;
      return run;
    }
    const std::optional<int> target_epoch = runs_.draw(size);
    run.reached = target_epoch && *target_epoch <= epochs;
    run.spent.epochs = run.reached ? *target_epoch : epochs;
    const bool is_first = visited_.insert(run.batch_size).second;
    if (is_first) add_epochs(run.spent, job_, size.profiled(), 1);
    add_epochs(run.spent, job_, limit, run.spent.epochs - (is_first ? 1 : 0));
    return run;
  }
  Result<bool> report(Run& run, Seconds /*now*/) override {
    chooser_.observe(run.batch_size, run.spent.cost, run.reached);
    const double cost = run.before + run.spent.cost;
    if (run.reached && cost < least_) {
      least_ = cost;
      best_ = run.batch_size;
    }
    return true;
  }

 private:
  const TracedJob& job_;
  TracedRuns runs_;
  ZeusChooser chooser_;
  std::set<int> visited_;
  double least_ = std::numeric_limits<double>::infinity();
  int best_;
};

class HarpeGroupChooser : public Chooser {
 public:
  HarpeGroupChooser(const TracedJob& job, std::size_t recurrences, std::uint64_t seed,
                    const zeus::PayBackPrior& prior)
      : job_(job),
        runs_(seed),
        limits_(job),
        prior_(prior),
        optimizer_(recurring(job, recurrences), {.seed = 0, .count = 0}, Seconds{0}, prior) {}

  Result<Run> begin(bool /*are_others*/, double before, Seconds now) override {
    const zeus::Trial trial = HARPE_TRY(optimizer_.next(now)).trial;
    const TracedSize& size = job_.size_of(trial.batch_size);
    Run run{.batch_size = trial.batch_size,
            .reports = job_.job.max_epochs,
            .before = before,
            .trial = trial.number,
            .target_epoch = runs_.draw(size)};
    run.first = limits_.first_epoch(
        size,
        zeus::epochs_to_come(optimizer_.job(), optimizer_.trials(), trial.batch_size, prior_));
    run.best = limits_.best(size);
    run.spent.power_limit = run.best.watts;
    if (run.target_epoch) run.reports = std::min(run.reports, *run.target_epoch);
    return run;
  }
  Result<bool> report(Run& run, Seconds now) override {
    const int epoch = ++run.spent.epochs;
    add_epochs(run.spent, job_, epoch == 1 ? run.first : run.best, 1);
    const double missed = std::numeric_limits<double>::quiet_NaN();
    const zeus::TrialVerdict verdict = HARPE_TRY(
        optimizer_.report({.trial = run.trial,
                           .batch_size = run.batch_size,
                           .epoch = epoch,
                           .time = run.spent.time,
                           .energy = run.spent.energy,
                           .metric = run.target_epoch == epoch ? job_.job.target_metric : missed},
                          now));
    run.reached = verdict.converged;
    return verdict.stop;
  }

 private:
  static zeus::RecurringJob recurring(const TracedJob& job, std::size_t recurrences) {
    zeus::RecurringJob recurring = job.job;
    recurring.algorithm = zeus::BatchSizeAlgorithm::kHarpe;
    recurring.recurrences = job.horizon.of(static_cast<int>(recurrences));
    return recurring;
  }

  const TracedJob& job_;
  TracedRuns runs_;
  MeasuredLimits limits_;
  zeus::PayBackPrior prior_;
  zeus::BatchSizeOptimizer optimizer_;
};

/// The simulated cluster, which advances from one start or report to the next.
class Cluster {
 public:
  Cluster(const TracedJob& job, const JobGroup& group, Chooser& chooser)
      : job_(job), group_(group), chooser_(chooser), tries_(group.jobs.size()) {}

  Result<ConcurrentRecurrences> run() {
    for (std::size_t i = 0; i < group_.jobs.size(); ++i) {
      HARPE_TRY(advance(group_.jobs[i].start));
      HARPE_TRY(begin(i, group_.jobs[i].start));
    }
    HARPE_TRY(advance(kForever));
    return std::move(all_);
  }

 private:
  struct InFlight {
    std::size_t job = 0;
    std::uint64_t number = 0;  ///< position in the order of starts
    Seconds start{};
    bool concurrent = false;
    Run run = {};
  };
  struct Tries {
    int count = 0;
    double cost = 0;  ///< J, without the ratio
  };

  Seconds length(std::size_t job) const { return group_.jobs[job].end - group_.jobs[job].start; }
  Seconds next_report(const InFlight& one) const {
    return one.start + length(one.job) * ((one.run.reported + 1.0) / one.run.reports);
  }
  auto earliest() {
    return std::ranges::min_element(in_flight_, {}, [this](const InFlight& one) {
      return std::pair(next_report(one).value, one.number);
    });
  }

  /// Handles all reports up to and including `until`.
  Status advance(Seconds until) {
    for (auto at = earliest(); at != in_flight_.end() && next_report(*at) <= until;
         at = earliest()) {
      const Seconds now = next_report(*at);
      const bool is_end = HARPE_TRY(chooser_.report(at->run, now));
      ++at->run.reported;
      if (!is_end) continue;
      const InFlight ended = std::move(*at);
      in_flight_.erase(at);
      end(ended, now);
      if (!ended.run.reached) HARPE_TRY(begin(ended.job, now));
    }
    return ok_status();
  }

  Status begin(std::size_t job, Seconds now) {
    Tries& tries = tries_[job];
    while (tries.count++ < kMostTries) {
      const bool are_others = !in_flight_.empty();
      Run run = HARPE_TRY(chooser_.begin(are_others, tries.cost, now));
      if (run.reports == 0) continue;
      in_flight_.push_back({.job = job,
                            .number = begun_++,
                            .start = now,
                            .concurrent = are_others,
                            .run = std::move(run)});
      return ok_status();
    }
    return Error::infeasible(job_.dataset + ": " + std::to_string(kMostTries) +
                             " tries did not converge");
  }

  void end(const InFlight& one, Seconds now) {
    const double ratio = group_.jobs[one.job].runtime_ratio;
    const Recurrence& spent = one.run.spent;
    all_.runs.push_back({.job = one.job,
                         .batch_size = one.run.batch_size,
                         .power_limit = spent.power_limit,
                         .epochs = spent.epochs,
                         .reached = one.run.reached,
                         .concurrent = one.concurrent,
                         .start = one.start,
                         .end = now,
                         .cost = spent.cost * ratio,
                         .energy = spent.energy * ratio,
                         .time = spent.time * ratio});
    all_.cost += spent.cost * ratio;
    tries_[one.job].cost += spent.cost;
  }

  const TracedJob& job_;
  const JobGroup& group_;
  Chooser& chooser_;
  std::vector<InFlight> in_flight_;
  std::vector<Tries> tries_;
  std::uint64_t begun_ = 0;
  ConcurrentRecurrences all_;
};

std::unique_ptr<Chooser> chooser_of(const TracedJob& job, const JobGroup& group, BatchSizeWay way,
                                    std::uint64_t seed, const zeus::PayBackPrior& prior) {
  switch (way) {
    case BatchSizeWay::kZeus:
      return std::make_unique<ZeusGroupChooser>(job, seed);
    case BatchSizeWay::kHarpe:
      return std::make_unique<HarpeGroupChooser>(job, group.jobs.size(), seed, prior);
    case BatchSizeWay::kDefault:
      break;
  }
  return std::make_unique<DefaultChooser>(job, seed);
}

constexpr std::array kColumns{"group", "start_time", "end_time", "dataset", "runtime_ratio"};

// Purposes of random draws.
constexpr std::uint64_t kGaps = 3, kRatios = 4;
constexpr double kMeanRuntime = 3600;  // s
constexpr double kRuntimeDeviation = 0.5;

}  // namespace

std::size_t ConcurrentRecurrences::converged() const {
  return static_cast<std::size_t>(std::ranges::count(runs, true, &ConcurrentRun::reached));
}

Result<ConcurrentRecurrences> recur_concurrently(const TracedJob& job, const JobGroup& group,
                                                 BatchSizeWay way, std::uint64_t seed,
                                                 const zeus::PayBackPrior& prior) {
  const std::unique_ptr<Chooser> chooser = chooser_of(job, group, way, seed, prior);
  return Cluster(job, group, *chooser).run();
}

double oracle_cost(const TracedJob& job, const JobGroup& group) {
  double cost = 0;
  for (const GroupedJob& one : group.jobs) cost += job.oracle_cost() * one.runtime_ratio;
  return cost;
}

Result<std::vector<JobGroup>> parse_job_groups(std::string_view text, const std::string& file) {
  Diagnostics diagnostics(file);
  std::vector<JobGroup> groups;
  std::map<std::string, std::size_t> by_name;
  CsvTable table(text, kColumns, diagnostics);
  table.each([&] {
    const std::string& name = table.text(0);
    const std::string& dataset = table.text(3);
    if (name.empty()) table.refuse(0, "expected the name of a group");
    if (dataset.empty()) table.refuse(3, "expected a dataset");
    GroupedJob job{.start = Seconds{table.number(1, 0)},
                   .end = Seconds{table.number(2, 0)},
                   .runtime_ratio = table.number(4, 1e-9)};
    if (job.end < job.start) table.refuse(2, "expected an end that is not before the start");
    const auto [at, is_new] = by_name.try_emplace(name, groups.size());
    if (is_new) groups.push_back({.name = name, .dataset = dataset, .jobs = {}});
    JobGroup& group = groups[at->second];
    if (group.dataset != dataset) {
      table.refuse(3, "expected " + group.dataset + ", as in the group's first row");
    }
    group.jobs.push_back(job);
  });
  if (!diagnostics.empty()) return Error::invalid(std::move(diagnostics));
  for (JobGroup& group : groups) {
    std::multimap<double, GroupedJob> by_start;  // equal starts keep their order
    for (const GroupedJob& job : group.jobs) by_start.emplace(job.start.value, job);
    group.jobs.clear();
    for (const auto& [start, job] : by_start) group.jobs.push_back(job);
  }
  return groups;
}

std::string job_groups_csv(const std::vector<JobGroup>& groups, const std::string& origin) {
  std::string text = "# " + origin + "\ngroup,start_time,end_time,dataset,runtime_ratio\n";
  for (const JobGroup& group : groups) {
    for (const GroupedJob& job : group.jobs) {
      text += csv_cell(group.name) + "," + shortest(job.start.value) + "," +
              shortest(job.end.value) + "," + csv_cell(group.dataset) + "," +
              shortest(job.runtime_ratio) + "\n";
    }
  }
  return text;
}

std::vector<JobGroup> synthetic_groups(std::uint64_t seed, const SyntheticGroups& shape) {
  std::vector<JobGroup> groups;
  std::uint64_t number = 0;
  const double mean_gap = kMeanRuntime / shape.in_flight;
  for (const TracedDataset& dataset : traced_datasets()) {
    for (int i = 1; i <= shape.groups_per_dataset; ++i) {
      JobGroup& group = groups.emplace_back();
      group.dataset = dataset.name;
      group.name = "synthetic-" + group.dataset + "-" + std::to_string(i);
      double now = 0;
      for (int job = 0; job < shape.jobs; ++job) {
        now -= mean_gap * std::log(1 - uniform(mixed(seed, kGaps, number)));
        // Lognormal with a mean of 1.
        const double ratio = std::exp(kRuntimeDeviation * normal(mixed(seed, kRatios, number)) -
                                      kRuntimeDeviation * kRuntimeDeviation / 2);
        ++number;
        // Rounded as in traces: to whole seconds, and to thousandths.
        const double start = std::round(now),
                     length = std::max(1.0, std::round(ratio * kMeanRuntime));
        group.jobs.push_back({.start = Seconds{start},
                              .end = Seconds{start + length},
                              .runtime_ratio = std::round(ratio * 1000) / 1000});
      }
    }
  }
  return groups;
}

}  // namespace harpe::lab
