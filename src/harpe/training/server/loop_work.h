#pragma once
/// \file
/// Work that other threads hand to a loop, left out once the object that it is for has gone.

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "harpe/base/loop.h"
#include "harpe/training/server/workers.h"

namespace harpe::training {

/// A member of the one that the work is for, before the threads that hand it over. `post` may be
/// called from any thread; all else, and the work itself, is on the loop's thread.
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

}  // namespace harpe::training
