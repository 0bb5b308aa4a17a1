#include "harpe/zeus/tuning/power_optimizer.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "harpe/base/json_text.h"
#include "harpe/base/mutex.h"
#include "harpe/device/hw/devices.h"
#include "harpe/device/hw/gpu_choice.h"
#include "harpe/device/hw/system_clock.h"
#include "harpe/zeus/tuning/job_tuning.h"
#include "harpe/zeus/tuning/tuning_json.h"
#include "harpe/zeus/tuning/tuning_run.h"

namespace harpe {
namespace {

// Poll interval of the thread: the longest delay of a window that waits for its energy.
constexpr std::chrono::milliseconds kPollInterval(20);
constexpr Seconds kLongestStop{0.2};

/// Returns positions in `devices.gpus`.
Result<std::vector<int>> chosen_gpus(const PowerOptimizerOptions& options, const Devices& devices) {
  std::vector<GpuIdentity> identities;
  for (const auto& gpu : devices.gpus) identities.push_back(gpu->identity());
  const device::GpuChoice choice = HARPE_TRY(
      device::choose_gpus(options.gpus, identities, device::VisibilityVariables::of_environment()));
  if (!options.gpus.empty() || !options.local_rank || choice.gpus.size() <= 1) return choice.gpus;
  const auto position = static_cast<std::size_t>(std::max(0, *options.local_rank));
  if (position < choice.gpus.size()) return std::vector<int>{choice.gpus[position]};
  return Error::invalid("local rank " + std::to_string(position) + " has no GPU: only " +
                        std::to_string(choice.gpus.size()) + " were chosen");
}

class FunctionPeers final : public zeus::Peers {
 public:
  explicit FunctionPeers(JobReductions reductions) : reductions_(std::move(reductions)) {}
  Status reduce(zeus::Reduction how, std::span<double> values) override {
    return how == zeus::Reduction::kSum ? reductions_.sum(values) : reductions_.max(values);
  }

 private:
  JobReductions reductions_;
};

Result<std::unique_ptr<zeus::Peers>> peers_by(JobReductions reductions) {
  if (!reductions.sum && !reductions.max) return std::unique_ptr<zeus::Peers>();
  if (!reductions.sum || !reductions.max) {
    return Error::invalid("a job's processes need both a sum and a maximum to agree");
  }
  return std::unique_ptr<zeus::Peers>(std::make_unique<FunctionPeers>(std::move(reductions)));
}

zeus::Selector selector_of(const PowerOptimizerOptions& options) {
  using Optimize = PowerOptimizerOptions::Optimize;
  zeus::Selector selector{
      .kind = options.optimize == Optimize::kEnergy ? zeus::Selector::Kind::kEnergy
              : options.optimize == Optimize::kTime ? zeus::Selector::Kind::kTime
                                                    : zeus::Selector::Kind::kCost,
      .eta = options.eta,
      .host_power = options.host_power};
  if (options.most_slowdown) selector.most_slowdown = 1 + *options.most_slowdown;
  return selector;
}

PowerReport summary_of(const zeus::TuningReport& report) {
  const zeus::TuningResult& result = report.result;
  const zeus::Saving& saving = result.job_saving ? *result.job_saving : result.saving;
  PowerReport summary{.slowdown = zeus::slowdown_of(result),
                      .saved = saving.saved,
                      .error = saving.error,
                      .at_highest = saving.at_highest,
                      .why_nothing_was_set = report.why_nothing_was_set,
                      .failure = result.failure};
  if (report.why_nothing_was_set.empty() && result.choice) {
    summary.setting = result.knob.text(*result.choice);
    summary.decided = result.decided;
  }
  summary.json = json_line(zeus::tuning_json(report));
  return summary;
}

}  // namespace

struct PowerOptimizer::State {
  explicit State(std::unique_ptr<zeus::JobTuning> job, std::unique_ptr<zeus::Peers> others)
      : peers(std::move(others)), tuning(std::move(job)) {}

  Status open(const PowerOptimizerOptions& options);
  void run();
  void tell(zeus::StepEvent::Kind kind);
  void restore();

  const pid_t process = ::getpid();
  Devices devices;
  std::unique_ptr<EnergyMonitor> monitor;
  std::unique_ptr<zeus::Peers> peers;
  std::unique_ptr<zeus::JobTuning> tuning;
  std::optional<PowerReport> report;

  Mutex mutex;
  CondVar changed;
  bool ended HARPE_GUARDED_BY(mutex) = false;
  /// True while training's thread uses the tuner, possibly for as long as its peers take.
  bool in_step HARPE_GUARDED_BY(mutex) = false;
  std::optional<Error> not_kept HARPE_GUARDED_BY(mutex);
  std::thread thread;
};

Status PowerOptimizer::State::open(const PowerOptimizerOptions& options) {
  devices = HARPE_TRY(open_devices(DeviceOptions::of_environment()));
  std::vector<Gpu*> gpus;
  for (const int gpu : HARPE_TRY(chosen_gpus(options, devices))) {
    gpus.push_back(devices.gpus[static_cast<std::size_t>(gpu)].get());
  }
  std::vector<Cpu*> cpus;
  if (options.measures_node) {
    for (const auto& cpu : devices.cpus) cpus.push_back(cpu.get());
  }
  monitor = HARPE_TRY(EnergyMonitor::start(gpus, cpus, {}, system_clock()));
  return ok_status();
}

Result<std::unique_ptr<PowerOptimizer>> PowerOptimizer::start(const PowerOptimizerOptions& options,
                                                              JobReductions reductions) {
  auto peers = HARPE_TRY(peers_by(std::move(reductions)));
  auto tuning = HARPE_TRY(zeus::JobTuning::make({.selector = selector_of(options),
                                                 .measures_node = options.measures_node,
                                                 .profile = options.profile,
                                                 .socket = options.socket,
                                                 .lease = "harpe.PowerOptimizer",
                                                 .job = options.job,
                                                 .batch_size = options.batch_size,
                                                 .writes_profile = options.writes_profile}));
  auto state = std::make_unique<State>(std::move(tuning), std::move(peers));
  HARPE_TRY(state->open(options));
  state->tuning->start(state->monitor.get(), system_clock(), state->peers.get());
  if (state->tuning->tuner() != nullptr) {
    state->thread = std::thread([own = state.get()] { own->run(); });
  }
  return std::unique_ptr<PowerOptimizer>(new PowerOptimizer(std::move(state)));
}

PowerOptimizer::PowerOptimizer(std::unique_ptr<State> state) : state_(std::move(state)) {}

PowerOptimizer::~PowerOptimizer() {
  finish();
  // In a child of `fork`, the threads and the lease belong to the parent.
  if (::getpid() != state_->process) (void)state_.release();
}

/// Body of the thread. Also renews the lease while training waits for its peers.
void PowerOptimizer::State::run() {
  while (true) {
    {
      MutexLock lock(mutex);
      if (changed.wait_for(mutex, kPollInterval, [this]() HARPE_REQUIRES(mutex) { return ended; }))
        return;
      if (!in_step) tuning->tuner()->poll(system_clock().now());
    }
    Status kept = tuning->setter().keep(system_clock().now());
    if (kept.ok()) continue;
    const MutexLock lock(mutex);
    not_kept = std::move(kept).error();
  }
}

void PowerOptimizer::State::tell(zeus::StepEvent::Kind kind) {
  if (::getpid() != process || report || tuning->tuner() == nullptr) return;
  zeus::Tuner& tuner = *tuning->tuner();
  MutexLock lock(mutex);
  const Instant now = system_clock().now();
  in_step = true;
  const std::optional<Error> lost = std::exchange(not_kept, std::nullopt);
  lock.unlock();
  if (lost) tuner.fail(*lost);
  tuner.on({.kind = kind, .at = now});
  lock.lock();
  in_step = false;
}

bool PowerOptimizer::on_step_begin() {
  state_->tell(zeus::StepEvent::Kind::kStep);
  return !state_->report && state_->tuning->tuner() != nullptr &&
         state_->tuning->tuner()->profiles();
}

void PowerOptimizer::on_epoch_end() {
  state_->tell(zeus::StepEvent::Kind::kEpochEnd);
}

void PowerOptimizer::State::restore() {
  if (thread.joinable()) {
    {
      const MutexLock lock(mutex);
      ended = true;
      changed.notify_all();
    }
    thread.join();
  }
  if (tuning->tuner() != nullptr) {
    zeus::finish_tuning(*tuning->tuner(), tuning->setter(), system_clock());
  }
}

const PowerReport& PowerOptimizer::finish() {
  State& state = *state_;
  if (state.report) return *state.report;
  if (::getpid() != state.process) return state.report.emplace();
  state.restore();
  state.report = summary_of(state.tuning->finish());
  if (!state.monitor->stop(kLongestStop)) {
    // A driver's call cannot be stopped: its thread and data are left behind.
    (void)state.monitor.release();
    for (auto& gpu : state.devices.gpus) (void)gpu.release();
    for (auto& cpu : state.devices.cpus) (void)cpu.release();
  }
  return *state.report;
}

}  // namespace harpe
