#pragma once
/// \file
/// Threads shared by several owners in turns: an owner waits at most for one piece of another
/// owner's work, and large pieces leave a thread to small ones.

#include <algorithm>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harpe/base/loop.h"
#include "harpe/base/mutex.h"

namespace harpe::training {

/// A set of worker threads. Thread-safe.
class Workers {
 public:
  struct Options {
    int threads = 1;  ///< at least 1
    /// Number of threads that run only small pieces; fewer than `threads`.
    int for_small = 0;
    /// The `nice` value of the threads.
    int nice = 0;
  };
  enum class Size : unsigned char { kSmall, kLarge };

  /// Discards work that has not begun, and waits for the rest.
  virtual ~Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Queues work of an owner, such as a job's id. The work of one owner runs in order, one piece at
  /// a time; owners take turns.
  virtual void run(const std::string& owner, std::function<void()> work,
                   Size size = Size::kSmall) = 0;
  /// Waits until all queued work is done. Later work is ignored.
  virtual void finish() = 0;
  /// Returns the number of pieces of one owner that have not begun.
  virtual std::size_t waiting(const std::string& owner) const = 0;

 protected:
  Workers() = default;
};

using MakeWorkers = std::function<std::unique_ptr<Workers>(const Workers::Options&)>;

/// Work that other threads post to a loop. It is dropped if its owner no longer exists.
///
/// Make it a member of the owner, declared before the threads that post. `post` may be called from
/// any thread; the work, and all other functions, run on the loop's thread.
class LoopWork {
 public:
  explicit LoopWork(Loop& loop) : loop_(loop) {}
  ~LoopWork() { *alive_ = false; }
  LoopWork(const LoopWork&) = delete;
  LoopWork& operator=(const LoopWork&) = delete;

  void post(std::function<void()> work) const {
    loop_.post([alive = alive_, work = std::move(work)] {
      if (*alive) work();
    });
  }

 private:
  Loop& loop_;
  const std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
};

/// Threads for work whose results a loop handles.
class SideWorkers {
 public:
  SideWorkers(Loop& loop, std::unique_ptr<Workers> workers)
      : work_(loop), workers_(std::move(workers)) {}

  /// Runs `work` on one of the threads, and the function that it returns, if any, on the loop's
  /// thread. See `Workers::run`.
  void run(const std::string& owner, std::function<std::function<void()>()> work,
           Workers::Size size = Workers::Size::kSmall) {
    workers_->run(
        owner,
        [this, work = std::move(work)] {
          if (std::function<void()> result = work()) work_.post(std::move(result));
        },
        size);
  }

 private:
  LoopWork work_;
  std::unique_ptr<Workers> workers_;  // last: its threads end before the data they use is destroyed
};

/// The queue of `Workers`. Work of one owner runs in the order in which it was added, one piece at
/// a time; owners take turns. Not thread-safe. Taking a small piece past large ones is O(owners);
/// all other operations are O(log owners).
class WorkQueue {
 public:
  struct Piece {
    std::string owner;
    std::function<void()> work;
  };

  void add(const std::string& owner, std::function<void()> work, Workers::Size size) {
    Owner& one = owners_[owner];
    one.waiting.push_back({std::move(work), size});
    if (one.waiting.size() == 1 && !one.is_busy) turns_.push_back(owner);
  }
  /// Returns true if there is a piece to take. \param only_small  only small pieces count
  bool has(bool only_small) const { return next(only_small) != turns_.end(); }
  /// Takes a piece, which must exist. Its owner has no turn until `done` is called.
  Piece take(bool only_small) {
    const auto turn = next(only_small);
    Piece piece{.owner = *turn, .work = {}};
    turns_.erase(turn);
    Owner& owner = owners_.at(piece.owner);
    piece.work = std::move(owner.waiting.front().work);
    owner.waiting.pop_front();
    owner.is_busy = true;
    return piece;
  }
  void done(const std::string& owner) {
    const auto at = owners_.find(owner);
    at->second.is_busy = false;
    if (at->second.waiting.empty()) {
      owners_.erase(at);
    } else {
      turns_.push_back(owner);
    }
  }
  /// Discards the pieces that have not been taken.
  void clear() {
    turns_.clear();
    std::erase_if(owners_, [](const auto& owner) { return !owner.second.is_busy; });
    for (auto& [name, owner] : owners_) owner.waiting.clear();
  }

  /// Returns true if no piece is waiting or running.
  bool empty() const { return owners_.empty(); }
  /// Returns the number of waiting pieces of one owner.
  std::size_t waiting(const std::string& owner) const {
    const auto at = owners_.find(owner);
    return at == owners_.end() ? 0 : at->second.waiting.size();
  }

 private:
  struct Waiting {
    std::function<void()> work;
    Workers::Size size;
  };
  struct Owner {
    std::deque<Waiting> waiting;
    bool is_busy = false;  ///< one of its pieces is running
  };

  std::deque<std::string>::const_iterator next(bool only_small) const {
    if (!only_small) return turns_.begin();
    return std::ranges::find_if(turns_, [this](const std::string& owner) {
      return owners_.at(owner).waiting.front().size == Workers::Size::kSmall;
    });
  }

  std::map<std::string, Owner> owners_;  ///< with waiting or running pieces
  std::deque<std::string> turns_;        ///< owners with waiting pieces and none running
};

/// `Workers` with threads of this process.
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
  mutable Mutex mutex_;  ///< protects the members below
  CondVar changed_;
  WorkQueue queue_ HARPE_GUARDED_BY(mutex_);
  bool stopping_ HARPE_GUARDED_BY(mutex_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace harpe::training
