#pragma once
/// \file
/// The saving of a run against its highest setting, while the cost of a step drifts.
///
/// A run is a sequence of visits: the steps between two changes of the setting. A visit to the
/// highest setting is a look. Each look j is compared with the nearest measured steps of a lower
/// setting s, before and after it: r_j(s) = (cost of a step in the look) / (cost of those steps).
/// A visit e to s between looks j and j + 1 used E_e (the mean power of its measured windows times
/// the time of its steps) and would have used E_e r at the highest setting. Here log r changes from
/// log r_j(s) to log r_(j+1)(s) in proportion to the time between the looks. After the last look r
/// is constant. So
///
///     saved = sum over e of E_e (r_e - 1)
///
/// If steps become longer or shorter under every setting alike, r does not change. Numbers
/// of steps count only within a window, so lines that are not steps claim no saving.
///
/// The error is the half-width of the 95 % interval. The variance of a look's log r is the largest
/// of three: that of its windows; half the mean square of log r_(j+1) - log r_j over all
/// neighbouring looks, which measures how far r moves between looks; and that of the cost of a step
/// from one window to the next under one setting, by the mean of its absolute changes. The time
/// after the last look adds a move as large as the observed ones. A visit without a measured window
/// adds an error of `kUnmeasured` times its energy. The mean square includes one pair of
/// `kUnseenMove`, which matters if there are few looks, and Student's t has two more degrees of
/// freedom than there are pairs.
///
/// Complexity: three entries per visit, O(entries) per result. Pure; not thread-safe.

#include <cstdint>
#include <optional>
#include <vector>

#include "harpe/base/units.h"

namespace harpe::zeus {

struct Saving {
  Joules saved{}, error{};
  Joules at_highest{};  ///< energy of the same steps at the highest setting
};

/// Consecutive steps that were measured together.
struct MeasuredSteps {
  std::int64_t steps = 0;  ///< 0 if unknown; such steps are not compared with looks
  Seconds time{};          ///< above 0
  Joules energy{};         ///< above 0
  Joules error{};          ///< half-width of the 95 % interval, with the scatter of the steps
  Seconds time_error{};    ///< half-width, by the scatter of the steps alone
};

class SavingAccount {
 public:
  /// Adds the time of a step under this setting. Must not be called for pauses.
  void step(std::size_t setting, Seconds took);
  /// Adds measured steps to the current visit.
  void add(std::size_t setting, const MeasuredSteps& measured);
  /// Adds steps that an earlier run of the same job measured. They are not part of the saving.
  void add_known(std::size_t setting, const MeasuredSteps& measured);

  /// Returns the saving, at most the energy used.
  /// \param host_power  adds to the energy
  Saving saving(Watts host_power) const;

  /// Time of this run beyond its time at the highest setting, the deviation of that by the observed
  /// moves between looks, and the time at the highest setting.
  struct Delay {
    Seconds beyond{}, deviation{}, at_highest{};
  };
  Delay delay() const;

  /// Time of a step over that at the highest setting, by the newest looks, with the half-width of
  /// its 95 % interval. Nullopt if the setting or the highest one was not measured.
  struct Slowdown {
    double ratio = 1, error = 0;
  };
  std::optional<Slowdown> slowdown(std::size_t setting) const;
  /// Difference of log r between the newest two looks, with the half-width of its 95 % interval by
  /// the errors of the windows. Nullopt if there are fewer than two looks.
  struct Move {
    double log_ratio = 0, error = 0;
  };
  std::optional<Move> last_move(std::size_t setting, Watts host_power) const;

 private:
  struct Entry {
    std::size_t setting = 0;
    MeasuredSteps measured{};
    double active = 0;  ///< s of all steps, measured or not
  };
  /// Weights of the energy and the time of a step in its cost.
  struct Weights {
    double joules = 0, seconds = 0;
    double of(const MeasuredSteps& one) const {
      return joules * one.energy.value + seconds * one.time.value;
    }
  };
  struct Look;
  struct Ratio;
  struct Total;
  struct Sums;

  void enter(std::size_t setting);
  void close_visit();
  void compare_with_last(const MeasuredSteps& measured);
  std::vector<Entry> complete() const;
  static std::vector<Look> looks_of(const std::vector<Entry>& entries, Weights weights);
  static std::optional<Ratio> ratio_at(const std::vector<Entry>& entries,
                                       const std::vector<Look>& looks, std::size_t look,
                                       std::size_t setting, Weights weights);
  static void add_between(Sums& sums, const std::vector<Entry>& entries,
                          const std::vector<Look>& looks, std::size_t begin, std::size_t end,
                          std::size_t next, Weights weights);
  Total total(Weights weights) const;

  std::vector<Entry> entries_;
  std::size_t setting_ = 0;
  std::int64_t entries_of_visit_ = 0;
  std::optional<double> last_cost_;           ///< log J of a step in the newest window of the visit
  double changes_ = 0, changes_counted_ = 0;  ///< sum and number of its absolute changes
  double pending_ = 0;                        ///< s of steps since the last entry of the visit
  double unmeasured_ = 0;                     ///< s of visits to lower settings without an entry
};

}  // namespace harpe::zeus
