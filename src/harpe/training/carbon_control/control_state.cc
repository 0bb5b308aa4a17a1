#include "harpe/training/carbon_control/control_state.h"

namespace harpe::training {

void IterationCount::observe(std::int64_t newest) {
  if (newest == newest_) return;
  if (newest < 0) {
    before_ = newest_;
    base_ = done();
    newest_ = -1;
    return;
  }
  // Training continues with the next iteration, as after it ended to pause.
  if (newest_ < 0 && before_ >= 0 && newest == before_ + 1) {
    base_ -= before_ + 1;
    newest_ = newest;
    return;
  }
  // The first of another start, or a start of which the beginning was not seen.
  if (newest_ < 0 && newest >= kFirstFew && base_ > 0) base_ = 0;
  if (newest < newest_) base_ = newest < kFirstFew ? done() : 0;
  newest_ = newest;
}

}  // namespace harpe::training
