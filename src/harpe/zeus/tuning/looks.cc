#include "harpe/zeus/tuning/looks.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace harpe {
namespace {

constexpr std::int64_t kFirst = 80, kFirstByEarlierRun = 40;  // steps
// A look that is wanted is due after so many, at most.
constexpr double kSoon = 60;
// Steps between two looks, as a multiple of those of a look.
constexpr std::int64_t kOften = 8, kSeldom = 99;
// Range of the factor on the steps between two looks.
constexpr double kShortest = 0.7, kLongest = 1.3;
// Measured steps of a look, and those after which it ends without them.
constexpr std::int64_t kEnough = 10, kInVain = 400;
// Shares of the time that the bound allows: beyond the first a run goes back to the highest
// setting, and leaves it below the second. Below 1, as times are estimates.
constexpr double kGoesBack = 0.97, kLeaves = 0.9;

}  // namespace

void Looks::begin(bool by_earlier_run) {
  steps_ = 0;
  under_way_ = false;
  wait(by_earlier_run ? kFirstByEarlierRun : kFirst);
}

/// Multiples of the golden ratio are spread evenly, however many there are.
double Looks::next_phase() {
  phase_ = std::fmod(phase_ + std::numbers::phi, 1);
  return phase_;
}

void Looks::wait(std::int64_t steps) {
  interval_ = steps;
  due_ = static_cast<std::int64_t>(static_cast<double>(steps) *
                                   (kShortest + (kLongest - kShortest) * next_phase()));
}

void Looks::want() {
  due_ = std::min(due_, steps_ + static_cast<std::int64_t>(kSoon * next_phase()));
}

void Looks::start() {
  under_way_ = true;
  steps_ = measured_ = 0;
}

bool Looks::is_complete() const {
  return !owes_ && (measured_ >= kEnough || steps_ >= kInVain);
}

void Looks::end(bool has_moved) {
  const std::int64_t often = kOften * steps_;
  wait(has_moved ? often : std::clamp(2 * interval_, often, kSeldom * steps_));
  under_way_ = false;
  steps_ = 0;
}

void Looks::owe(const SavingAccount::Delay& delay, double most_slowdown) {
  const double share = owes_ ? kLeaves : kGoesBack;
  owes_ = delay.beyond + delay.deviation > delay.at_highest * ((most_slowdown - 1) * share);
}

}  // namespace harpe
