#pragma once
/// \file
/// A thread that runs pieces of work one at a time.

#include <functional>

#include "harpe/base/units.h"

namespace harpe {

class Loop {
 public:
  virtual ~Loop() = default;
  /// Runs `work` on the loop's thread, in the order of the calls. Callable from any thread.
  virtual void post(std::function<void()> work) = 0;
  /// Runs `work` once `delay` has passed. Callable only on the loop's thread.
  virtual void after(Seconds delay, std::function<void()> work) = 0;
};

}  // namespace harpe
