#pragma once
/// \file
/// Threads that share the pipelines of each iteration of an emulated cluster.
///
///   PipelineThreads threads(4);
///   const EmulationHooks hooks{.workers = threads.workers()};

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

#include "harpe/lab/emulation/emulated_cluster.h"

namespace harpe::command {

/// Worker threads that wait between iterations. One caller at a time.
class PipelineThreads {
 public:
  /// \param count  including the caller's own thread; at least 1
  explicit PipelineThreads(std::size_t count);
  ~PipelineThreads();
  PipelineThreads(const PipelineThreads&) = delete;
  PipelineThreads& operator=(const PipelineThreads&) = delete;

  /// Returns the workers, which must not outlive this object.
  lab::PipelineWorkers workers();

 private:
  void each(std::size_t items, const lab::PipelineWorkers::Work& work);
  void run_share(std::size_t worker);

  // Written by the caller before it raises `round_`, which the threads wait for.
  std::size_t items_ = 0;
  const lab::PipelineWorkers::Work* work_ = nullptr;
  bool ends_ = false;

  std::atomic<std::size_t> round_{0};
  std::atomic<std::size_t> next_{0};     ///< next item
  std::atomic<std::size_t> running_{0};  ///< number of threads in this round
  std::vector<std::thread> threads_;
};

}  // namespace harpe::command
