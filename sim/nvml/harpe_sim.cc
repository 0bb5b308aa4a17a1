#include "harpe_sim.h"

#include <map>
#include <string>

#include "harpe/base/mutex.h"
#include "harpe/plan/profile/profile.h"
#include "library.h"

namespace harpe {
namespace {

/// The simulation and the profiles used so far, kept for the next call.
class Workbench {
 public:
  static Workbench& instance() {
    // Never destroyed: programs call the library while they exit.
    static auto* const kBench = new Workbench;
    return *kBench;
  }

  Result<std::shared_ptr<device::SimulationCore>> core() {
    const MutexLock lock(mutex_);
    if (!core_) {
      core_ = HARPE_TRY(open_named_simulation());
    }
    return core_;
  }

  Result<SimulatedWork> work(const std::string& file, int stage, const std::string& instruction) {
    const MutexLock lock(mutex_);
    auto known = profiles_.find(file);
    if (known == profiles_.end()) {
      Profile read = HARPE_TRY(read_profile(file));
      known = profiles_.emplace(file, std::move(read)).first;
    }
    const auto kind = instruction_kind(instruction);
    SimulatedWork work;
    if (kind) {
      for (const OperatingPoint& point : known->second.points(stage, 0, *kind)) {
        work.points.push_back({point.clock, point.time, point.energy / point.time});
      }
    }
    if (!work.points.empty()) return work;
    return Error::of(ErrorCode::kNotFound,
                     file + ": has no " + instruction + " of stage " + std::to_string(stage));
  }

 private:
  Mutex mutex_;
  std::shared_ptr<device::SimulationCore> core_ HARPE_GUARDED_BY(mutex_);
  std::map<std::string, Profile> profiles_ HARPE_GUARDED_BY(mutex_);
};

std::string& last_error() {
  thread_local std::string error;
  return error;
}

int respond(const Error& error) {
  last_error() = error.text();
  return code_of(error);
}

/// Calls `call(core)`, which returns a Result, and stores its error.
template <class Call>
int with_simulation(const Call& call) noexcept {
  return guarded([&]() -> int {
    const auto core = Workbench::instance().core();
    if (!core.ok()) return respond(core.error());
    const auto result = call(**core);
    return result.ok() ? NVML_SUCCESS : respond(result.error());
  });
}

Result<Simulation::Span> run(device::SimulationCore& core, int gpu, const SimulatedWork& work,
                             harpe_sim_span* span) {
  Result<Simulation::Span> ran = core.run(gpu, work);
  if (ran.ok() && span != nullptr) {
    span->begin = static_cast<double>(ran->begin.ns) * 1e-9;
    span->end = static_cast<double>(ran->end.ns) * 1e-9;
  }
  return ran;
}

Status check_gpu(device::SimulationCore& core, int gpu) {
  if (gpu >= 0 && gpu < core.gpus()) return ok_status();
  return Error::of(ErrorCode::kNotFound, "no simulated GPU " + std::to_string(gpu));
}

}  // namespace
}  // namespace harpe

using harpe::Error;
using harpe::Result;
using harpe::Status;
using harpe::device::SimulationCore;

const char* harpe_sim_error(void) {
  return harpe::last_error().c_str();
}

int harpe_sim_gpus(int* count) {
  return harpe::with_simulation([&](SimulationCore& core) -> Status {
    if (count == nullptr) return Error::invalid("count is null");
    *count = core.gpus();
    return harpe::ok_status();
  });
}

int harpe_sim_set_load(int gpu, double activity) {
  return harpe::with_simulation([&](SimulationCore& core) { return core.set_load(gpu, activity); });
}

int harpe_sim_run(int gpu, double seconds, double memory_bound, harpe_sim_span* span) {
  return harpe::with_simulation([&](SimulationCore& core) -> Result<harpe::Simulation::Span> {
    HARPE_TRY(harpe::check_gpu(core, gpu));
    // Negated, so that a NaN is refused.
    if (!(memory_bound >= 0 && memory_bound <= 1)) {
      return Error::invalid("the memory-bound share is from 0 to 1");
    }
    return harpe::run(core, gpu, core.model_work(gpu, {seconds}, memory_bound), span);
  });
}

int harpe_sim_run_profile(int gpu, const char* profile, int stage, const char* instruction,
                          harpe_sim_span* span) {
  return harpe::with_simulation([&](SimulationCore& core) -> Result<harpe::Simulation::Span> {
    if (profile == nullptr || instruction == nullptr) {
      return Error::invalid("the profile and the instruction must be named");
    }
    const auto work = HARPE_TRY(harpe::Workbench::instance().work(profile, stage, instruction));
    return harpe::run(core, gpu, work, span);
  });
}

int harpe_sim_truth(int gpu, harpe_sim_truth_t* truth) {
  return harpe::with_simulation([&](SimulationCore& core) -> Status {
    if (Status known = harpe::check_gpu(core, gpu); !known.ok()) return known;
    if (truth == nullptr) return Error::invalid("truth is null");
    const harpe::SimulatedTruth now = core.truth(gpu);
    *truth = {.time = static_cast<double>(now.time.ns) * 1e-9,
              .energy = now.energy.value,
              .power = now.power.value,
              .clock = static_cast<double>(now.clock.value),
              .temperature = now.temperature};
    return harpe::ok_status();
  });
}
