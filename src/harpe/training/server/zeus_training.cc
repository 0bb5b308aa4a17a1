#include "harpe/training/server/zeus_training.h"

#include <algorithm>

#include "harpe/base/text.h"

namespace harpe {
namespace {

constexpr std::string_view kPointSolution = "+PointSolution";

std::string session_start(const std::string& training) {
  return "zeus " + training + " ";
}

std::string degrees(const JobShape& shape) {
  return "+dp" + std::to_string(shape.data) + "+pp" + std::to_string(shape.stages) + "+tp" +
         std::to_string(shape.tensor) + std::string(kPointSolution);
}

}  // namespace

std::string zeus_training_ending(const JobShape& shape, std::string_view job) {
  std::string ending = degrees(shape);
  if (!job.empty()) ending.append("+").append(job);
  return ending;
}

std::string job_of_zeus_training(const std::string& id) {
  const std::size_t end = id.find(kPointSolution);
  const std::size_t ending = end + kPointSolution.size() + 1;
  return end == std::string::npos || ending >= id.size() ? id : id.substr(ending);
}

bool names_degrees(const std::string& id, const JobShape& shape) {
  const std::size_t end = id.find(kPointSolution);
  return end != std::string::npos &&
         std::string_view(id).substr(0, end + kPointSolution.size()).ends_with(degrees(shape));
}

std::string zeus_session(const std::string& training, int rank) {
  return session_start(training) + std::to_string(rank);
}

std::map<int, RankCoordinates> ranks_of_zeus_training(const Job& job, const std::string& training) {
  std::map<int, RankCoordinates> ranks;
  if (job.run() != training) return ranks;
  const JobShape& shape = job.spec().shape;
  const std::string start = session_start(training);
  for (int data = 0; data < shape.data; ++data) {
    for (int stage = 0; stage < shape.stages; ++stage) {
      for (int tensor = 0; tensor < shape.tensor; ++tensor) {
        const RankCoordinates coordinates{.data = data, .stage = stage, .tensor = tensor};
        const std::string& session = job.session(coordinates);
        if (!session.starts_with(start)) continue;
        const auto rank = parse_integer(std::string_view(session).substr(start.size()));
        if (rank && *rank >= 0 && *rank < shape.ranks())
          ranks[static_cast<int>(*rank)] = coordinates;
      }
    }
  }
  return ranks;
}

}  // namespace harpe
