#include "harpe/training/job/played_job_testing.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "harpe/plan/profile/synth.h"

namespace harpe::training {

JobSpec small_spec(int data, int stages, int micro_batches) {
  JobSpec spec;
  spec.name = "small";
  spec.shape = {.data = data, .stages = stages, .tensor = 1};
  spec.schedule = *one_f_one_b({.stages = stages, .micro_batches = micro_batches});
  spec.plans = 50;
  spec.profiling.most_clocks = 12;
  spec.profiling.slowdown_limit = 0.5;
  return spec;
}

Profile truth_of(const JobSpec& spec) {
  return *synthesize({.stages = spec.shape.stages, .imbalance = 1.3, .noise = 0});
}

Played::Played(const JobSpec& known, const JobSpec& real, const EmulatedMachines::Options& options)
    : job(*Job::create(known, Seconds{1.8e9})), training(real, truth_of(real), options) {}

bool Played::running() {
  return training.run_until(
      job, [&] { return job.phase() == JobPhase::kRunning && job.plans() != nullptr; }, 2000);
}

double Played::slowdown(std::size_t iterations) const {
  const auto& all = training.iterations();
  double time = 0, at_all_max = 0;
  for (std::size_t i = all.size() - std::min(iterations, all.size()); i < all.size(); ++i) {
    time += all[i].time.value;
    at_all_max += all[i].all_max_time.value;
  }
  return time / at_all_max - 1;
}

Status Played::restart_server() {
  std::optional<plan::PlanTable> plans;
  if (job.plans() != nullptr) {
    plans = HARPE_TRY(plan::PlanTable::parse(job.plans()->stored_text(), "plans"));
  }
  Job restored = HARPE_TRY(Job::read(job.texts(), std::move(plans), training.now()));
  if (!restored.asleep() || restored.phase() != job.phase())
    return Error::invalid("a job that was read is not as it was stored");
  restored.go_on(training.now());
  job = std::move(restored);
  return ok_status();
}

bool Played::plans_anew_when_slower(int stage) {
  for (int pipeline = 0; pipeline < job.spec().shape.data; ++pipeline)
    training.slow[{pipeline, stage}] = 1.25;
  return training.run_until(job, [&] { return job.phase() == JobPhase::kCharacterizing; }, 30);
}

int Played::events(const std::string& part, std::optional<JobEvent::Level> level) const {
  return static_cast<int>(std::ranges::count_if(training.events, [&](const JobEvent& event) {
    return (!level || event.level == *level) && event.text.find(part) != std::string::npos;
  }));
}

}  // namespace harpe::training
