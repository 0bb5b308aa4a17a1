#include "harpe/carbon/pacing/structure_paces.h"

#include <algorithm>
#include <cmath>

#include "harpe/carbon/pacing/priced_paths.h"

namespace harpe {
namespace {

// Of a bisection of the price of work: doubles have 52 bits.
constexpr int kHalvings = 52, kDoublings = 60;

/// The linear programme of a structure. One interval may be flexible: it runs for a part of it, and
/// idles or is through for the rest, so that its curve begins with no speed at all.
class StructurePaces {
 public:
  StructurePaces(const PaceCurve& curve, const PacingJob& job,
                 std::span<const PacingInterval> intervals, std::vector<PacedInterval>& paced,
                 std::size_t flexible)
      : curve_(curve), intervals_(intervals), paced_(paced), flexible_(flexible) {
    if (flexible == kNoInterval) return;
    const PacingInterval& interval = intervals[flexible];
    const bool is_last = flexible + 1 == paced.size();
    const double rest = is_last ? 0 : interval.weight * job.pause.idle_power.value + job.held_cost;
    for (std::size_t i = 0; i < curve.paces().size(); ++i) {
      const CurvePace& pace = curve.paces()[i];
      const double rate = interval.weight * pace.power.value + job.held_cost;
      const double price = (rate - rest) / pace.speed;
      if (price >= first_price_) continue;
      first_price_ = price;
      first_pace_ = i;
    }
  }

  /// Paces that do the work exactly; more at the slowest where that is more. False: they cannot.
  bool set(double work) {
    double most = 0;
    for (std::size_t i = 0; i < paced_.size(); ++i) most += time_left(i);
    if (most < work * (1 - kWorkRounding)) return false;
    double low = lowest_price(), high = std::max(1.0, std::abs(low));
    double done = at(low);
    if (done >= work) return true;
    for (int i = 0; i < kDoublings && at(high) < work; ++i) high *= 2;
    for (int i = 0; i < kHalvings; ++i) {
      const double middle = (low + high) / 2;
      (at(middle) < work ? low : high) = middle;
    }
    // The intervals that differ between these prices buy the last of the work, all at one price:
    // the first of them first, for what is done is done.
    at(high);
    const std::vector<PacedInterval> faster = paced_;
    done = at(low);
    for (std::size_t i = 0; i < paced_.size() && done < work; ++i) fill(i, faster[i], work, done);
    return true;
  }

 private:
  double time_left(std::size_t i) const {
    return paced_[i].runs ? (intervals_[i].duration - paced_[i].lost).value : 0;
  }
  /// At which everything that is flexible idles.
  double lowest_price() const {
    return flexible_ == kNoInterval ? 0 : std::min(0.0, first_price_ - 1);
  }

  /// Sets the paces at a price; the work they do.
  double at(double price) {
    double work = 0;
    for (std::size_t i = 0; i < paced_.size(); ++i) {
      PacedInterval& paced = paced_[i];
      if (!paced.runs) continue;
      paced.faster_share = 0;
      paced.pace = curve_.best(intervals_[i].weight, std::max(price, 0.0));
      paced.run = {time_left(i)};
      if (i == flexible_) {
        if (price < first_price_) paced.run = {0};
        paced.pace = std::max(paced.pace, first_pace_);
      }
      work += curve_.paces()[paced.pace].speed * paced.run.value;
    }
    return work;
  }

  /// From one pace to a faster one, as far as work is missing.
  void fill(std::size_t i, const PacedInterval& faster, double work, double& done) {
    PacedInterval& paced = paced_[i];
    if (!paced.runs) return;
    if (paced.run < faster.run) {
      const double speed = curve_.paces()[paced.pace].speed;
      paced.run = {std::min(time_left(i), (work - done) / speed)};
      done += speed * paced.run.value;
    }
    while (paced.pace < faster.pace && done < work) {
      const double gain =
          (curve_.paces()[paced.pace + 1].speed - curve_.paces()[paced.pace].speed) *
          paced.run.value;
      if (gain > work - done) {
        paced.faster_share = (work - done) / gain;
        done = work;
      } else {
        ++paced.pace;
        done += gain;
      }
    }
  }

  const PaceCurve& curve_;
  std::span<const PacingInterval> intervals_;
  std::vector<PacedInterval>& paced_;
  std::size_t flexible_;
  double first_price_ = std::numeric_limits<double>::infinity();
  std::size_t first_pace_ = 0;
};

}  // namespace

std::optional<PacingPlan> plan_of_structure(const PaceCurve& curve, const PacingJob& job,
                                            std::span<const PacingInterval> intervals,
                                            std::vector<PacedInterval> paced,
                                            std::size_t flexible) {
  if (!StructurePaces(curve, job, intervals, paced, flexible).set(job.work)) return std::nullopt;
  PacingPlan plan{.finishes = true};
  double left = job.work;
  for (std::size_t i = 0; i < paced.size() && left > job.work * kWorkRounding; ++i) {
    PacedInterval& one = paced[i];
    one.idles_first = i == flexible && (i == 0 || !paced[i - 1].runs);
    IntervalUse use = use_of(curve, job, one, intervals[i].duration);
    if (use.work >= left * (1 - kWorkRounding)) {
      one.run = one.run * std::min(1.0, left / use.work);
      one.ends = true;
      use = use_of(curve, job, one, intervals[i].duration);
    }
    left -= use.work;
    plan.cost += intervals[i].weight * use.energy.value + job.held_cost * use.time.value;
    plan.intervals.push_back(one);
  }
  return plan;
}

}  // namespace harpe
