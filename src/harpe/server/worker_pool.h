#pragma once
/// \file
/// A few threads that work for many, by turns: nothing that one of them asks for makes another wait
/// for longer than one piece of work takes, and large pieces leave a thread to small ones.

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace harpe {

/// Thread-safe.
class WorkerPool {
 public:
  struct Options {
    int threads = 1;  ///< at least 1
    /// Of those, how many take small pieces alone; fewer than `threads`.
    int for_small = 0;
    /// How far others of this machine go first: `nice`.
    int nice = 0;
  };
  enum class Size : unsigned char { kSmall, kLarge };

  explicit WorkerPool(const Options& options);
  /// Forgets what has not begun and waits for what has.
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Work of one owner (a job's id, say) is done in the order in which it came, one piece at a
  /// time; owners take turns.
  void run(const std::string& owner, std::function<void()> work, Size size = Size::kSmall);
  /// Waits until all that was given has been done, and takes no more.
  void finish();

  std::size_t waiting() const;
  /// Of one owner.
  std::size_t waiting(const std::string& owner) const;
  std::size_t running() const;

 private:
  struct Piece {
    std::function<void()> work;
    Size size;
  };
  struct Owner {
    std::deque<Piece> pieces;
    bool busy = false;  ///< one of its pieces is being done
  };
  using Owners = std::map<std::string, Owner>;

  void serve(bool only_small);
  /// The owner whose turn it is, of those with a piece that this thread may take; `turns_.end()`:
  /// none has.
  std::deque<Owners::iterator>::iterator next(bool only_small);

  const int nice_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  Owners owners_;                       ///< with something to do, or busy
  std::deque<Owners::iterator> turns_;  ///< with something to do and not busy
  std::size_t waiting_ = 0, running_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace harpe
