#pragma once
/// \file
/// What an optimizer asks of the loop that drives it. The loop tells it of each step that begins
/// and each epoch that ends, and carries out the actions it gets back, in order. After closing or
/// pausing a window it reads the counters and hands in seconds and joules with `on_window`, which
/// may give further actions.

#include <cstddef>
#include <vector>

namespace harpe::zeus {

struct KnobAction {
  enum class Kind : unsigned char {
    kSet,           ///< put `setting` in force on all GPUs
    kOpenWindow,    ///< begin to measure
    kCloseWindow,   ///< end it and hand in what it took
    kCancelWindow,  ///< end it and forget it; `on_window` is not called
  };
  Kind kind = Kind::kSet;
  std::size_t setting = 0;  ///< position in the knob, for kSet
  friend bool operator==(const KnobAction&, const KnobAction&) = default;
};
using KnobActions = std::vector<KnobAction>;

}  // namespace harpe::zeus
