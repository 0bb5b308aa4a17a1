#include "harpe/training/job/search_course.h"

#include <algorithm>

namespace harpe::training {

void SearchCourse::begin_slice() {
  has_begun_ = false;
  gained_at_ = 0;
}

bool SearchCourse::goes_on(std::int64_t windows, Joules energy, Joules bound, Seconds taken) {
  if (!has_begun_ || energy < least_ * (1 - kWorthwhile)) {
    least_ = energy;
    gained_at_ = has_begun_ ? windows : 0;
    has_begun_ = true;
  }
  windows_ = std::max(windows_, windows);
  constexpr double kRounding = 1 + 1e-9;
  const bool is_best = energy <= bound * kRounding;
  ended_ = ended_ || is_best || is_in_vain(windows) || spent_ + taken >= limits_.time;
  return !ended_;
}

void SearchCourse::end_slice(Seconds taken) {
  spent_ += taken;
  if (!ended_) windows_ = slice_;
  if (is_in_vain(windows_) || slice_ >= limits_.most || spent_ >= limits_.time) ended_ = true;
  if (!ended_) slice_ *= 2;
}

void SearchCourse::give_up_slice(Seconds taken) {
  spent_ += taken;
  if (spent_ >= limits_.time) ended_ = true;
}

}  // namespace harpe::training
