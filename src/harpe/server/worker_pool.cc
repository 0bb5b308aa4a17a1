#include "harpe/server/worker_pool.h"

#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

namespace harpe {

std::unique_ptr<Workers> WorkerPool::make(const Options& options) {
  return std::make_unique<WorkerPool>(options);
}

WorkerPool::WorkerPool(const Options& options) : nice_(options.nice) {
  const int threads = std::max(1, options.threads);
  for (int i = 0; i < threads; ++i) {
    const bool only_small = i > 0 && i >= threads - options.for_small;
    threads_.emplace_back([this, only_small] { serve(only_small); });
  }
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    turns_.clear();
    for (auto& [name, owner] : owners_) owner.pieces.clear();
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void WorkerPool::run(const std::string& owner, std::function<void()> work, Size size) {
  {
    const std::lock_guard lock(mutex_);
    if (stopping_) return;
    const auto at = owners_.try_emplace(owner).first;
    at->second.pieces.push_back({std::move(work), size});
    if (at->second.pieces.size() == 1 && !at->second.busy) turns_.push_back(at);
  }
  changed_.notify_all();
}

void WorkerPool::finish() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return owners_.empty(); });
  stopping_ = true;
}

std::size_t WorkerPool::waiting(const std::string& owner) const {
  const std::lock_guard lock(mutex_);
  const auto found = owners_.find(owner);
  return found == owners_.end() ? 0 : found->second.pieces.size();
}

std::deque<WorkerPool::Owners::iterator>::iterator WorkerPool::next(bool only_small) {
  if (!only_small) return turns_.begin();
  return std::ranges::find_if(turns_, [](const Owners::iterator& owner) {
    return owner->second.pieces.front().size == Size::kSmall;
  });
}

void WorkerPool::serve(bool only_small) {
  if (nice_ != 0) {
    ::setpriority(PRIO_PROCESS, static_cast<id_t>(::syscall(SYS_gettid)), nice_);
  }
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return stopping_ || next(only_small) != turns_.end(); });
    if (stopping_) return;
    const auto turn = next(only_small);
    const Owners::iterator owner = *turn;
    turns_.erase(turn);
    std::function<void()> work = std::move(owner->second.pieces.front().work);
    owner->second.pieces.pop_front();
    owner->second.busy = true;
    lock.unlock();
    work();
    work = nullptr;
    lock.lock();
    owner->second.busy = false;
    if (owner->second.pieces.empty()) {
      owners_.erase(owner);
    } else if (!stopping_) {
      turns_.push_back(owner);
    }
    changed_.notify_all();
  }
}

}  // namespace harpe
