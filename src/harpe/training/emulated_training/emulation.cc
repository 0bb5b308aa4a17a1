#include "harpe/training/emulated_training/emulation.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace harpe::training {

EmulatedTraining::EmulatedTraining(const JobSpec& spec, const Profile& truth,
                                   const Options& options)
    : EmulatedMachines(spec, truth, options),
      books_(static_cast<std::size_t>(spec.shape.ranks())) {}

RankRegistration EmulatedTraining::registration(RankCoordinates rank) const {
  return {.coordinates = rank,
          .session = session(rank),
          .run = run_,
          .gpu = "simulated",
          .clocks = clocks(rank.stage)};
}

void EmulatedTraining::take(RankCoordinates rank, std::vector<StageAssignment> assignments) {
  auto& book = books_[spec().shape.index(rank)];
  for (StageAssignment& one : assignments) book[one.version] = std::move(one);
}

const StageAssignment* EmulatedTraining::in_force(RankCoordinates rank) const {
  const StageAssignment* found = nullptr;
  for (const auto& [version, assignment] : books_[spec().shape.index(rank)])
    if (assignment.from_iteration <= iteration_) found = &assignment;
  return found;
}

std::vector<IterationReport> EmulatedTraining::iterate() {
  auto [done, reports] = play(iteration_, [this](RankCoordinates rank) { return in_force(rank); });
  now_ += done.time;
  ++iteration_;
  iterations_.push_back(std::move(done));
  for (IterationReport& one : reports) one.session = session(one.coordinates);
  std::ranges::shuffle(reports, random());
  return std::move(reports);
}

void EmulatedTraining::start_again(const std::string& run, std::int64_t iteration) {
  run_ = run;
  iteration_ = iteration;
  for (auto& book : books_) book.clear();
}

}  // namespace harpe::training
