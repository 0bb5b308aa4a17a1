#pragma once
/// \file
/// When the recurrences of jobs were submitted to a cluster: groups of the same job, some of them
/// submitted while others still run (Zeus, NSDI'23, section 6.3, which takes them from a trace of
/// Alibaba's that is not published in this form). A file has the columns group, start_time,
/// end_time, dataset and runtime_ratio.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/base/units.h"

namespace harpe {

struct GroupedJob {
  Seconds start{}, end{};    ///< as it ran in the cluster; end is not before start
  double runtime_ratio = 1;  ///< of its run time to the mean of its dataset's jobs
  friend bool operator==(const GroupedJob&, const GroupedJob&) = default;
};

struct JobGroup {
  std::string name, dataset;
  std::vector<GroupedJob> jobs;  ///< by rising start
  friend bool operator==(const JobGroup&, const JobGroup&) = default;
};

/// Groups by their first row. Columns may be in any order, others are left out; rows of a group
/// need not be neighbours, those that start together stay in their order. All rows that are wrong
/// are named; a group of two datasets is wrong.
Result<std::vector<JobGroup>> parse_job_groups(std::string_view text, const std::string& file);

/// A cell of a table: in quotes where it is more than a plain word.
std::string cell_text(const std::string& text);
/// Such a file, with a first line that says where it is from.
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

}  // namespace harpe
