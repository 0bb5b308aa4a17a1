#pragma once
/// \file
/// Energy that plans save, compared with the same iterations at all-max, and its error.
///
/// Iterations at all-max are measured before the first plan and in looks: a few iterations at
/// all-max between those by plans. So an iteration by a plan is compared with an estimate. Let
/// `used` be its measured energy, and `by_plan` and `at_all_max` the energies that the profile
/// predicts for it and for the same iteration at all-max. Then
///
///   saved = at_all_max + level + share x (beyond - reference) - used,   beyond = used - by_plan.
///
/// `level` is the measured energy of the last look minus the predicted one. `reference` is the same
/// difference for the plan: the median of its 15 iterations around the last look, or of its first
/// ones. If the plan's iterations later use more or less energy in the same time (a hotter room,
/// other data), iterations at all-max are assumed to change in proportion: `share` is all-max over
/// plan. Example: 100 J at all-max and 80 J by the plan are measured in a hot room. The room cools
/// down, and the plan uses 64 J. Then 16 J are saved, not 36.
///
/// If the energies change while the job gets another plan, the first iterations of that plan would
/// hide the change. So they are compared with the expected ones: the plans before and after have
/// the same share of unexplained energy, unless the profile predicts one of them better. If the
/// iterations between them were measured, the profile is assumed to be the cause of a difference,
/// but the error includes it until a look shows the same level as before. If they were not, because
/// another server took over the job, a change is assumed: the plan's `reference` is the expected
/// one.
///
/// If the next look is overdue, as under a power cap, the error includes a change of all-max.
///
/// The next look shows by how much all-max has changed beyond that. The change is assumed to have a
/// constant rate, so half of it corrects the savings since the look before. It may also have been
/// sudden, so it widens the error as well. The drift that earlier looks have shown widens the error
/// of the iterations since the last look, and the error grows with time. A look has only a few
/// iterations, so its level is averaged with the expected one, weighted by their errors (a Kalman
/// filter of a random walk).
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

namespace harpe::training {

class Savings {
 public:
  /// Iterations of a plan whose median is its reference.
  static constexpr std::size_t kReference = 15;

  /// An iteration by a plan: joules of all GPUs of the job.
  struct ByPlan {
    std::int64_t number = 0;  ///< of the iteration
    double used = 0;
    double used_error = 0;
    double by_plan = 0;     ///< energy that the profile predicts for it
    double at_all_max = 0;  ///< energy that the profile predicts for it at all-max
    double at_all_max_error = 0;
  };
  /// \param plan  a number for each plan: its iterations are compared with each other
  /// \returns  false if the iteration does not count because an energy is NaN or no look was made
  bool add(std::uint64_t plan, const ByPlan& iteration);

  /// Adds iterations at all-max: joules of all GPUs minus those predicted, in the order of the
  /// iterations. Fewer than two are ignored.
  /// \param newest  number of the last of them, if known
  void look(std::span<const double> beyond, std::optional<std::int64_t> newest = {});

  /// Must be called when the profile changes. No iteration counts before the next look.
  void forget_level();

  bool has_level() const { return level_.has_value(); }
  Joules saved() const { return {done_.joules + open().joules}; }
  Joules error() const;
  /// Returns true if all-max had changed by more than noise at the last look.
  bool has_moved() const { return has_moved_; }

  /// The state for a snapshot.
  struct Kept {
    double saved = 0, bias = 0, variance = 0;  ///< J, J, J^2; until the last look
    double since = 0, since_bias = 0, since_variance = 0, since_moved = 0;  ///< since the last look
    double since_doubted = 0;                                               ///< J
    double iterations = 0;                                                  ///< since the last look
    std::optional<double> level;                                            ///< J
    double look_level = 0;  ///< J: `level` at the last look
    double at_all_max = 0;  ///< J: predicted for the newest iteration
    double level_error = 0;
    double drift = 0;                                ///< J^2 for each iteration
    double noise_by_plan = 0, noise_at_all_max = 0;  ///< J: of an iteration; 0 if unknown
    bool is_confirmed = false;                       ///< by a second look
    /// Unexplained joules over predicted ones that are expected of the next plan.
    std::optional<double> expected_share = {};
  };
  Kept kept() const;
  void restore(const Kept& kept);
  /// Continues from the savings of the specification before, without its level.
  void inherit(const Savings& before);

 private:
  /// Joules with their error: `bias` adds up over iterations, `variance` is of independent errors.
  struct Sum {
    double joules = 0, bias = 0, variance = 0;
    /// Change of all-max since the last look, J, that was inferred from plans.
    double moved = 0;
    /// Until the next look: joules that are too many if all-max changed whenever the plan did.
    double doubted = 0;
    friend Sum operator+(const Sum& a, const Sum& b) {
      return {a.joules + b.joules, a.bias + b.bias, a.variance + b.variance, a.moved + b.moved,
              a.doubted + b.doubted};
    }
  };
  /// Iterations of one plan since the last look.
  struct Plan {
    std::uint64_t number = 0;
    double iterations = 0;
    double used = 0, used_variance = 0, beyond = 0, at_all_max = 0, at_all_max_error = 0;  ///< sums
    std::vector<double> first = {};  ///< unexplained joules of the first iterations
    std::size_t before = 0;          ///< number of values in `first` from before the last look
    std::optional<double> expected_share = {};  ///< see `Kept`
    bool follows_gap = false;  ///< iterations between the two plans were not measured
    std::deque<double> newest = {};
  };
  bool is_near(std::int64_t iteration) const;
  double reference(const Plan& plan) const;
  double expected_reference(const Plan& plan) const;
  std::span<const double> first_values(const Plan& plan) const;
  std::span<const double> until_step(std::span<const double> values, std::size_t least) const;
  double share(const Plan& plan) const;
  /// Standard deviation of an iteration's energy, estimated from the differences of neighbours:
  /// drift hardly changes those.
  struct Noise {
    RunningMedian differences;
    double deviation = 0;
    int known = 0;
    void add(double difference);
    /// Returns the noise that was known to have this deviation.
    static Noise of(double deviation);
    /// Returns the half-width of the 95 % interval of the median of that many values.
    double error_of_median(std::size_t values) const;
  };
  Sum claim(const Plan& plan) const;
  void end_plan(bool goes_on);
  Sum open() const;
  void count_doubt(double change, double noise);
  double error_of_look(std::size_t values) const;

  Sum done_;   ///< until the last look
  Sum since_;  ///< of plans that have ended since
  double iterations_ = 0;
  Plan plan_;
  std::optional<double> level_;
  double look_level_ = 0, level_error_ = 0;
  double drift_ = 0;
  bool is_confirmed_ = false, has_moved_ = false;
  bool has_gap_ = false;                  ///< iterations since the last look were not measured
  std::optional<std::int64_t> newest_;    ///< number of the newest iteration
  std::optional<double> expected_share_;  ///< see `Kept`
  double newest_at_all_max_ = 0;          ///< see `Kept`
  Noise by_plan_, at_all_max_;
};

}  // namespace harpe::training
