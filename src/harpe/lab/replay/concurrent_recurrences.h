#pragma once
/// \file
/// The recurrences of a job where some are submitted while others still run (Zeus, NSDI'23, section
/// 6.3; its repository's simulator of groups): what each way of choosing batch sizes then costs.
///
/// A submission never waits. Before it, what has ended by then is observed, in the order of its
/// ends; those that end together in the order they began.
/// * By default: the default size and the highest limit.
/// * As Zeus: while others are in flight, the size of the least cost so far, else what its
/// simulator
///   chooses; results of sizes that pruning has not asked for do not steer it.
/// * As Harpe: what `BatchSizeOptimizer` gives and says after each epoch, at the time of its end.
///
/// A run takes as long in the cluster as its job did there, whatever its size; its epochs are
/// spread evenly over that. A run without the target is tried again at once, for as long; one that
/// the bound lets not begin (Zeus) has no length. What a run costs is that of the traces times its
/// runtime ratio; what is observed of it is without.
///
/// Where each job ends before the next one starts, all is as in recurrences.h. Pure;
/// O(epochs x jobs in flight).

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"
#include "harpe/lab/replay/traced_job.h"
#include "harpe/zeus/batch_size/pay_back.h"

namespace harpe::lab {

struct GroupedJob {
  Seconds start{}, end{};    ///< as it ran in the cluster; end is not before start
  double runtime_ratio = 1;  ///< of its run time to the mean of its dataset's jobs
  friend bool operator==(const GroupedJob&, const GroupedJob&) = default;
};

/// The recurrences of one job as they were submitted to a cluster, some while others still ran.
/// Zeus (NSDI'23, section 6.3) takes them from a trace of Alibaba that is not published in this
/// form. A file has the columns group, start_time, end_time, dataset and runtime_ratio.
struct JobGroup {
  std::string name, dataset;
  std::vector<GroupedJob> jobs;  ///< by rising start
  friend bool operator==(const JobGroup&, const JobGroup&) = default;
};

/// Groups by their first row. Columns may be in any order, others are left out; rows of a group
/// need not be neighbours, those that start together stay in their order. All rows that are wrong
/// are named; a group of two datasets is wrong.
Result<std::vector<JobGroup>> parse_job_groups(std::string_view text, const std::string& file);

/// Returns a file of these groups, with a first line that names its origin.
std::string job_groups_csv(const std::vector<JobGroup>& groups, const std::string& origin);

struct SyntheticGroups {
  int groups_per_dataset = 4;
  int jobs = 60;           ///< of a group
  double in_flight = 1.0;  ///< of a group at once, on average: run time over time between starts
};

/// Invented, for there is no trace to have: starts are a Poisson process, run times log-normal with
/// a deviation of a half in the logarithm. Of each of Zeus's datasets. The same seed gives the
/// same.
std::vector<JobGroup> synthetic_groups(std::uint64_t seed, const SyntheticGroups& shape);

enum class BatchSizeWay : unsigned char { kDefault, kZeus, kHarpe };

/// One try of one job of the group.
struct ConcurrentRun {
  std::size_t job = 0;  ///< of the group
  int batch_size = 0;
  int power_limit = 0;
  int epochs = 0;
  bool reached = false;
  bool concurrent = false;  ///< others were in flight when it began
  Seconds start{}, end{};   ///< in the cluster
  // With the runtime ratio:
  double cost = 0;  ///< J
  Joules energy{};
  Seconds time{};
};

struct ConcurrentRecurrences {
  std::vector<ConcurrentRun> runs;  ///< as they were observed; without those that never began
  double cost = 0;                  ///< J, of all

  /// That ended with the target.
  std::size_t converged() const;
};

/// \param job    of the group's dataset; its recurrences are as many as the group has jobs
/// \param prior  for Harpe alone
/// `kInfeasible` where 20 tries of one job do not converge.
Result<ConcurrentRecurrences> recur_concurrently(const TracedJob& job, const JobGroup& group,
                                                 BatchSizeWay way, std::uint64_t seed,
                                                 const zeus::PayBackPrior& prior = {});

/// Of the oracle's size and limit for each job of the group.
double oracle_cost(const TracedJob& job, const JobGroup& group);

}  // namespace harpe::lab
