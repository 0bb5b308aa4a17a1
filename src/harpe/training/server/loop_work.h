#pragma once
/// \file
/// Work that other threads hand to a loop, left out once the one it is for has gone.

#include <functional>
#include <memory>
#include <utility>

#include "harpe/base/loop.h"

namespace harpe {

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

}  // namespace harpe
