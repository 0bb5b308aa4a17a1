#pragma once
/// \file
/// Where the states of simulated GPUs lie: memory of one process, or a file that processes map.
///
/// Each GPU has a lock of its own and two copies of its state; a change is made in a third, written
/// over the copy not in use, and comes into force with one store. A process that is killed at any
/// point leaves the state of the last finished change.

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
  WorkTable table[kMaxStreams];  ///< that of a stream is written before the stream starts
};
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

class StateMemory {
 public:
  struct Origin {
    std::uint64_t digest = 0;   ///< of the configuration
    std::int64_t epoch_ns = 0;  ///< when the simulation began, on the clock
  };

  static Result<std::unique_ptr<StateMemory>> make_private(
      const std::vector<SimulatedGpuState>& initial, std::int64_t epoch_ns);
  /// Maps the file, which is made first when it is not there, or is of an earlier boot. Refuses,
  /// with what to do, a file of another configuration, or one that belongs to another user unless
  /// `everyone` may share it.
  static Result<std::unique_ptr<StateMemory>> open_shared(
      const std::filesystem::path& file, const std::vector<SimulatedGpuState>& initial,
      Origin wanted, bool everyone);

  ~StateMemory();
  StateMemory(const StateMemory&) = delete;
  StateMemory& operator=(const StateMemory&) = delete;

  std::int64_t epoch_ns() const;

  /// Calls `change` on a copy of the state of a GPU while no other thread or process can, and
  /// keeps what it made of it.
  void update(int gpu, const std::function<void(SimulatedGpuState&, WorkTable*)>& change);

 private:
  StateMemory(void* memory, std::size_t bytes) : memory_(memory), bytes_(bytes) {}
  GpuCell& cell(int gpu);

  void* memory_;
  std::size_t bytes_;
};

}  // namespace harpe::device
