#pragma once
/// \file
/// The implementation of a simulation: state, time and the behaviour of the driver. For the room
/// itself and for the simulated NVML, which needs more than the interface of a device.

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harpe/device/hw/sim/simulation.h"
#include "harpe/device/hw/sim/simulation_config.h"
#include "harpe/device/hw/sim/state_memory.h"

namespace harpe::device {

class SimulationCore final : public Simulation,
                             public std::enable_shared_from_this<SimulationCore> {
 public:
  /// \param state_file  file of the shared memory; empty if the memory is private
  SimulationCore(SimulationConfig config, std::unique_ptr<StateMemory> memory, Clock& clock,
                 std::filesystem::path state_file = {});

  int gpus() const override { return static_cast<int>(config_.gpus.size()); }
  Instant began() const override { return {memory_->epoch_ns()}; }
  std::unique_ptr<Gpu> gpu(int index) override;
  std::vector<std::unique_ptr<Cpu>> cpus() override;
  Result<Span> run(int gpu, const SimulatedWork& work) override;
  Status set_load(int gpu, double activity) override;
  SimulatedTruth truth(int gpu) override;
  SimulatedWork model_work(int gpu, Seconds at_highest, double memory_bound) const override;
  Seconds switch_latency(int gpu, Megahertz from, Megahertz to) const override;

  const std::filesystem::path& state_file() const { return state_file_; }
  const SimulatedGpuSpec& spec(int gpu) const {
    return config_.gpus[static_cast<std::size_t>(gpu)];
  }

  /// Simulates a driver call that reads. Returns the present state, or the driver's error.
  Result<SimulatedGpuState> read(int gpu);
  /// Simulates a driver call that sets: applies `change` under a lock and returns its result. Takes
  /// the simulated duration of the call. \param what  for messages: "locking clocks"
  Status write(int gpu, const char* what, const std::function<Status(SimulatedGpuState&)>& change);

  Status lock_clocks(int gpu, ClockDomain domain, SimulatedClockLock lock);
  Status set_power_limit(int gpu, Watts limit);
  Status set_persistence(int gpu, bool enabled);

 private:
  using Change = std::function<void(SimulatedGpuState&, WorkTable*)>;
  /// Advances the GPU to the present time, then changes it.
  void update(int gpu, const Change& change);
  Status admit(int gpu, const char* what, bool sets);
  Status check(int gpu) const;
  Result<std::uint64_t> launch(int gpu, const SimulatedWork& work, int& stream);

  SimulationConfig config_;
  std::unique_ptr<StateMemory> memory_;
  Clock& clock_;
  const std::filesystem::path state_file_;
};

/// Opens the shared simulation of a file, like `Simulation::open`.
Result<std::shared_ptr<SimulationCore>> open_simulation(const std::filesystem::path& config);

}  // namespace harpe::device
