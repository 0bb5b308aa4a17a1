#pragma once
/// \file
/// Memory for the states of simulated GPUs: private to one process, or a file that processes map.
///
/// Each GPU has its own lock and two copies of its state. A change is made in a third copy, written
/// over the copy not in use, and put in force with one store. A process that is killed at any point
/// leaves the state of the last complete change.

#include <pthread.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "harpe/base/result.h"
#include "harpe/device/hw/sim/gpu_state.h"

namespace harpe::device {

struct GpuCell {
  pthread_mutex_t mutex;  ///< robust, shared between processes
  std::atomic<std::uint32_t> newest;
  SimulatedGpuState state[2];
  WorkTable table[kMaxStreams];  ///< work of each stream, written before the stream starts
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

class StateMemory {
 public:
  struct Origin {
    std::uint64_t digest = 0;   ///< digest of the configuration
    std::int64_t epoch_ns = 0;  ///< begin of the simulation on the clock
  };

  static Result<std::unique_ptr<StateMemory>> make_private(
      const std::vector<SimulatedGpuState>& initial, std::int64_t epoch_ns);
  /// Maps the file. Creates it first if it does not exist or is from an earlier boot. Fails, with a
  /// remedy, if its configuration differs, or if another user owns it and `everyone` is false.
  static Result<std::unique_ptr<StateMemory>> open_shared(
      const std::filesystem::path& file, const std::vector<SimulatedGpuState>& initial,
      Origin wanted, bool everyone);

  ~StateMemory();
  StateMemory(const StateMemory&) = delete;
  StateMemory& operator=(const StateMemory&) = delete;

  std::int64_t epoch_ns() const;

  /// Calls `change` with a copy of the state of a GPU and stores the result. Excludes other threads
  /// and processes during the call.
  void update(int gpu, const std::function<void(SimulatedGpuState&, WorkTable*)>& change);

 private:
  StateMemory(void* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}
  GpuCell& cell(int gpu);

  void* memory_;
  std::size_t bytes_;
};

}  // namespace harpe::device
