#pragma once
/// \file
/// The recurrences of a job, some submitted while others still run (Zeus, NSDI'23, section 6.3; the
/// simulator of groups in its repository), and their cost under each way of choosing batch sizes.
///
/// A submission never waits. Before each submission, the runs that have ended by then are observed,
/// in the order of their ends; runs that end together, in the order of their starts.
/// * Default: the default batch size and the highest limit.
/// * Zeus: while other runs are in flight, the batch size of least cost so far; otherwise the
///   choice of its simulator. Results of batch sizes that pruning has not requested do not steer
///   it.
/// * Harpe: `BatchSizeOptimizer`, which receives a report at the end of each epoch.
///
/// A run takes as long as the group's job took in the cluster, whatever its batch size, and its
/// epochs are spread evenly over that time. A run that does not reach the target is tried again at
/// once, for the same length (except Default's). A run that the bound prevents from beginning
/// (Zeus) has no length. The cost of a run is that of the traces times its runtime ratio; the
/// observed cost is without the ratio.
///
/// If each job ends before the next one starts, all results equal the results of recurrences.h.
/// Pure; O(epochs x jobs in flight).

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
  Seconds start{}, end{};    ///< as it ran in the cluster; `end` is not before `start`
  double runtime_ratio = 1;  ///< its run time over the mean run time of its dataset's jobs
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

/// Returns the groups in the order of their first rows. Columns may be in any order, and other
/// columns are ignored. The rows of a group need not be adjacent; jobs that start together keep
/// their order. Reports all wrong rows; a group with two datasets is wrong.
Result<std::vector<JobGroup>> parse_job_groups(std::string_view text, const std::string& file);

/// Returns a file of these groups, with a first line that names its origin.
std::string job_groups_csv(const std::vector<JobGroup>& groups, const std::string& origin);

struct SyntheticGroups {
  int groups_per_dataset = 4;
  int jobs = 60;           ///< of a group
  double in_flight = 1.0;  ///< of a group at once, on average: run time over time between starts
};

/// Returns synthetic groups of each of Zeus's datasets, because the trace is not published. Starts
/// are a Poisson process; run times are log-normal with a deviation of 0.5 in the logarithm. The
/// same seed gives the same groups.
std::vector<JobGroup> synthetic_groups(std::uint64_t seed, const SyntheticGroups& shape);

enum class BatchSizeWay : unsigned char { kDefault, kZeus, kHarpe };

/// One try of one job of the group.
struct ConcurrentRun {
  std::size_t job = 0;  ///< of the group
  int batch_size = 0;
  int power_limit = 0;
  int epochs = 0;
  bool reached = false;
  bool concurrent = false;  ///< true if others were in flight when it began
  Seconds start{}, end{};   ///< in the cluster
  // With the runtime ratio:
  double cost = 0;  ///< J
  Joules energy{};
  Seconds time{};
};

struct ConcurrentRecurrences {
  std::vector<ConcurrentRun> runs;  ///< in the order of observation, without runs that never began
  double cost = 0;                  ///< J, of all runs

  /// Returns the number of runs that reached the target.
  std::size_t converged() const;
};

/// Runs the recurrences of a group. Fails with `kInfeasible` if 20 tries of one job do not
/// converge.
/// \param job    of the group's dataset; its number of recurrences is the group's number of jobs
/// \param prior  for Harpe only
Result<ConcurrentRecurrences> recur_concurrently(const TracedJob& job, const JobGroup& group,
                                                 BatchSizeWay way, std::uint64_t seed,
                                                 const zeus::PayBackPrior& prior = {});

/// Returns the cost of the oracle's batch size and limit for each job of the group.
double oracle_cost(const TracedJob& job, const JobGroup& group);

}  // namespace harpe::lab
