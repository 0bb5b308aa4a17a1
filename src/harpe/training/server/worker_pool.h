#pragma once
/// \file
/// `Workers` that are threads.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "harpe/base/mutex.h"
#include "harpe/training/server/work_queue.h"
#include "harpe/training/server/workers.h"

namespace harpe::training {

class WorkerPool final : public Workers {
 public:
  static std::unique_ptr<Workers> make(const Options& options) {
    return std::make_unique<WorkerPool>(options);
  }
  explicit WorkerPool(const Options& options);
  ~WorkerPool() override;

  void run(const std::string& owner, std::function<void()> work, Size size) override;
  void finish() override;
  std::size_t waiting(const std::string& owner) const override;

 private:
  void serve(bool only_small);

  const int nice_;
  mutable Mutex mutex_;  ///< of what follows
  CondVar changed_;
  WorkQueue queue_ HARPE_GUARDED_BY(mutex_);
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace harpe::training
