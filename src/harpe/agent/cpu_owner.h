#pragma once
/// \file
/// The thread that reads the energy of CPUs; one queue for all of them, as reading one takes
/// microseconds.

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/agent/controller.h"
#include "harpe/hw/device.h"

namespace harpe {

class CpuOwner {
 public:
  explicit CpuOwner(std::vector<std::unique_ptr<Cpu>> cpus);
  CpuOwner(const CpuOwner&) = delete;
  CpuOwner& operator=(const CpuOwner&) = delete;
  /// Serves what is queued, then ends the thread.
  ~CpuOwner();

  int count() const { return static_cast<int>(cpus_.size()); }
  void read(int cpu, Done<CpuEnergy> done);

 private:
  void run();

  std::vector<std::unique_ptr<Cpu>> cpus_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::pair<int, Done<CpuEnergy>>> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace harpe
