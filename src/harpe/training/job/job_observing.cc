// Jobs that are only observed: no clock is set, and plans are made only to estimate what they would
// save.

#include <algorithm>
#include <string>
#include <utility>

#include "harpe/base/text.h"
#include "harpe/training/job/job_state.h"

namespace harpe::training {
namespace {

/// Returns the GPU of each stage, or the reason why a saving cannot be estimated.
Result<std::vector<ObservedGpu>> observed_gpus(const RankBook& ranks) {
  const JobShape& shape = ranks.shape();
  std::vector<ObservedGpu> gpus(static_cast<std::size_t>(shape.stages));
  const std::string* name = nullptr;
  const GpuModel* model = nullptr;  // of that name
  for (int data = 0; data < shape.data; ++data)
    for (int stage = 0; stage < shape.stages; ++stage)
      for (int tensor = 0; tensor < shape.tensor; ++tensor) {
        const RankBook::Holder& rank = ranks.holder({data, stage, tensor});
        if (name == nullptr || *name != rank.gpu) model = model_of_gpu(rank.gpu);
        name = &rank.gpu;
        ObservedGpu& gpu = gpus[static_cast<std::size_t>(stage)];
        if (model == nullptr) {
          return Error::of(ErrorCode::kNotFound,
                           rank.gpu.empty() ? "the GPU of a rank cannot be read"
                                            : "there is no model of " + in_quotes(rank.gpu, 64));
        }
        if (gpu.model != nullptr && gpu.model != model) {
          return Error::of(ErrorCode::kNotFound, "the GPUs of stage " + std::to_string(stage) +
                                                     " are not all of one kind");
        }
        gpu = {.model = model, .power_limit = rank.power_limit};
      }
  return gpus;
}

}  // namespace

Status Job::State::check_sets_clocks() const {
  if (!spec.observe) return ok_status();
  return Error::invalid(
      "the job is only observed (HARPE_OBSERVE, or \"observe\" of its specification): "
      "nothing is set, so there is nothing to change");
}

void Job::State::begin_observing(Seconds now) {
  phase = Observing{.observation = Observation(spec.shape, work)};
  detector.reset();
  add_event(JobEvent::Level::kInfo, now,
            "the job is only observed: no clock is set, and no plan is made");
}

void Job::State::observe_iteration(const FinishedIteration& iteration) {
  Observing& in = *observing();
  if (iteration.iteration < warm_from || !in.observation.add(iteration)) return;
  if (in.observation.iterations() < in.estimate_at) return;
  in.estimate_at = 2 * in.observation.iterations();  // the longer, the less it moves
  effects.save = true;
  const Result<std::vector<ObservedGpu>> gpus = observed_gpus(ranks);
  if (!gpus.ok()) {
    in.estimate = {.basis = gpus.error().text()};
    return;
  }
  in.basis = "model of ";
  for (std::size_t i = 0; i < gpus->size(); ++i) {
    const std::string name((*gpus)[i].model->name);
    if (in.basis.find(name) == std::string::npos) in.basis += (i == 0 ? "" : ", ") + name;
  }
  // Plans without slowdown for both ends of the assumptions.
  for (std::size_t i = 0; i < kAssumptions.size(); ++i) {
    in.tickets[i] = ++ticket;
    effects.more_plans.push_back(
        {.ticket = in.tickets[i],
         .profile = assumed_profile(in.observation, work, *gpus, kAssumptions[i]),
         .blocking_power = waiting_powers(in.observation, *gpus),
         .objective = Objective{},
         .only_objective = true,
         .client = clock_client()});
  }
}

void Job::State::take_estimate(std::uint64_t answered, const Result<plan::PlanTable>& made) {
  Observing& in = *observing();
  const auto of_this = std::ranges::find(in.tickets, answered);
  if (answered == 0 || of_this == in.tickets.end()) return;
  *of_this = 0;
  if (!made.ok()) {
    in.tickets.fill(0);
    in.estimate = {.basis = made.error().text()};
    return;
  }
  in.savings[static_cast<std::size_t>(of_this - in.tickets.begin())] =
      saving_of(*made, in.observation);
  if (std::ranges::any_of(in.tickets, [](std::uint64_t one) { return one != 0; })) return;
  const auto [least, most] = std::ranges::minmax(in.savings);
  in.estimate = {.least = std::max(0.0, least), .most = std::max(0.0, most), .basis = in.basis};
  effects.save = true;
}

}  // namespace harpe::training
