#include "harpe/training/server/workers.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace harpe::training {

WorkerPool::WorkerPool(const Options& options) : nice_(options.nice) {
  const int threads = std::max(1, options.threads);
  for (int i = 0; i < threads; ++i) {
    const bool only_small = i > 0 && i >= threads - options.for_small;
    threads_.emplace_back([this, only_small] { serve(only_small); });
  }
}

WorkerPool::~WorkerPool() {
  {
    const MutexLock lock(mutex_);
    stopping_ = true;
    queue_.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(const std::string& owner, std::function<void()> work, Size size) {
  {
    const MutexLock lock(mutex_);
    if (stopping_) return;
    queue_.add(owner, std::move(work), size);
  }
  changed_.notify_all();
}

void WorkerPool::finish() {
  MutexLock lock(mutex_);
  changed_.wait(mutex_, [this]() HARPE_REQUIRES(mutex_) { return queue_.empty(); });
  stopping_ = true;
}

std::size_t WorkerPool::waiting(const std::string& owner) const {
  const MutexLock lock(mutex_);
  return queue_.waiting(owner);
}

void WorkerPool::serve(bool only_small) {
  if (nice_ != 0) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), nice_);
  }
  MutexLock lock(mutex_);
  for (;;) {
    changed_.wait(mutex_,
                  [&]() HARPE_REQUIRES(mutex_) { return stopping_ || queue_.has(only_small); });
    if (stopping_) return;
    WorkQueue::Piece piece = queue_.take(only_small);
    lock.unlock();
    piece.work();
    piece.work = nullptr;
    lock.lock();
    queue_.done(piece.owner);
    changed_.notify_all();
  }
}

}  // namespace harpe::training
