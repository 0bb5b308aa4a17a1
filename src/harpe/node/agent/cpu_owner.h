#pragma once
/// \file
/// The thread that reads the energy of CPUs; one queue for all of them, as reading one takes
/// microseconds.

#include <deque>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/device/hw/device.h"
#include "harpe/node/agent/controller.h"

namespace harpe::node {

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
  Mutex mutex_;
  CondVar changed_;
  std::deque<std::pair<int, Done<CpuEnergy>>> queue_ HARPE_GUARDED_BY(mutex_);
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false;
  std::thread thread_;
};

}  // namespace harpe::node
