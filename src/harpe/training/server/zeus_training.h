#pragma once
/// \file
/// How a training of Zeus's clients is named, and how it is known again by what its job keeps.
///
/// Its id is `TIME+dpD+ppP+tpT+PointSolution`, with its degrees; then `+JOB`, the id of the job
/// whose plans it runs, unless that is registered under the id of the training itself. A rank that
/// takes part holds its place in the job by the session `zeus ID RANK`, of the run ID.

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "harpe/training/job/job.h"

namespace harpe {

/// What follows the time in the id of a training.
std::string zeus_training_ending(const JobShape& shape, std::string_view job);

/// The job whose plans a training runs. Any text is taken.
std::string job_of_zeus_training(const std::string& id);

/// Whether the id names these degrees.
bool names_degrees(const std::string& id, const JobShape& shape);

/// By which a rank of a training holds its place.
std::string zeus_session(const std::string& training, int rank);

/// The ranks of this training that hold places of the job. O(ranks), O(1) if there are none.
std::map<int, RankCoordinates> ranks_of_zeus_training(const Job& job, const std::string& training);

}  // namespace harpe
