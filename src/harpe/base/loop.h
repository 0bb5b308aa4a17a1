#pragma once
/// \file
/// One thread on which pieces of work take turns.

#include <functional>

#include "harpe/base/units.h"

namespace harpe {

class Loop {
 public:
  virtual ~Loop() = default;
  /// Done in the order in which it comes. From any thread.
  virtual void post(std::function<void()> work) = 0;
  /// Done once `delay` has passed. On the loop's thread.
  virtual void after(Seconds delay, std::function<void()> work) = 0;
};

}  // namespace harpe
