#pragma once
/// \file
/// What plans save against the same iterations at all-max, and how well that is known.
///
/// All-max is seen now and then only: before the first plan, and in looks between. So an iteration
/// by a plan is compared with an estimate. With `used` the energy that it took, `by_plan` and
/// `at_all_max` what the profile explains of it and of the same iteration at all-max,
///
///   saved = at_all_max + level + share x (beyond - reference) - used,   beyond = used - by_plan.
///
/// `level` is what the last look showed beyond what the profile explains. `reference` is the same
/// of the plan's own iterations, the median of 15 of them around the last look, or of its first:
/// where they come to use more or less while they take as long (a hotter room, other data), an
/// iteration at all-max would do so, too, in proportion. Example: 100 J at all-max and 80 J by the
/// plan were measured in a room that cools down by the 60th iteration, from when on the plan takes
/// 64 J: 16 J are saved then, not 36.
///
/// The next look shows by how much all-max has moved beyond that. The change is taken to have come
/// at a constant rate, so half of it corrects what was claimed since the look before; as it may
/// have come at any moment, it widens the bar as well. What drift earlier looks have shown widens
/// the bar of the iterations since the last one, the more the older it is. The level of a look is
/// weighted with what was expected of it (a Kalman filter of a random walk), so that looks of a few
/// iterations together say what they cannot say alone.
///
/// Errors are half-widths of 95 % intervals. Not thread-safe.

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <vector>

#include "harpe/base/statistics.h"
#include "harpe/base/units.h"

namespace harpe {

class Savings {
 public:
  /// Iterations of a plan whose median is its reference.
  static constexpr std::size_t kReference = 15;

  /// An iteration by a plan: joules of all GPUs of the job.
  struct ByPlan {
    double used = 0;
    double used_error = 0;
    double by_plan = 0;     ///< of it, what the profile explains
    double at_all_max = 0;  ///< what the profile explains of the same iteration at all-max
    double at_all_max_error = 0;
  };
  /// \param plan  what is compared with its own iterations alone: a version of the assignments
  void add(std::uint64_t plan, const ByPlan& iteration);

  /// Iterations at all-max that have ended: joules of all GPUs beyond what the profile explains, in
  /// the order in which they were. Fewer than two say nothing.
  void look(std::span<const double> beyond);

  /// Another profile explains iterations from now on: nothing is claimed before the next look.
  void forget_level();

  Joules saved() const;
  Joules error() const;
  /// Whether the last look showed that all-max had moved by more than noise.
  bool has_moved() const { return has_moved_; }

  /// What a snapshot keeps.
  struct Kept {
    double saved = 0, bias = 0, variance = 0;  ///< J, J, J^2: until the last look
    double since = 0, since_bias = 0, since_variance = 0, since_moved = 0;  ///< the same since then
    double iterations = 0;                                                  ///< since then
    std::optional<double> level;                                            ///< J
    double look_level = 0;  ///< J: `level` at the last look
    double level_error = 0;
    double drift = 0;           ///< J^2 for each iteration
    bool is_confirmed = false;  ///< by a second look
  };
  Kept kept() const;
  void restore(const Kept& kept);
  /// Takes over what another one has claimed; its level is of another specification.
  void inherit(const Savings& before);

 private:
  /// Joules, and what is not known of them: errors that add up, and independent ones.
  struct Sum {
    double joules = 0, bias = 0, variance = 0;
    /// Of all-max, as far as it was taken to move with plans since the last look.
    double moved = 0;
    friend Sum operator+(const Sum& a, const Sum& b) {
      return {a.joules + b.joules, a.bias + b.bias, a.variance + b.variance, a.moved + b.moved};
    }
  };
  /// Iterations of one plan since the last look.
  struct Plan {
    std::uint64_t number = 0;
    double iterations = 0;
    double used = 0, used_variance = 0, beyond = 0, at_all_max = 0, at_all_max_error = 0;  ///< sums
    std::vector<double> first;  ///< values beyond, at most `kReference`
    std::size_t before = 0;     ///< of them, those from before the last look
    std::deque<double> newest;
  };
  double reference(const Plan& plan) const;
  double share(const Plan& plan) const;
  /// Of an iteration's energy: the deviation of single values, from differences of neighbours,
  /// which drift hardly moves.
  struct Noise {
    RunningMedian differences;
    double deviation = 0;
    int known = 0;
    void add(double difference);
    /// Half-width of the interval of a median of so many.
    double error_of_median(std::size_t values) const;
  };
  Sum claim(const Plan& plan) const;
  void end_plan(bool goes_on);
  Sum open() const;
  double error_of_look(std::size_t values) const;

  Sum done_;   ///< until the last look
  Sum since_;  ///< of plans that have ended since
  double iterations_ = 0;
  Plan plan_;
  std::optional<double> level_;
  double look_level_ = 0, level_error_ = 0;
  double drift_ = 0;
  bool is_confirmed_ = false, has_moved_ = false;
  Noise by_plan_, at_all_max_;
};

}  // namespace harpe
