#pragma once
/// \file
/// A few threads that take work from one queue, in order, and let the rest of the program go first.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

namespace harpe {

/// Thread-safe.
class WorkerPool {
 public:
  /// \param threads  at least 1; with one, work is done in the order in which it came
  explicit WorkerPool(int threads);
  /// Forgets what has not begun and waits for what has.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  void run(std::function<void()> work);
  /// Waits until all that was given has been done, and takes no more.
  void finish();

  std::size_t waiting() const;
  std::size_t running() const;

 private:
  void serve();

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> queue_;
  std::size_t running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace harpe
