#pragma once
/// \file
/// Threads that work for many, by turns: nothing that one of them asks for makes another wait for
/// longer than one piece of work takes, and large pieces leave a thread to small ones.

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

/// Thread-safe.
class Workers {
 public:
  struct Options {
    int threads = 1;  ///< at least 1
    /// Of those, how many take small pieces alone; fewer than `threads`.
    int for_small = 0;
    /// How far others of this machine go first: `nice`.
    int nice = 0;
  };
  enum class Size : unsigned char { kSmall, kLarge };

  /// Forgets what has not begun and waits for what has.
  virtual ~Workers() = default;
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  /// Work of one owner (a job's id, say) is done in the order in which it came, one piece at a
  /// time; owners take turns.
  virtual void run(const std::string& owner, std::function<void()> work,
                   Size size = Size::kSmall) = 0;
  /// Waits until all that was given has been done, and takes no more.
  virtual void finish() = 0;
  /// Pieces of one owner that have not begun.
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

  /// Runs `work` on one of the threads, then what it returns, if anything, on the loop's. As
  /// `Workers::run`.
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
  std::unique_ptr<Workers> workers_;  // last: its threads end before what they work on goes
};

/// The queue of `Workers`. Work of one owner runs in the order in which it was added, one piece at
/// a time; owners take turns. Not thread-safe. Taking a small piece past large ones is O(owners),
/// all else O(log owners).
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
  /// Whether there is a piece to take; \param only_small  that is small
  bool has(bool only_small) const { return next(only_small) != turns_.end(); }
  /// A piece, which there is. Its owner has no turn until it is `done`.
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
  /// Forgets what nothing has taken.
  void clear() {
    turns_.clear();
    std::erase_if(owners_, [](const auto& owner) { return !owner.second.is_busy; });
    for (auto& [name, owner] : owners_) owner.waiting.clear();
  }

  /// Whether nothing waits and nothing is being done.
  bool empty() const { return owners_.empty(); }
  /// Pieces of one owner that wait.
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
    bool is_busy = false;  ///< one of its pieces is being done
  };

  std::deque<std::string>::const_iterator next(bool only_small) const {
    if (!only_small) return turns_.begin();
    return std::ranges::find_if(turns_, [this](const std::string& owner) {
      return owners_.at(owner).waiting.front().size == Workers::Size::kSmall;
    });
  }

  std::map<std::string, Owner> owners_;  ///< with something to do, or busy
  std::deque<std::string> turns_;        ///< with something to do and not busy
};

/// `Workers` that are threads.
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
